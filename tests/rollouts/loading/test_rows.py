"""Which rows are read: committed, completed, not superseded, and past the filters; and what is joined to them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rollouts.errors import StorageError, UsageError
from rollouts.evidence.committed_run import CommittedRun
from rollouts.readers import count_rows, iter_batches, open_rows, read_table
from rollouts.records import Answer, Unit
from rollouts.shards.schemas import STEPS
from rollouts.shards.side_rows import episode_columns
from tests.row_runs import Key, Shard, answering, keys_of, place, row_run
from tests.shard_doubles import decision
from tests.side_doubles import commit_rows

KEY = ["episode_id", "tick"]


def keys(runs: Any, **filters: Any) -> list[Key]:
    """The rows that are read, in order."""
    return [(row["episode_id"], row["tick"]) for row in read_table(runs, KEY, **filters).to_pylist()]


def side_row(run: CommittedRun, number: int, **columns: Any) -> dict[str, Any]:
    """A row of a side table about the only episode of a unit; first grading, first repeat."""
    (key,) = Unit.keys(run.plan[number])
    return {**episode_columns(run.folder.run_id, key), "grading": 0, "repeat": 0, "source": "llm", **columns}


def commit_grades(run: CommittedRun, rows: Sequence[dict[str, Any]], id: str = "judge") -> None:
    commit_rows(run, "grades", id, {"kind": "llm"}, rows)


def commit_credit(run: CommittedRun, rows: Sequence[dict[str, Any]], id: str = "judge-events") -> None:
    commit_rows(run, "credit", id, {"grader_id": "judge"}, rows)


def test_all_rows_come_in_order_with_all_columns(tmp_path: Path) -> None:
    run = row_run(tmp_path)
    table = read_table(place(run))
    assert table.schema.remove_metadata() == STEPS.remove_metadata()
    assert keys(place(run)) == keys_of(run, (10, 7, 1))
    assert [batch.num_rows for batch in iter_batches(place(run), KEY)] == [10, 7, 1]
    assert count_rows(place(run)) == 18


def test_columns_come_in_the_order_asked_for(tmp_path: Path) -> None:
    run = row_run(tmp_path, [2])
    assert read_table(place(run), ["tick", "state", "seed"]).to_pylist() == [
        {"tick": tick, "state": f"Nothing is in view at decision {tick}.", "seed": 1} for tick in range(2)
    ]


def test_what_else_lies_in_the_folders_is_not_read(tmp_path: Path) -> None:
    """Owed units 3 and 4 have torn and empty files; unit 5 a steps shard without its episodes; 77 is not planned."""
    run = row_run(tmp_path, owed=3)
    steps, episodes = tmp_path / "made/steps", tmp_path / "made/episodes"
    whole = (steps / "part-0000000.parquet").read_bytes()
    for number in (3, 5, 77):
        (steps / f"part-{number:07d}.parquet").write_bytes(whole)
    shutil.copy(episodes / "part-0000000.parquet", episodes / "part-0000077.parquet")
    for folder in (steps, episodes):
        (folder / ".part-0000009.parquet.tmp-00000000").write_bytes(whole[:-8])
        for name in ("foreign.parquet", "part-1.parquet", "_tmp.parquet", "notes.txt", "shard.parquet.tmp"):
            (folder / name).write_bytes(whole[:-8])
    assert keys(place(run)) == keys_of(run, (10, 7, 1))
    (episodes / "part-0000003.parquet").write_bytes((episodes / "part-0000000.parquet").read_bytes()[:-8])
    (episodes / "part-0000004.parquet").write_bytes(b"")
    with pytest.warns(UserWarning, match=r"made: 2 damaged units left out: .*part-0000003\.parquet is not a whole"):
        assert keys(place(run)) == keys_of(run, (10, 7, 1))


@pytest.mark.parametrize(("damage", "told"), [(lambda p: p.unlink(), "is missing"), (None, "has 100 bytes, not")])
def test_a_committed_unit_whose_steps_are_damaged_is_left_out_and_named(tmp_path: Path, damage: Any, told: str) -> None:
    run = row_run(tmp_path)
    path = tmp_path / "made/steps/part-0000001.parquet"
    damage(path) if damage else path.write_bytes(path.read_bytes()[:100])
    with pytest.warns(UserWarning, match=rf"1 damaged unit left out: .*steps/part-0000001\.parquet {told}"):
        assert {key for key, _ in keys(place(run))} == {key for key, _ in keys_of(run, (10, 0, 1))}


def test_a_shard_that_goes_while_it_is_read_is_named(tmp_path: Path) -> None:
    run = row_run(tmp_path)
    batches = iter_batches(place(run), KEY)
    next(batches)
    (tmp_path / "made/steps/part-0000001.parquet").unlink()
    with pytest.raises(StorageError, match=r"steps/part-0000001\.parquet is gone"):
        next(batches)


def test_the_later_row_of_an_episode_supersedes_the_earlier(tmp_path: Path) -> None:
    """Seed 1 failed and was played again; seed 2 was played and failed later; seed 3 was played twice."""
    shards = [Shard(None, 1), Shard(4, 2), Shard(5, 3), Shard(6, 1), Shard(None, 2), Shard(3, 3)]
    run = row_run(tmp_path, shards)
    assert keys(place(run)) == keys_of(run, (0, 0, 0, 6, 0, 3))
    assert read_table(place(run), ["seed"])["seed"].to_pylist() == [1] * 6 + [3] * 3


def test_groups_are_chosen_by_their_exact_names(tmp_path: Path) -> None:
    shards = [Shard(2, policy="org/model:8b"), Shard(3, policy="a b%20c"), Shard(4, scenario="health_gathering")]
    run = row_run(tmp_path, shards)
    assert keys(place(run), policy="org/model:8b") == keys_of(run, (2, 0, 0))
    assert keys(place(run), policy=["oracle", "a b%20c"]) == keys_of(run, (0, 3, 4))
    assert keys(place(run), scenario="defend_the_center", policy="oracle") == []
    assert keys(place(run), rubric="rule", scenario="health_gathering") == keys_of(run, (0, 0, 4))


def test_disagreement_is_what_the_documentation_says(tmp_path: Path) -> None:
    """The teacher's action is `turn left` in all rows but those of the third shard, where there is none.

    The second shard: agreed, not asked, out of schema (its own answer is no option), no answer, asked too late.
    """
    own = answering(["turn left", "attack", "turn right"])
    mixed = [
        decision(0),
        decision(1, Answer(None, {}, asked=False), acted_by="teacher"),
        decision(2, Answer("jump", {}), effective_action="attack", schema_error="not_an_option"),
        decision(3, Answer(None, {}), effective_action="attack", schema_error="policy_error"),
        decision(4, Answer("attack", {}), effective_action=None, acted_by=None),
    ]
    shards = [
        Shard(3, decide=own),
        Shard(5, decide=mixed.__getitem__),
        Shard(2, decide=answering(["attack"] * 2, teacher_action=None)),
    ]
    run = row_run(tmp_path, shards)
    rows = keys_of(run, (3, 5, 2))
    assert keys(place(run), disagreement="model") == [rows[1], rows[2], rows[5], rows[6], rows[7]]
    assert keys(place(run), disagreement="effective") == [rows[1], rows[2], rows[5], rows[6]]


def test_the_highest_grading_of_the_first_repeat_counts(tmp_path: Path) -> None:
    """Shard 0: graded, then graded anew; 1: graded, then ungraded; 2: only its second repeat is graded; 3: no grade."""
    run = row_run(tmp_path, (2, 2, 2, 2))
    commit_grades(
        run,
        [
            side_row(run, 0, status="graded", goal_achievement=-1.0, label="failure"),
            side_row(run, 0, status="graded", goal_achievement=0.9, repeat=1),
            side_row(run, 1, status="graded", goal_achievement=0.5),
            side_row(run, 2, status="graded", goal_achievement=0.7, repeat=1),
        ],
    )
    commit_grades(
        run,
        [
            side_row(run, 0, status="graded", goal_achievement=0.25, label="success", grading=1),
            side_row(run, 1, status="ungraded", cause="empty", grading=1),
        ],
    )
    assert keys(place(run), graded=True) == keys_of(run, (2, 0, 0, 0))
    found = read_table(place(run), ["grade_status", "goal_achievement", "grade_label", "grade_grading", "grade_cause"])
    values = [tuple(row.values()) for row in found.to_pylist()]
    none = (None,) * 5
    assert (
        values == [("graded", 0.25, "success", 1, None)] * 2 + [("ungraded", None, None, 1, "empty")] * 2 + [none] * 4
    )


def test_credit_is_joined_by_key_and_counts_for_the_newest_grading_alone(tmp_path: Path) -> None:
    """Shard 0 has credit for its only grading; shard 1 was graded anew since; of shard 2 a row has none."""
    run = row_run(tmp_path, (2, 2, 2))
    commit_grades(run, [side_row(run, n, status="graded", goal_achievement=0.1) for n in range(3)])
    commit_grades(run, [side_row(run, 1, status="graded", goal_achievement=0.2, grading=1)])
    ticks = [(0, 0, 0.5), (0, 1, 0.75), (1, 0, 0.5), (1, 1, 0.5), (2, 1, -0.5)]
    commit_credit(run, [side_row(run, n, tick=tick, alpha=1.0, value=value, r=0.1) for n, tick, value in ticks])
    table = read_table(place(run), [*KEY, "credit_value", "credit_alpha"])
    assert table["credit_value"].to_pylist() == [0.5, 0.75, None, None, None, -0.5]
    assert table["credit_alpha"].to_pylist() == [1.0, 1.0, None, None, None, 1.0]
    rows = keys_of(run, (2, 2, 2))
    assert keys(place(run), min_credit=-0.5) == [rows[0], rows[1], rows[5]]
    assert keys(place(run), min_credit=0.75) == [rows[1]]


def test_joined_columns_go_with_their_rows_through_filters(tmp_path: Path) -> None:
    run = row_run(tmp_path, [Shard(3, decide=answering(["turn left", "attack", "turn right"])), Shard(2)])
    commit_grades(run, [side_row(run, 0, status="graded", goal_achievement=0.1)])
    commit_credit(run, [side_row(run, 0, tick=tick, value=tick / 10) for tick in range(3)])
    table = read_table(place(run), ["tick", "credit_value", "goal_achievement"], disagreement="model")
    assert table.to_pylist() == [{"tick": t, "credit_value": t / 10, "goal_achievement": 0.1} for t in (1, 2)]
    assert read_table(place(run), ["credit_value"], disagreement="model")["credit_value"].to_pylist() == [0.1, 0.2]


def test_several_graders_must_be_told_apart(tmp_path: Path) -> None:
    run = row_run(tmp_path, [1])
    for id, goal in (("one", 0.1), ("other", 0.2)):
        commit_grades(run, [side_row(run, 0, status="graded", goal_achievement=goal)], id)
    with pytest.raises(UsageError, match=r"grades of 2 ids: choose a grader_id from one, other$"):
        read_table(place(run), ["goal_achievement"])
    found = read_table(place(run), ["goal_achievement"], grader_id="other")
    assert found["goal_achievement"].to_pylist() == [0.2]


def test_a_torn_side_shard_is_passed_over(tmp_path: Path) -> None:
    run = row_run(tmp_path, (1, 1))
    commit_grades(run, [side_row(run, n, status="graded", goal_achievement=0.1) for n in range(2)])
    path = tmp_path / "made/grades/judge/part-0000001-0.parquet"
    path.write_bytes(path.read_bytes()[:-8])
    assert keys(place(run), graded=True) == keys_of(run, (1, 0))


def test_several_runs_are_read_one_after_the_other(tmp_path: Path) -> None:
    one, other = row_run(tmp_path, (3, 2), run_id="one"), row_run(tmp_path, (4,), run_id="other")
    commit_grades(other, [side_row(other, 0, status="graded", goal_achievement=0.1)])
    both = [place(other), place(one)]
    assert read_table(both, ["run_id"])["run_id"].to_pylist() == ["other"] * 4 + ["one"] * 5
    assert read_table(both, ["run_id"], graded=True)["run_id"].to_pylist() == ["other"] * 4
    assert read_table(both, ["goal_achievement"])["goal_achievement"].null_count == 5


def test_nothing_committed_is_an_empty_table(tmp_path: Path) -> None:
    run = row_run(tmp_path, (), owed=2)
    assert read_table(place(run), [*KEY, "frame"]).num_rows == 0
    assert list(iter_batches(place(run))) == []


def test_only_the_columns_asked_for_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames are most of a shard: they lie untouched where nobody asks for them."""
    run = row_run(tmp_path)
    read: list[list[str]] = []
    original = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda f, g, columns, **k: read.append([*columns]) or original(f, g, columns, **k),
    )
    read_table(place(run), ["tick"])
    assert read == [["tick"]] * 3


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"policy": "nobody"}, r"^policy 'nobody' is not in these runs; there is 'oracle'$"),
        (
            {"scenario": ["defend_the_center", "x"]},
            r"^scenario 'x' is not in these runs; there is 'defend_the_center'$",
        ),
        ({"scenario": 3}, r"^scenario 3: give a name, or a list of names$"),
        ({"policy": []}, r"^policy \[\]: give a name"),
        ({"teacher": "x"}, r"^there is no filter 'teacher'; choose from scenario, rubric, policy, graded,"),
        ({"disagreement": True}, r"^disagreement True: give 'model'"),
        ({"min_credit": "high"}, r"^min_credit 'high': give a number"),
        ({"min_credit": float("nan")}, r"^min_credit nan: give a number"),
        ({"graded": True}, r"^these runs have no grades; rollouts grade RUN makes them$"),
        ({"min_credit": 0.0}, r"^these runs have no credit; "),
        ({"columns": ["tik"]}, r"^there is no column 'tik'; choose from run_id, .*, credit_r$"),
        ({"columns": "tick"}, r"^columns 'tick': give a list of column names"),
        ({"columns": []}, r"^columns \[\]: give a list"),
    ],
)
def test_what_cannot_be_meant_is_told_in_a_line(tmp_path: Path, asked: dict[str, Any], told: str) -> None:
    run = row_run(tmp_path, [1])
    with pytest.raises(UsageError, match=told):
        read_table(place(run), **asked)


