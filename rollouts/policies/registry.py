"""The policies by name. To add one: a file beside this one, and a line in POLICIES."""

from __future__ import annotations

from rollouts.errors import UsageError
from rollouts.importing import import_object
from rollouts.policies.base import ActsInBatches, Policy, PolicyContext, PolicyFactory
from rollouts.policies.batch_only import BatchOnlyPolicy
from rollouts.policies.causal_lm import CausalLMPolicy
from rollouts.policies.contract import check_class, check_policy_object
from rollouts.policies.gpu import limit_torch_memory
from rollouts.policies.onnx_network import make_onnx_policy
from rollouts.policies.oracle import OraclePolicy
from rollouts.policies.text_only import TextBackend, TextOnlyPolicy
from rollouts.policies.torch_network import make_torch_policy
from rollouts.policies.uniform import RandomPolicy
from rollouts.scenarios import Scenario

POLICIES: dict[str, PolicyFactory] = {
    "oracle": OraclePolicy,
    "random": RandomPolicy,
    "torch": make_torch_policy,
    "onnx": make_onnx_policy,
    "transformers": CausalLMPolicy,
}


def check_policy(spec: str) -> None:
    """Refuse a `--policy` that names neither a registered policy nor an importable `module:Class`."""
    if spec.partition(":")[0] not in POLICIES:
        _user_class(spec)


def make_policy(spec: str, scenario: Scenario, gpus: float | None = 0.0) -> Policy:
    """Make the policy that `NAME`, `NAME:ARGUMENT` or `module:Class` names, for one scenario; `gpus` as in
    `PolicyContext`."""
    name, _, argument = spec.partition(":")
    if name in POLICIES:
        return POLICIES[name](PolicyContext(scenario, argument or None, gpus))
    found = _user_class(spec)
    limit_torch_memory(gpus)
    return _widen(found(), spec)


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
