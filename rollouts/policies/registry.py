"""The policies by name. To add one: a file beside this one, and a line in POLICIES."""

from __future__ import annotations

from functools import partial

from rollouts.errors import UsageError
from rollouts.importing import import_object
from rollouts.policies.base import (
    ActsInBatches,
    ModelCalls,
    OpensPolicies,
    Policy,
    PolicyContext,
    PolicyFactory,
    teacher_of,
)
from rollouts.policies.batch_only import BatchOnlyPolicy
from rollouts.policies.causal_lm import CausalLMPolicy
from rollouts.policies.chat import ChatPolicy
from rollouts.policies.choice import ChoicePolicy
from rollouts.policies.contract import check_class, check_policy_object
from rollouts.policies.gpu import limit_torch_memory
from rollouts.policies.mixture import MixturePolicy, Parts
from rollouts.policies.model_settings import ModelSettings
from rollouts.policies.onnx_network import make_onnx_policy
from rollouts.policies.oracle import OraclePolicy
from rollouts.policies.text_only import TextBackend, TextOnlyPolicy
from rollouts.policies.torch_network import WITH_CLASS, make_torch_policy
from rollouts.policies.uniform import RandomPolicy
from rollouts.scenarios.scenario import Scenario

POLICIES: dict[str, PolicyFactory] = {
    "chat": ChatPolicy,
    "choice": ChoicePolicy,
    "oracle": OraclePolicy,
    "random": RandomPolicy,
    "mixture": MixturePolicy,
    "torch": make_torch_policy,
    "onnx": make_onnx_policy,
    "transformers": CausalLMPolicy,
}
NEEDS_TEACHER = frozenset({"oracle", "mixture"})
HAVE_CHECKPOINTS = frozenset({"torch", "onnx", "transformers"})


def nested(spec: str) -> tuple[str, ...]:
    """`spec` itself and then the policy inside it, where it holds one: what is checked at start is checked of each.

    Errors: `UsageError` where a mixture contradicts itself.
    """
    name, _, argument = spec.partition(":")
    return (spec, *nested(Parts.read(argument).inner)) if name == "mixture" else (spec,)


def around_path(spec: str) -> tuple[str, str, str] | None:
    """The path of a policy's checkpoint (of the policy inside it, where it holds one), between what is before and after
    it; None where it names no path."""
    inner = nested(spec)[-1]
    name, _, argument = inner.partition(":")
    if name not in HAVE_CHECKPOINTS or not argument:
        return None
    match = WITH_CLASS.fullmatch(argument) if name == "torch" else None
    path = match["path"] if match else argument
    before = f"{spec.removesuffix(inner)}{name}:"
    return before, path, spec[len(before) + len(path) :]


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


def make_policy(  # noqa: PLR0913, PLR0917  all but two have defaults
    spec: str,
    scenario: Scenario,
    gpus: float | None = 0.0,
    settings: ModelSettings = DEFAULT_SETTINGS,
    calls: ModelCalls | None = None,
    server: OpensPolicies | None = None,
) -> Policy:
    """Make the policy that `NAME`, `NAME:ARGUMENT` or `module:Class` names, for one scenario; `gpus` as in
    `PolicyContext`.

    `settings` and `calls` are for models behind an endpoint; without `calls` they can be described and cannot act.
    What `server` holds asks it, also inside another policy.
    """
    if server is not None and (served := server.open(spec, scenario)) is not None:
        return served
    name, _, argument = spec.partition(":")
    if name in POLICIES:
        make = partial(make_policy, scenario=scenario, gpus=gpus, settings=settings, calls=calls, server=server)
        return POLICIES[name](PolicyContext(scenario, argument or None, make, gpus, settings, calls))
    found = _user_class(spec)
    limit_torch_memory(gpus)
    made = found()
    limit_torch_memory(gpus)  # it may have imported torch only now
    return _widen(made, spec)


def _user_class(spec: str) -> type:
    choices = f"choose from {', '.join(POLICIES)}, or name your own class as module:Class"
    found = import_object(spec, "policy", choices)
    if not isinstance(found, type):
        raise UsageError(f"policy {spec!r} is not a class; {choices}")
    check_class(found, spec)
    return found


def _widen(made: object, spec: str) -> Policy:
    """A full policy as it is; what only answers batches, or only reads text, inside its adapter."""
    check_policy_object(made, spec)
    if callable(getattr(made, "act", None)):
        return made  # type: ignore[return-value]
    if isinstance(made, ActsInBatches):
        return BatchOnlyPolicy(made)
    assert isinstance(made, TextBackend), "checked above"
    return TextOnlyPolicy(made)