def test_ids_that_are_not_there_are_told_with_the_choices(tmp_path: Path) -> None:
    run = row_run(tmp_path, [1])
    commit_grades(run, [side_row(run, 0, status="graded", goal_achievement=0.1)])
    commit_credit(run, [side_row(run, 0, tick=0, value=0.1)])
    with pytest.raises(UsageError, match=r"^grader_id 'x' is not in these runs; there is judge$"):
        count_rows(place(run), graded=True, grader_id="x")
    with pytest.raises(UsageError, match=r"^grader_id 'judge': no grades are asked for"):
        count_rows(place(run), min_credit=0.0, grader_id="judge")
    with pytest.raises(UsageError, match=r"^credit_id 'x' is not in these runs; there is judge-events$"):
        count_rows(place(run), min_credit=0.0, credit_id="x")


def test_a_folder_that_is_no_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no run in .*nowhere"):
        read_table(tmp_path / "nowhere")
    run = row_run(tmp_path, [1])
    with pytest.raises(UsageError, match=r"made is named twice$"):
        read_table([place(run), f"{place(run)}/"])
    with pytest.raises(UsageError, match=r"^no run is named"):
        read_table([])
    shutil.copytree(place(run), tmp_path / "copy" / "made")
    with pytest.raises(UsageError, match=r"^two of the runs have the id made: "):
        read_table([place(run), tmp_path / "copy" / "made"])


def test_rows_know_their_number_without_a_picture(tmp_path: Path) -> None:
    run = row_run(tmp_path)
    rows = open_rows(place(run), ["frame"])
    assert (rows.total, rows.counts.tolist()) == (18, [10, 7, 1])
    assert rows.pieces[1].locate(3).endswith("made/steps/part-0000001.parquet, row 3")
