"""Ray's reasons, in one line each."""

from __future__ import annotations

from ray import exceptions

from actors.ray_reasons import why


def test_an_environment_that_cannot_be_set_up_is_told_with_its_reason() -> None:
    told = "Failed to download the working dir.\nTraceback (most recent call last):\n  ...\nOSError: no space left"
    assert why(exceptions.RuntimeEnvSetupError(told)) == "Failed to set up runtime environment: OSError: no space left"
    assert why(exceptions.RuntimeEnvSetupError()) == "Failed to set up runtime environment"


def test_a_dead_actor_is_told_by_the_line_that_says_why() -> None:
    assert why(exceptions.RayActorError(error_msg="The actor died.\nclass: X\nThe actor is dead because of y.")) == (
        "The actor is dead because of y."
    )
