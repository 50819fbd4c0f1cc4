"""A look at a run's policies before anything is written or started: who they are, and whether they can play it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rollouts.config import RunConfig
from rollouts.errors import RolloutsError, UsageError
from rollouts.policies.base import ActsInBatches, ChecksScenario, HasReset, Policy, TriesOut, closing_policy
from rollouts.policies.mixture import MixturePolicy
from rollouts.policies.registry import make_policy, nested
from rollouts.records import PolicyDescription
from rollouts.scenarios.scenario import Scenario
from rollouts.scrub import describe_error
from rollouts.settings import flag


@dataclass(frozen=True)
class Seen:
    """`batched`: as what a policy server can hold it, or the policy inside it; None where that does not answer in
    batches, or remembers episodes."""

    who: PolicyDescription
    batched: str | None = None


def look_at_policies(config: RunConfig, scenarios: tuple[Scenario, ...], may_ask: bool = True) -> dict[str, Seen]:
    """By what each was asked for as. `may_ask`: those that only read text are asked one question.

    Errors: UsageError where one cannot be made, cannot play a scenario, gives what is no answer, needs what the run has
    not, or two have one name.
    """
    found: dict[str, Seen] = {}
    for spec in config.policies:
        seen = _look_at(spec, scenarios, config, may_ask)
        twin = next((other for other, known in found.items() if known.who.name == seen.who.name), None)
        if twin is not None:
            raise UsageError(
                f"policies {twin!r} and {spec!r} both call themselves {seen.who.name!r}: keep one, or rename one"
            )
        found[spec] = seen
    if config.policy_server and not any(seen.batched for seen in found.values()):
        raise UsageError(
            f"{flag('policy_server')} {config.policy_server}: none of the policies ({', '.join(found)}) can be asked "
            "in batches (that takes act_batch(questions), and no reset)"
        )
    return found


def _look_at(spec: str, scenarios: tuple[Scenario, ...], config: RunConfig, may_ask: bool) -> Seen:
    with _blamed(spec, "cannot be made"):
        made = make_policy(spec, scenarios[0], None, config.model_settings)
    with _blamed(spec, "cannot be looked at"), closing_policy(made) as policy:
        batched = nested(spec)[-1] if _answers_in_batches(policy) else None
        _check(policy, spec, scenarios, config)
        _check_gpu(policy, spec, served=bool(batched and config.policy_server), config=config)
        if may_ask and isinstance(policy, TriesOut):
            with _blamed(spec, "was asked a question, and the answer is none"):
                policy.try_out(scenarios[0].options, next(iter(scenarios[0].instructions.values()), None))
        return Seen(policy.describe(), batched)


@contextmanager
def _blamed(spec: str, what: str) -> Iterator[None]:
    """A user's class may raise anything: that is said in one line."""
    try:
        yield
    except RolloutsError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"policy {spec!r} {what}: {describe_error(error)}") from error


def _answers_in_batches(policy: Policy) -> bool:
    """Of a mixture, the policy inside."""
    asked = policy.inner if isinstance(policy, MixturePolicy) else policy
    return isinstance(asked, ActsInBatches) and not isinstance(asked, HasReset)


def _check(policy: Policy, spec: str, scenarios: tuple[Scenario, ...], config: RunConfig) -> None:
    if config.frames == "none" and getattr(policy, "needs_frames", False):
        raise UsageError(f'policy {spec!r} looks at frames: {flag("frames")} must not be "none"')
    if isinstance(policy, ChecksScenario):
        for scenario in scenarios:
            policy.check_scenario(scenario)


def _check_gpu(policy: Policy, spec: str, served: bool, config: RunConfig) -> None:
    setting = "policy_server_gpus" if served else "gpus_per_actor"
    if getattr(policy, "needs_gpu", False) and not getattr(config, setting):
        raise UsageError(f"policy {spec!r} needs a GPU: give it a part of one with {flag(setting)}, such as 0.25")
