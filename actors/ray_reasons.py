"""What Ray says when something is lost, in words for people."""

from __future__ import annotations

from ray import exceptions

from rollouts.scrub import describe_error, scrub

_CREATION = "error raised in its creation task"


def why(error: BaseException) -> str:
    """Ray's reason in one line, without its ids and tables."""
    if isinstance(error, exceptions.RayTaskError) and error.cause is not None:
        return describe_error(error.cause)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, exceptions.RuntimeEnvSetupError):
        return scrub(": ".join(dict.fromkeys(line.rstrip(".") for line in (lines[0], lines[-1]))))
    if lines and _CREATION in lines[0]:
        return scrub(f"the actor could not be made: {lines[-1]}")
    reason = next((line for line in lines if line.startswith("The actor is dead because")), lines[0] if lines else "")
    return scrub(reason or type(error).__name__)
