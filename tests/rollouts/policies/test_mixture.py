"""A mixture: who acts, what its rows say, and what is left of the policy inside it."""

from __future__ import annotations

from dataclasses import replace
from math import comb

import numpy as np
import pytest

from rollouts.episode import EpisodeFailed, EpisodeRules, run_episode
from rollouts.errors import UsageError
from rollouts.policies.registry import check_policy, check_teacher, make_policy, nested
from rollouts.records import Answer, Decision, Episode, EpisodeKey, PolicyDescription, Snapshot
from rollouts.shards.rows import step_values
from rollouts.streams import stream, substream
from tests.doubles import COUNTING, CountingEnvironment, Recording, counting_scenario

RULES = EpisodeRules(COUNTING, tics=4, step_cap=400, run_seed=0)


class FailingPolicy:
    """Raises whenever it is asked, and closes."""

    closed = False

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        raise RuntimeError("no luck")

    def describe(self) -> PolicyDescription:
        return PolicyDescription(
            "failing", "model", "m-1", "someone", "f" * 64, {"temperature": 0.5, "base_url": "http://x"}
        )

    def close(self) -> None:
        FailingPolicy.closed = True


FAILING = f"{__name__}:FailingPolicy"


def play(spec: str, seed: int = 1, index: int = 0, rules: EpisodeRules = RULES) -> tuple[Episode, list[Decision]]:
    recording = Recording()
    policy = make_policy(spec, rules.scenario)
    key = EpisodeKey("counting", "rule", "p", seed, index)
    episode = run_episode(key, rules, CountingEnvironment(), policy, recording)
    return episode, recording.decisions


def rows(decisions: list[Decision]) -> list[tuple[object, ...]]:
    """The rows of the table, without the wall clock."""
    return [step_values(replace(d, decided_at=decisions[0].decided_at), None, 4, COUNTING.options) for d in decisions]


@pytest.mark.parametrize("index", range(5))
def test_all_teacher_is_the_oracle(index: int) -> None:
    mixed, decisions = play("mixture:1:random", index=index)
    assert mixed.trajectory_hash == play("oracle", index=index)[0].trajectory_hash
    assert {(d.acted_by, d.answer.asked) for d in decisions} == {("teacher", False)}


@pytest.mark.parametrize("index", range(5))
def test_no_teacher_is_the_policy_row_by_row(index: int) -> None:
    (alone, own), (mixed, decisions) = play("random", index=index), play("mixture:0:random", index=index)
    assert mixed.trajectory_hash == alone.trajectory_hash
    assert [r[:-1] for r in rows(decisions)] == [r[:-1] for r in rows(own)]  # the last is the wall clock
    assert {d.acted_by for d in decisions} == {"policy"}


def test_a_row_of_the_teacher_holds_nothing_of_the_policy() -> None:
    _, decisions = play("mixture:1:random")
    columns = dict(zip(_names(), step_values(decisions[0], None, 4, COUNTING.options), strict=True))
    assert (columns["teacher_action"], columns["effective_action"]) == ("down", "down")
    assert (columns["acted_by"], columns["asked"], columns["out_of_schema"]) == ("teacher", False, False)
    assert {columns[name] for name in ("model_action", "probabilities", "confidence", "latency_ms")} == {None}


def _names() -> list[str]:
    from rollouts.shards.schemas import KEY, STEPS

    return STEPS.names[len(KEY) :]


def test_half_and_half_within_binomial_limits() -> None:
    """Some 40 episodes: the teacher's turns are Binomial(n, 1/2); 5 sigma."""
    turns = [d.acted_by for index in range(40) for d in play("mixture:0.5:random", index=index)[1]]
    n, teachers = len(turns), turns.count("teacher")
    assert n > 500
    assert abs(teachers - n / 2) < 5 * (n / 4) ** 0.5


def test_who_acts_is_drawn_for_each_decision_not_for_each_episode() -> None:
    both = [{d.acted_by for d in play("mixture:0.5:random", index=30 + k)[1]} for k in range(5)]
    assert both == [{"policy", "teacher"}] * 5


def test_who_acts_is_the_same_in_whatever_order_and_by_whomever_episodes_are_played() -> None:
    one, other = make_policy("mixture:0.5:random", COUNTING), make_policy("mixture:0.5:random", COUNTING)

    def acted(policy: object, indices: list[int]) -> dict[int, str]:
        hashes = {}
        for index in indices:
            key = EpisodeKey("counting", "rule", "p", 2, index)
            hashes[index] = run_episode(key, RULES, CountingEnvironment(), policy, Recording()).trajectory_hash  # type: ignore[arg-type]
        return hashes

    assert acted(one, [0, 1, 2, 3]) == acted(other, [3, 1]) | acted(make_policy("mixture:0.5:random", COUNTING), [2, 0])


