"""The manifest's section on grading, over a run whose grades, entries, credit and calls are counted by hand.

The made run has three completed episodes: policy `half`, seeds 1, 2 and 3.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grading.evidence import grading_section, make_section, weights_of
from grading.grade import Weights
from rollouts.evidence.card import dataset_card
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.grading_table import grading_lines, grading_tables
from rollouts.evidence.manifest import make_manifest, write_evidence
from rollouts.run.side_folder import SideFolder
from tests.made_runs import made_run
from tests.side_doubles import commit_rows, episode, grade

LLM = {"kind": "llm", "model": "judge", "prompt": {"language": "en"}, "presentation": "forward", "reads": "transcript"}


@pytest.fixture
def run(tmp_path: Path) -> CommittedRun:
    return made_run(tmp_path)


def section(run: CommittedRun, weights: Weights | None = None) -> dict[str, Any]:
    return make_section(run, weights or Weights())


def judged(run: CommittedRun) -> list[Any]:
    """Seed 1: R = 0.45 * 1 + 0.3 * 0.5 + 0.25 * 0 = 0.6; seed 2: -0.45 + 0 - 0.05 = -0.5; seed 3: no score."""
    return [
        grade(run, 1, "llm", (1.0, 0.5, 0.0), label="success"),
        grade(run, 2, "llm", (-1.0, 0.0, -0.2), label="success", cut='{"characters_shortened":7}'),
        grade(run, 3, "llm", None, cause="out_of_range"),
    ]


def test_a_run_that_nobody_graded_has_an_empty_section(run: CommittedRun) -> None:
    found = section(run)
    assert [found[key] for key in ("graders", "summarizers", "credits", "calls")] == [[], [], [], []]
    assert found["feedback"] == {"rows": 0, "episodes": 0}
    assert grading_lines({"grading": found}) == []


def test_means_stand_beside_their_coverage_and_leave_the_ungraded_out(run: CommittedRun) -> None:
    commit_rows(run, "grades", "judge-1", LLM, judged(run))
    (grader,) = section(run)["graders"]
    assert (grader["source"], grader["model"], grader["language"]) == ("llm", "judge", "en")
    assert (grader["graded"], grader["of"], grader["ungraded"], grader["owed"]) == (2, 3, 1, 0)
    assert grader["mean_r"] == pytest.approx(0.05)
    assert (grader["mean_goal"], grader["mean_process"], grader["mean_satisfaction"]) == (0.0, 0.25, -0.1)
    assert grader["ungraded_by_cause"] == {"out_of_range": 1}
    assert (grader["labels_compared"], grader["labels_against"]) == (2, 1)
    assert (grader["n_cut"], grader["characters_cut"]) == (1, 7)
    (group,) = grader["groups"]
    assert (group["scenario"], group["policy"], group["graded"], group["of"]) == ("counting", "half", 2, 3)


def test_other_weights_need_no_new_grade(run: CommittedRun) -> None:
    commit_rows(run, "grades", "judge-1", LLM, judged(run))
    found = section(run, Weights(0.0, 1.0, 0.0))
    assert found["graders"][0]["mean_r"] == 0.25
    assert weights_of({"grading": found}) == Weights(0.0, 1.0, 0.0)
    assert weights_of({}) == Weights()


def test_the_highest_grading_counts_and_what_is_not_there_is_owed(run: CommittedRun) -> None:
    rows = [grade(run, 1, "llm", None, cause="empty"), grade(run, 1, "llm", (1.0, 1.0, 1.0), grading=1)]
    commit_rows(run, "grades", "judge-1", LLM, rows)
    (grader,) = section(run)["graders"]
    assert (grader["graded"], grader["ungraded"], grader["owed"], grader["gradings"]) == (1, 0, 2, 2)
    assert grader["mean_r"] == 1.0


def test_repeats_are_gradings_of_their_own(run: CommittedRun) -> None:
    rows = [grade(run, seed, "llm", (0.0, 0.0, 0.0), repeat=repeat) for seed in (1, 2, 3) for repeat in (0, 1)]
    commit_rows(run, "grades", "judge-1", LLM, rows)
    (grader,) = section(run)["graders"]
    assert (grader["repeats"], grader["graded"], grader["of"]) == (2, 6, 6)


def test_sources_stand_side_by_side_and_are_never_pooled(run: CommittedRun) -> None:
    commit_rows(run, "grades", "heuristic-1", {"kind": "heuristic"}, [grade(run, 1, "heuristic", (1.0, 1.0, 1.0))])
    commit_rows(run, "grades", "judge-1", LLM, judged(run))
    found = section(run)
    assert [(g["source"], g["graded"]) for g in found["graders"]] == [("heuristic", 1), ("llm", 2)]
    told = "\n".join(grading_lines({"grading": found}))
    assert "heuristic grades (heuristic-1): graded 1 of 3, 2 owed" in told
    assert "llm grades (judge-1): graded 2 of 3, 1 ungraded" in told
    assert "ungraded (llm judge-1): 1 out_of_range" in told
    assert "label against axes (llm judge-1): 1 of 2 labels contradict the goal axis" in told
    assert "cut (llm judge-1): 1 grading did not see the whole episode, 7 characters in all" in told
    headings = [[str(column.header) for column in table.columns] for table in grading_tables({"grading": found})]
    assert headings[0][3:] == [
        *("R\n(heuristic)", "goal\n(heuristic)", "process\n(heuristic)", "satisf.\n(heuristic)"),
        "graded\n(heuristic)",
    ]
    assert all(heading.endswith("\n(llm 1)") for heading in headings[1][3:])


def test_titles_say_wherein_the_graders_of_a_run_differ(run: CommittedRun) -> None:
    prompt = {"language": "en", "id": "grader", "sha256": "0123456789abcdef"}
    first = {**LLM, "prompt": prompt, "caps": {"whole": 4788}}
    others = (
        {**first, "prompt": {**prompt, "language": "zh", "id": "kind", "sha256": "fedcba9876543210"}},
        {**first, "reads": "summaries", "summarizer_id": "scribe-1", "presentation": "reversed"},
        {**first, "caps": {"whole": 90_000}},
    )
    commit_rows(run, "grades", "a", first, [])
    (alone,) = grading_tables({"grading": section(run)})
    assert str(alone.title).endswith("model judge; R = 0.45 goal + 0.3 process + 0.25 satisfaction")
    for id, identity in zip("bcd", others, strict=True):
        commit_rows(run, "grades", id, identity, [])
    commit_rows(run, "grades", "h", {"kind": "heuristic"}, [])
    *titles, formula = [str(table.title) for table in grading_tables({"grading": section(run)})]
    told = [title.partition("model judge, ")[2].partition(";")[0] for title in titles]
    plain = ("language en", "reads transcript", "presentation forward", "at most 4,788 characters")
    named = "prompt grader 01234567"
    assert told[0].split(", ") == [*plain, named]
    assert told[1].split(", ") == ["language zh", *plain[1:], "prompt kind fedcba98"]
    assert told[2].split(", ") == [*plain[:1], "reads summaries of scribe-1", "presentation reversed", plain[3], named]
    assert told[3].split(", ") == [*plain[:3], "at most 90,000 characters", named]
    assert "language" not in formula


def test_repeats_measure_the_grader(run: CommittedRun) -> None:
    """R = goal. Seed 1: 0.5, then 0.1 and 0.5 with another label; seed 2: no score, then -1 and -0.5; seed 3: one.

    |ΔR|: 0.4, 0 and 0.5, on the mean 0.3; of the three pairs one has two labels.
    """
    weights = Weights(1.0, 0.0, 0.0)
    commit_rows(run, "grades", "judge-1", LLM, [grade(run, 3, "llm", (0.9, 0.0, 0.0))])
    lease = run.folder.acquire()
    SideFolder(run.folder).ask(lease, "judge-1", 3)
    run.folder.finish(lease)
    undefined = section(run, weights)
    spread = {"episodes": 0, "pairs": 0, "mean_abs_r_shift": None, "label_disagreement": None}
    assert undefined["graders"][0]["repeat_spread"] == spread
    told = "repeats (llm judge-1): undefined, for no episode has two graded repeats"
    assert told in grading_lines({"grading": undefined})
    rows = [
        grade(run, 1, "llm", (0.5, 0.0, 0.0), label="partial"),
        grade(run, 1, "llm", (0.1, 0.0, 0.0), label="partial", repeat=1),
        grade(run, 1, "llm", (0.5, 0.0, 0.0), label="success", repeat=2),
        grade(run, 2, "llm", None, cause="empty"),
        grade(run, 2, "llm", (-1.0, 0.0, 0.0), label="failure", repeat=1),
        grade(run, 2, "llm", (-0.5, 0.0, 0.0), label="failure", repeat=2),
    ]
    commit_rows(run, "grades", "judge-1", LLM, rows)
    found = section(run, weights)
    spread = found["graders"][0]["repeat_spread"]
    assert (spread["episodes"], spread["pairs"]) == (2, 3)
    assert spread["mean_abs_r_shift"] == pytest.approx(0.3)
    assert spread["label_disagreement"] == pytest.approx(1 / 3)
    assert (
        "repeats (llm judge-1): 2 episodes with two or more graded repeats, mean |ΔR| 0.300 between the first and the "
        "others, labels differ in 33.3% of 3 pairs"
    ) in grading_lines({"grading": found})


def test_grades_from_feedback_alone_say_that_r_is_satisfaction(run: CommittedRun) -> None:
    row = grade(run, 1, "explicit", (0.0, 0.0, 0.0)) | {"goal_achievement": None, "process_quality": None}
    commit_rows(run, "grades", "explicit-1", {"kind": "explicit"}, [row | {"user_satisfaction": 0.5}])
    (grader,) = section(run)["graders"]
    assert (grader["mean_r"], grader["mean_goal"], grader["mean_process"]) == (0.5, None, None)
    (table,) = grading_tables({"grading": section(run)})
    assert "R is satisfaction alone" in str(table.title)


def test_two_presentations_of_one_grader_are_compared(run: CommittedRun) -> None:
    """Of the two episodes graded in both, one label differs; R moves by 0 and by -1, on the mean by -0.5."""
    commit_rows(run, "grades", "a", LLM, [grade(run, seed, "llm", (1.0, 1.0, 1.0), label="success") for seed in (1, 2)])
    other = [
        grade(run, 1, "llm", (1.0, 1.0, 1.0), label="success"),
        grade(run, 2, "llm", (0.0, 0.0, 0.0), label="partial"),
        grade(run, 3, "llm", (0.0, 0.0, 0.0), label="partial"),
    ]
    commit_rows(run, "grades", "b", {**LLM, "presentation": "reversed"}, other)
    (pair,) = section(run)["disagreements"]
    assert (pair["n"], pair["n_differ"], pair["rate"], pair["mean_r_shift"]) == (2, 1, 0.5, -0.5)
    (line,) = [line for line in grading_lines({"grading": section(run)}) if "presentation" in line]
    assert "presentation (llm a, b): forward and reversed disagree on 50.0% of 2 episodes" in line


def test_degraded_entries_are_counted_by_cause(run: CommittedRun) -> None:
    rows = [
        {**episode(run, 1), "span": 0, "status": "ok", "score": 4.0},
        {**episode(run, 1), "span": 1, "status": "ok", "score": 7.0},
        {**episode(run, 2), "span": 0, "status": "degraded", "cause": "not_json"},
    ]
    commit_rows(run, "summaries", "writer-1", {"kind": "llm", "model": "writer"}, rows)
    found = section(run)
    (told,) = found["summarizers"]
    assert (told["entries"], told["episodes"], told["of"], told["degraded"]) == (3, 2, 3, 1)
    assert (told["degraded_by_cause"], told["mean_score"]) == ({"not_json": 1}, 5.5)
    assert grading_lines({"grading": found}) == [
        "summaries (writer-1): 3 entries for 2 of 3 episodes, 1 degraded (1 not_json), mean score 5.50 over 2 scored"
    ]


def test_of_an_entry_that_was_asked_for_again_the_last_counts_also_after_the_tenth_part(run: CommittedRun) -> None:
    plain = {**episode(run, 1), "span": 0}
    for _ in range(11):
        commit_rows(run, "summaries", "writer-1", {"kind": "llm"}, [{**plain, "status": "degraded", "cause": "empty"}])
    commit_rows(run, "summaries", "writer-1", {"kind": "llm"}, [{**plain, "status": "ok", "score": 6.0}])
    (told,) = section(run)["summarizers"]
    assert (told["entries"], told["degraded"], told["degraded_by_cause"], told["mean_score"]) == (1, 0, {}, 6.0)


def test_what_was_asked_of_a_grader_is_owed_until_it_is_there(run: CommittedRun) -> None:
    """Interrupted in the second of three repeats: 3 episodes, 9 gradings, 4 of them there."""
    rows = [grade(run, seed, "llm", (0.0, 0.0, 0.0)) for seed in (1, 2, 3)]
    commit_rows(run, "grades", "judge-1", LLM, [*rows, grade(run, 1, "llm", (0.0, 0.0, 0.0), repeat=1)])
    commit_rows(run, "grades", "other-1", {**LLM, "model": "other"}, rows)
    lease, side = run.folder.acquire(), SideFolder(run.folder)
    for repeats in (3, 2):
        side.ask(lease, "judge-1", repeats)
    run.folder.finish(lease)
    first, second = section(run)["graders"]
    assert (first["repeats"], first["graded"], first["of"], first["owed"]) == (3, 4, 9, 5)
    assert (second["repeats"], second["graded"], second["of"], second["owed"]) == (1, 3, 3, 0)
    (group,) = first["groups"]
    assert (group["of"], group["owed"]) == (9, 5)
    assert side.ids("grades") == ("judge-1", "other-1")


def test_credit_names_the_source_of_its_grades(run: CommittedRun) -> None:
    identity = {
        **{"kind": "credit", "grader_id": "judge-1", "source": "llm", "rule": "events", "gamma": 0.9},
        **{"weights": {"goal": 0.45, "process": 0.3, "satisfaction": 0.25}, "summarizer_id": None},
    }
    rows = [{**episode(run, 1), "tick": tick, "grading": grading} for grading in (0, 1) for tick in (0, 1, 2)]
    commit_rows(run, "credit", "llm-events-1", identity, rows)
    assert section(run)["credits"][0]["episodes"] == 0
    commit_rows(run, "grades", "judge-1", LLM, [{**judged(run)[0], "grading": 1}])
    found = section(run)
    (told,) = found["credits"]
    assert (told["rows"], told["episodes"], told["without"]) == (3, 1, 2)
    line = grading_lines({"grading": found})[-1]
    assert line.startswith(
        "credit from llm grades of judge-1 (llm-events-1): rule events, gamma 0.9, 3 decisions of 1 episode,"
    )


@pytest.mark.parametrize("axes", [(1.0, 0.5, 0.0), None])
def test_credit_of_an_older_grading_does_not_count(run: CommittedRun, axes: tuple[float, ...] | None) -> None:
    names = ("grader_id", "source", "rule", "gamma", "weights", "summarizer_id")
    identity = {**dict.fromkeys(names), "grader_id": "judge-1"}
    commit_rows(run, "credit", "llm-events-1", identity, [{**episode(run, 1), "tick": 0, "grading": 0}])
    commit_rows(run, "grades", "judge-1", LLM, [grade(run, 1, "llm", (1.0, 0.5, 0.0))])
    assert section(run)["credits"][0]["episodes"] == 1
    commit_rows(run, "grades", "judge-1", LLM, [{**grade(run, 1, "llm", axes), "grading": 1}])
    (told,) = section(run)["credits"]
    assert (told["rows"], told["episodes"], told["without"]) == (0, 0, 3)


def call(run: CommittedRun, **values: Any) -> dict[str, Any]:
    plain = {"kind": "grade", "status": "validated", "tries": 1, "model": "judge-2026"}
    return {**episode(run, 1), **plain, "tokens_in": 100, "tokens_out": 10, **values}


def test_calls_add_up_with_their_failed_tries(run: CommittedRun) -> None:
    """Waits of 0 and 100 ms: p50 50, p95 95. One reply used again takes no request, time or money."""
    rows = [
        call(run, cost_usd=0.002, queue_ms=0.0, answer_ms=40.0),
        call(run, cost_usd=0.001, queue_ms=100.0, answer_ms=60.0, tries=3, adjustments=["-seed"]),
        call(run, status="refused", cause="not_json", tokens_cached=30),
        call(run, status="failed", error_kind="http_503", tries=6, tokens_in=None, tokens_out=None, model=None),
        call(run, reused_call_id="x", tries=0, tokens_in=None, tokens_out=None),
    ]
    commit_rows(run, "calls", "judge-1", {}, rows)
    found = section(run)
    (told,) = found["calls"]
    assert (told["calls"], told["tries"], told["cache_hits"]) == (4, 11, 1)
    assert (told["validated"], told["refused"], told["failed"]) == (2, 1, 1)
    assert told["refused_or_failed_by_cause"] == {"http_503": 1, "not_json": 1}
    assert (told["tokens_in"], told["tokens_out"], told["tokens_cached"]) == (300, 30, 30)
    assert told["cost_usd"] == pytest.approx(0.003)
    assert told["calls_without_price"] == 1
    assert told["queue_ms"] == pytest.approx({"p50": 50.0, "p95": 95.0})
    assert told["answer_ms"] == pytest.approx({"p50": 50.0, "p95": 59.0})
    assert told["adjustments"] == {"-seed": 1}
    first, second, third = grading_lines({"grading": found})
    assert first.startswith("calls (llm grader judge-1): ")
    assert "4 calls, 11 requests, 1 without an answer, 1 reply used again, 300 tokens in, 30 out" in first
    assert "0.0030 USD and 1 call without a price" in first
    assert "queue 50 / 95 ms p50/p95, answer 50 / 59 ms p50/p95" in second
    assert "1 -seed" in third


def test_an_unknown_price_is_said_and_never_0(run: CommittedRun) -> None:
    commit_rows(run, "calls", "judge-1", {}, [call(run)])
    found = section(run)
    assert found["calls"][0]["cost_usd"] is None
    assert "cost unknown" in grading_lines({"grading": found})[0]


def test_the_manifest_and_the_card_carry_it(run: CommittedRun) -> None:
    commit_rows(run, "grades", "judge-1", LLM, judged(run))
    manifest = make_manifest(run, {"grading": grading_section(Weights())})
    json.dumps(manifest, allow_nan=False)
    assert manifest["grading"]["graders"][0]["graded"] == 2
    card = dataset_card(manifest)
    assert "| counting | rule | half | +0.050 | +0.000 | +0.250 | -0.100 | 2 of 3 |" in card
    assert "R (llm 1)" in card


@pytest.mark.slow
def test_datasets_reads_every_side_table_by_the_card(run: CommittedRun, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    commit_rows(run, "grades", "judge-1", LLM, judged(run))
    commit_rows(run, "grades", "heuristic-1", {"kind": "heuristic"}, [grade(run, 1, "heuristic", (1.0, 1.0, 1.0))])
    commit_rows(run, "calls", "judge-1", {}, [call(run, adjustments=["-seed"])])
    write_evidence(run, {"grading": grading_section(Weights())})
    folder = run.storage.full(run.path())
    grades = datasets.load_dataset(folder, "grades", split="train", cache_dir=str(tmp_path / "cache"))
    calls = datasets.load_dataset(folder, "calls", split="train", streaming=True)
    assert sorted(grades["source"]) == ["heuristic", "llm", "llm", "llm"]
    assert [row["adjustments"] for row in calls] == [["-seed"]]
