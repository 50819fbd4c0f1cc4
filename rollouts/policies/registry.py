"""The policies by name. To add one: a file beside this one, and a line in POLICIES."""

from __future__ import annotations

from functools import partial

from rollouts.errors import UsageError
from rollouts.importing import import_object
from rollouts.policies.base import ModelCalls, Policy, PolicyContext, PolicyFactory, teacher_of
from rollouts.policies.chat import ChatPolicy
from rollouts.policies.choice import ChoicePolicy
from rollouts.policies.mixture import MixturePolicy, Parts
from rollouts.policies.model_settings import ModelSettings
from rollouts.policies.oracle import OraclePolicy
from rollouts.policies.text_only import TextBackend, TextOnlyPolicy
from rollouts.policies.uniform import RandomPolicy
from rollouts.scenarios import Scenario

POLICIES: dict[str, PolicyFactory] = {
    "chat": ChatPolicy,
    "choice": ChoicePolicy,
    "oracle": OraclePolicy,
    "random": RandomPolicy,
    "mixture": MixturePolicy,
}
NEEDS_TEACHER = frozenset({"oracle", "mixture"})


def nested(spec: str) -> tuple[str, ...]:
    """`spec` itself and then the policy inside it, where it holds one: what is checked at start is checked of each.

    Errors: `UsageError` where a mixture contradicts itself.
    """
    name, _, argument = spec.partition(":")
    return (spec, *nested(Parts.read(argument).inner)) if name == "mixture" else (spec,)


def check_policy(spec: str) -> None:
    """Refuse a `--policy` that names neither a registered policy nor an importable `module:Class`; the same holds for
    one inside it."""
    for each in nested(spec):
        if each.partition(":")[0] not in POLICIES:
            _user_class(each)


def check_teacher(spec: str, scenario: Scenario) -> None:
    """Refuse a policy that needs a teacher where the scenario has none; one inside it too."""
    for each in nested(spec):
        if (name := each.partition(":")[0]) in NEEDS_TEACHER:
            teacher_of(name, scenario)


DEFAULT_SETTINGS = ModelSettings()


def make_policy(
    spec: str, scenario: Scenario, settings: ModelSettings = DEFAULT_SETTINGS, calls: ModelCalls | None = None
) -> Policy:
    """Make the policy that `NAME`, `NAME:ARGUMENT` or `module:Class` names, for one scenario.

    `settings` and `calls` are for those that are models; without `calls` they can be described and cannot act.
    """
    name, _, argument = spec.partition(":")
    if name in POLICIES:
        make = partial(make_policy, scenario=scenario, settings=settings, calls=calls)
        return POLICIES[name](PolicyContext(scenario, argument or None, settings, calls, make))
    return _widen(_user_class(spec)(), spec)


def _user_class(spec: str) -> type:
    choices = f"choose from {', '.join(POLICIES)}, or name your own class as module:Class"
    found = import_object(spec, "policy", choices)
    if not isinstance(found, type):
        raise UsageError(f"policy {spec!r} is not a class; {choices}")
    return found


def _widen(made: object, spec: str) -> Policy:
    """A full policy as it is, a text-only backend inside the adapter."""
    if callable(getattr(made, "act", None)) and callable(getattr(made, "describe", None)):
        return made  # type: ignore[return-value]
    if isinstance(made, TextBackend):
        return TextOnlyPolicy(made)
    raise UsageError(f"policy {spec!r} has neither act(…) nor predict_choice(…) beside describe()")