def test_the_draw_leaves_the_other_policys_generator_as_it_is() -> None:
    rng, alone = (stream(0, "policy", "counting", 1, 0) for _ in range(2))
    substream(rng, "mixture").random(100)
    assert rng.bit_generator.state == alone.bit_generator.state
    assert rng.spawn(1)[0].random() == alone.spawn(1)[0].random()


def test_a_substream_depends_on_its_name_and_episode() -> None:
    def first(name: str, index: int = 0) -> float:
        return float(substream(stream(0, "policy", "counting", 1, index), name).random())

    assert len({first("a"), first("b"), first("a", 1), float(np.random.default_rng(0).random())}) == 4
    assert first("a") == first("a")


def test_it_says_who_is_inside() -> None:
    told = make_policy(f"mixture:0.25:{FAILING}", COUNTING).describe()
    assert (told.name, told.kind, told.model, told.provider) == ("mixture:0.25:failing", "model", "m-1", "someone")
    assert (told.checkpoint_hash, told.settings) == ("f" * 64, {"beta": 0.25})
    assert told.inner is not None
    assert (told.inner.name, told.inner.settings["temperature"]) == ("failing", 0.5)


def test_it_closes_what_it_made() -> None:
    policy = make_policy(f"mixture:0.25:{FAILING}", COUNTING)
    policy.close()  # type: ignore[attr-defined]
    assert FailingPolicy.closed


def test_the_teachers_turns_do_not_hide_a_policy_that_always_fails() -> None:
    """Ten errors of the policy in a row, however many turns of the teacher lie between them."""
    with pytest.raises(EpisodeFailed, match="policy: 10 errors in a row, the last: RuntimeError: no luck"):
        play(f"mixture:0.25:{FAILING}", index=50)


def test_an_exception_of_the_policy_inside_is_its_own() -> None:
    _, decisions = play(f"mixture:0.75:{FAILING}")
    assert {(d.acted_by, d.answer.asked, d.schema_error) for d in decisions} == {
        ("teacher", False, None),
        ("fallback", True, "policy_error"),
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mixture", "policy 'mixture' lacks BETA or the other policy; give mixture:BETA:POLICY"),
        ("mixture:", "policy 'mixture' lacks BETA or the other policy"),
        ("mixture:0.5", "policy 'mixture:0.5' lacks BETA or the other policy"),
        ("mixture:0.5:", "policy 'mixture:0.5:' lacks BETA or the other policy"),
        ("mixture:half:random", "BETA is 'half', must be a number from 0 to 1"),
        ("mixture::random", "BETA is '', must be"),
        ("mixture:1.01:random", "BETA is '1.01', must be"),
        ("mixture:-0.1:random", "BETA is '-0.1', must be"),
        ("mixture:nan:random", "BETA is 'nan', must be"),
        ("mixture:0.5:mixture:0.5:random", "is a mixture in a mixture"),
        ("mixture:0.5:nobody", "unknown policy 'nobody'; choose from oracle, random"),
        ("mixture:0.5:no_such_module:Policy", "cannot import 'no_such_module'"),
    ],
)
def test_a_mixture_that_cannot_be_is_one_line_before_anything_starts(spec: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_policy(spec)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("spec", ["oracle", "mixture:0.5:random", f"mixture:0:{FAILING}"])
def test_a_scenario_without_teacher_is_refused_before_anything_starts(spec: str) -> None:
    check_teacher(spec, COUNTING)
    with pytest.raises(UsageError, match="needs a teacher, and scenario 'counting' has none"):
        check_teacher(spec, counting_scenario(teacher=None))


def test_what_is_checked_at_start_sees_the_policy_inside() -> None:
    assert nested("random") == ("random",)
    assert nested("mixture:0.5:tests.doubles:EchoBackend") == (
        "mixture:0.5:tests.doubles:EchoBackend",
        "tests.doubles:EchoBackend",
    )


def test_the_other_policy_may_have_an_argument_of_its_own() -> None:
    with pytest.raises(UsageError, match=r"policy 'random' takes no argument, but was given '0\.9'"):
        make_policy("mixture:0.5:random:0.9", COUNTING)


def test_a_text_only_class_inside_is_widened() -> None:
    _, decisions = play("mixture:0:tests.doubles:EchoBackend")
    assert decisions[0].answer.raw_reply == "5 left.|Go down."


def test_agreement_is_what_the_policy_would_have_by_chance() -> None:
    """The counting game's teacher says `down`; of the asked turns a uniform policy says so in half (binomial tail)."""
    asked = [d for index in range(40) for d in play("mixture:0.5:random", index=index)[1] if d.answer.asked]
    agreed = sum(d.answer.own == d.teacher_action for d in asked)
    tail = sum(comb(len(asked), k) for k in range(min(agreed, len(asked) - agreed) + 1)) / 2 ** len(asked)
    assert tail > 1e-6
