"""Policies by name, by `module:Class`, and the contract of every registered one."""

from __future__ import annotations

import numpy as np
import pytest

from rollouts.errors import UsageError
from rollouts.policies.base import ActsInBatches, HasReset, Question
from rollouts.policies.registry import NEEDS_TEACHER, around_path, check_policy, make_policy
from rollouts.policies.text_only import TextOnlyPolicy
from rollouts.records import Answer, EpisodeKey, Snapshot
from rollouts.scenarios.registry import SCENARIOS
from tests.doubles import COUNTING, counting_scenario

MODELS = frozenset({"chat", "choice"})
"""They answer over HTTP: see their own tests."""
EXAMPLES = {"mixture": "mixture:0:random"}
"""For a policy that cannot be without an argument."""


@pytest.mark.parametrize("name", ["oracle", "random", "mixture"])
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda s: s.name)
def test_every_policy_answers_with_an_option_and_probabilities_that_sum_to_1(name: str, scenario) -> None:  # type: ignore[no-untyped-def]
    if name in NEEDS_TEACHER and scenario.teacher is None:
        pytest.skip("a scenario without a teacher: refused, see below")
    spec = EXAMPLES.get(name, name)
    policy = make_policy(spec, scenario)
    if isinstance(policy, HasReset):
        policy.reset(EpisodeKey(scenario.name, "rule", name, 1, 0), np.random.default_rng(0))
    answer = policy.act(Snapshot(0, health=100, ammo=26, kills=0), "text", scenario.options, None)
    assert answer.choice in scenario.options
    assert sum(answer.probabilities.values()) == pytest.approx(1)
    assert policy.describe().name == spec


def test_a_users_text_only_class_is_widened() -> None:
    policy = make_policy("tests.doubles:EchoBackend", COUNTING)
    assert isinstance(policy, TextOnlyPolicy)
    assert policy.act(Snapshot(0), "hello", ("a", "b"), None) == Answer("b", raw_reply="hello|None")
    assert policy.describe().name == "org/echo:8b"


def test_a_users_class_that_only_answers_batches_is_widened() -> None:
    policy = make_policy("tests.served:Spells", COUNTING)
    assert isinstance(policy, ActsInBatches)
    assert policy.act(Snapshot(0), "four", ("a", "b", "c"), None).choice == "b"
    asked = [Question(Snapshot(0), text, ("a", "b", "c"), None) for text in ("", "x", "xx")]
    assert [answer.choice for answer in policy.act_batch(asked)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("orcale", "unknown policy 'orcale'; choose from chat, choice, "),
        ("no_such_module:Policy", "cannot import 'no_such_module'"),
        ("tests.doubles:Nobody", "has no 'Nobody'"),
        ("tests.doubles:LENGTH", "is not a class"),
    ],
)
def test_an_unknown_policy_is_one_line(spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        check_policy(spec)


def test_the_oracle_needs_a_teacher() -> None:
    with pytest.raises(UsageError, match="scenario 'counting' has none"):
        make_policy("oracle", counting_scenario(teacher=None))


@pytest.mark.parametrize("name", ["oracle", "random"])
def test_an_argument_that_nobody_reads_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"policy '{name}' takes no argument, but was given '0.9'"):
        make_policy(f"{name}:0.9", COUNTING)


@pytest.mark.parametrize(
    ("spec", "around"),
    [
        ("torch:a/b.safetensors", ("torch:", "a/b.safetensors", "")),
        ("torch:a@b.safetensors@my.nets:Net", ("torch:", "a@b.safetensors", "@my.nets:Net")),
        ("mixture:0.5:onnx:p.onnx", ("mixture:0.5:onnx:", "p.onnx", "")),
        ("transformers:models/tiny", ("transformers:", "models/tiny", "")),
        ("chat:org/model:8b", None),
        ("mixture:0.5:random", None),
        ("shy:Shy", None),
        ("torch", None),
    ],
)
def test_the_path_in_a_policy_is_known(spec: str, around: tuple[str, str, str] | None) -> None:
    assert around_path(spec) == around
