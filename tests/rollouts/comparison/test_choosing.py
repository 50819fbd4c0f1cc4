"""What RUN and RUN:policy mean, and who meets whom."""

from __future__ import annotations

import pytest

from rollouts.comparison.choosing import Side, contests, leaderboards, split
from rollouts.errors import UsageError
from tests.compared import played

S3 = "s3://b/runs/r?endpoint_override=http://h:9000"
PLAYED = {(1, 0): 1.0, (2, 0): 2.0}


@pytest.mark.parametrize(
    ("given", "run", "policy"),
    [
        ("demo", "demo", None),
        ("demo:oracle", "demo", "oracle"),
        ("demo:chat:gpt-4o", "demo", "chat:gpt-4o"),
        (f"{S3}:mixture:0.5:random", S3, "mixture:0.5:random"),
        ("a:b", "a:b", None),
        ("demo:", "demo", None),
        ("nowhere:oracle", "nowhere:oracle", None),
    ],
)  # fmt: skip
def test_the_longest_beginning_that_is_a_run_is_the_run(given: str, run: str, policy: str | None) -> None:
    there = {"demo", "a:b", "a", S3}
    assert split(given, there.__contains__) == (run, policy)


def side(name: str, *policies: str, scenario: str = "counting", rubric: str = "rule") -> Side:
    groups = tuple(played(PLAYED, policy=policy, scenario=scenario, rubric=rubric) for policy in policies)
    return Side(name, None, groups)


def met(first: Side, second: Side) -> list[tuple[str, str]]:
    return [(found.first.facts.policy, found.second.facts.policy) for found in contests(first, second)[0]]


def test_two_policies_alone_meet_whatever_they_are_called() -> None:
    assert met(side("a", "oracle"), side("b", "random")) == [("oracle", "random")]


def test_policies_of_one_name_meet_and_the_others_are_named() -> None:
    found, alone = contests(side("a", "oracle", "random"), side("b", "random", "shy"))
    assert [(each.first.facts.policy, each.second.facts.policy) for each in found] == [("random", "random")]
    assert alone == ["a: policy oracle has no opponent", "b: policy shy has no opponent"]


def test_where_it_is_not_clear_who_meets_the_choices_are_told() -> None:
    with pytest.raises(UsageError, match="a has oracle, random; b has shy"):
        contests(side("a", "oracle", "random"), side("b", "shy"))


def test_the_rule_and_the_bare_rubric_meet_where_each_side_has_one() -> None:
    found, _ = contests(side("a", "p"), side("b", "p", rubric="bare"))
    assert [(each.first.facts.rubric, each.second.facts.rubric) for each in found] == [("rule", "bare")]


def test_runs_of_other_scenarios_have_nothing_in_common() -> None:
    with pytest.raises(UsageError, match="a and b have no scenario and rubric in common"):
        contests(side("a", "p"), side("b", "p", scenario="other"))


def test_a_leaderboard_has_all_policies_of_all_runs() -> None:
    (board,), alone = leaderboards([side("a", "p", "q"), side("b", "p"), side("c", "p", scenario="other")])
    assert len(board.lines) == 3
    assert alone == ["run:p: other/rule has no opponent"]
