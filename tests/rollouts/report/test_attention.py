"""What is looked at first."""

from __future__ import annotations

from rollouts.evidence.episode_numbers import EpisodeNumbers
from rollouts.evidence.results import EpisodeRow
from rollouts.metrics import Agreement
from rollouts.report.attention import Candidate, by_urgency, in_turns
from rollouts.report.judgements import Verdict


def candidate(name: str, group: int = 0, disagrees: int = 0, out: int = 0, status: str = "completed") -> Candidate:
    """Of ten decisions."""
    row = EpisodeRow(name, 1, 0, status, 1.0, 10, 1.0, n_out_of_schema=out)
    agreement = Agreement(10, 1 - disagrees / 10, None, None, 0)
    return Candidate(0, group, EpisodeNumbers(row, agreement), ())


def names(candidates: list[Candidate]) -> list[str]:
    return [one.episode_id for one in candidates]


def test_failures_then_trouble_then_the_rest() -> None:
    found = [candidate("calm"), candidate("some", disagrees=2), candidate("broken", status="failed")]
    found += [candidate("none", out=5), candidate("many", disagrees=9)]
    assert names(by_urgency(found)) == ["broken", "many", "none", "some", "calm"]


def test_an_ungraded_episode_comes_before_disagreements() -> None:
    verdict = Verdict("j", "llm", None, 0, "ungraded", "not_json", None, None, None, None)
    row = EpisodeRow("ungraded", 1, 0, "completed", 1.0, 10, 1.0)
    ungraded = Candidate(0, 0, EpisodeNumbers(row), (verdict,))
    assert names(by_urgency([candidate("many", disagrees=9), ungraded])) == ["ungraded", "many"]


def test_no_group_hides_another() -> None:
    loud = [candidate(f"loud {n}", 0, disagrees=n) for n in (9, 8, 7)]
    quiet = [candidate(f"quiet {n}", 1, disagrees=n) for n in (2, 1)]
    assert names(by_urgency([*quiet, *loud])) == ["loud 9", "quiet 2", "loud 8", "quiet 1", "loud 7"]
    assert names(in_turns([*quiet, *loud])) == ["loud 9", "quiet 2", "loud 8", "quiet 1", "loud 7"]


def test_of_equal_trouble_the_lower_r_comes_first() -> None:
    def graded(name: str, r: float) -> Candidate:
        verdict = Verdict("j", "llm", None, 0, "graded", None, None, None, None, r)
        return Candidate(0, 0, EpisodeNumbers(EpisodeRow(name, 1, 0, "completed", 1.0, 10, 1.0)), (verdict,))

    assert names(by_urgency([graded("good", 0.9), graded("bad", -0.9)])) == ["bad", "good"]
