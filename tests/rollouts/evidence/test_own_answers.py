"""How much of a run its policies decided themselves, from the manifest."""

from __future__ import annotations

from typing import Any

from rollouts.evidence.own_answers import much_not_its_own, without_an_answer


def manifest(*groups: tuple[str, str, int, int | None, dict[str, int]]) -> dict[str, Any]:
    """(policy, rubric, decisions, asked or None without a teacher, out of schema by cause) of one scenario."""
    blocks = [
        {
            **{"policy": policy, "scenario": "s", "rubric": rubric, "n_decisions": n},
            **({} if asked is None else {"rubric_agreement": {"n": asked}}),
        }
        for policy, rubric, n, asked, _ in groups
    ]
    coverage = [{"out_of_schema_by_cause": causes} for *_, causes in groups]
    return {"results": blocks, "coverage": {"groups": coverage}}


def test_half_is_much_and_less_is_not() -> None:
    told = manifest(("a", "rule", 4, 4, {"empty": 2}), ("b", "rule", 5, 5, {"empty": 2}), ("c", "rule", 0, 0, {}))
    assert [found.policy for found in much_not_its_own(told)] == ["a"]
    assert without_an_answer(told) == []


def test_a_teachers_turns_are_not_the_policys() -> None:
    """Of ten decisions the policy was asked for three: all three failed, so it answered nothing."""
    (found,) = without_an_answer(manifest(("mixture", "rule", 10, 3, {"timeout": 1, "endpoint": 2})))
    assert str(found) == (
        "policy mixture: 3 of 3 decisions (100%) were not its own: the first option was sent in the place of an answer "
        "that was none; most frequent cause: endpoint (2)"
    )


def test_a_policy_that_answers_in_one_rubric_only_has_answered() -> None:
    told = manifest(("m", "rule", 6, None, {"empty": 6}), ("m", "bare", 6, None, {"empty": 1}))
    assert [found.where for found in much_not_its_own(told)] == ["s/rule"]
    assert without_an_answer(told) == []
    silent = manifest(("m", "rule", 6, None, {"empty": 6}), ("m", "bare", 4, None, {"several": 4}))
    assert [found.as_dict() for found in without_an_answer(silent)] == [
        {"policy": "m", "asked": 10, "out_of_schema_by_cause": {"empty": 6, "several": 4}}
    ]
