"""What becomes of side shards that are damaged, or whose unit is played again: set aside, owed, and made again.

The made run has seeds 1 and 2 in unit 0 (5 and 6 decisions), seed 3 in unit 1 (7 decisions).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from grading.order import GradingOrder
from grading.owed import Owed, find_owed
from rollouts.evidence.manifest import write_evidence
from rollouts.evidence.verify import differences
from rollouts.run.side_survey import survey_sides
from rollouts.shards.side_schemas import SIDE_EXEMPT
from tests.judged_runs import (
    RUN_ID,
    Desk,
    Model,
    id_of,
    judged_run,
    opened,
    order_at,
    shard,
)

TABLES = ("grades", "summaries", "credit")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("judged")
    judged_run(root)
    return root


@pytest.fixture
def root(judged: Path, tmp_path: Path) -> Path:
    shutil.copytree(judged, tmp_path / "run")
    return tmp_path / "run"


def tear(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 8)


def set_aside(root: Path) -> set[str]:
    """`<table>` of all that has been."""
    return {path.name.partition("-")[0] for path in (root / RUN_ID / ".staging/torn").iterdir()}


def rows(desk: Desk, root: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [
            {name: value for name, value in row.items() if name not in SIDE_EXEMPT[table]}
            for row in desk.rows(table, id_of(root, table))
        ]
        for table in TABLES
    }


def judge_owed(desk: Desk, order: GradingOrder) -> int:
    """Do whatever is owed; how many requests it took."""
    model, owed = Model(), find_owed(desk.run.folder, order, desk.units)
    if owed.summaries:
        desk.summarize(order, model)
    if owed.grades:
        desk.grade(order, model)
    if owed.credit:
        desk.credit(order)
    assert find_owed(desk.run.folder, order, desk.units) == Owed()
    return len(model.requests)


@pytest.mark.parametrize(
    ("table", "whose", "gone", "asked"),
    [
        ("grades", "grades", {"grades", "credit"}, 0),
        ("summaries", "summaries", {"summaries"}, 0),
        ("credit", "credit", {"credit"}, 0),
        ("calls", "grades", {"calls", "grades", "credit"}, 2),
        ("calls", "summaries", {"calls"}, 0),
    ],
)
def test_a_torn_shard_is_set_aside_and_made_again(
    root: Path, table: str, whose: str, gone: set[str], asked: int
) -> None:
    """Replies on file are used again; where they are lost, the grades that name them are too: seeds 1 and 2."""
    order, before = order_at(root), Desk.at(opened(root))
    wanted = rows(before, root)
    before.leave()
    tear(shard(root, table, id_of(root, whose)))
    desk = Desk.at(opened(root))
    assert set_aside(root) == gone
    assert judge_owed(desk, order) == asked
    assert rows(desk, root) == wanted
    desk.leave()
    write_evidence(desk.run)
    assert differences(opened(root)) == []


def test_what_is_owed_of_a_torn_shard_is_known_before_it_is_set_aside(root: Path) -> None:
    tear(shard(root, "grades"))
    run = opened(root)
    unfit = survey_sides(run.folder, run.folder.survey().committed).unfit
    owed = find_owed(run.folder, order_at(root), run.units(), unfit=unfit)
    assert [owed.gradings, [unit.number for unit in owed.grades], owed.summaries] == [2, [0], ()]
    assert shard(root, "grades").exists()


@pytest.mark.parametrize("damaged", ["steps", "episodes"])
def test_a_unit_that_must_be_played_again_takes_its_judgements_with_it_but_not_what_was_paid(
    root: Path, damaged: str
) -> None:
    calls = pq.read_table(shard(root, "calls"), partitioning=None).num_rows
    tear(root / RUN_ID / damaged / "part-0000000.parquet")
    desk = Desk.at(opened(root))
    assert set_aside(root) == {"steps", "episodes", *TABLES}
    for table in TABLES:
        assert not shard(root, table).exists()
        assert {row["seed"] for row in desk.rows(table, id_of(root, table))} == {3}
    assert pq.read_table(shard(root, "calls"), partitioning=None).num_rows == calls == 2


def rewritten(path: Path, play: str | None) -> None:
    """The same rows, said to be of another play, or without a word on it."""
    table: pa.Table = pq.read_table(path, partitioning=None)
    said = {key: value for key, value in table.schema.metadata.items() if key != b"play"}
    pq.write_table(table.replace_schema_metadata({**said, **({b"play": play.encode()} if play else {})}), path)


def test_a_judgement_says_which_play_it_judges(root: Path) -> None:
    steps = opened(root).folder.survey().committed[0].steps
    assert steps is not None
    for table in TABLES:
        assert pq.read_schema(shard(root, table)).metadata[b"play"].decode() == steps.sha256
    assert b"play" not in pq.read_schema(shard(root, "calls")).metadata


def test_a_judgement_of_another_play_is_told_and_made_again(root: Path) -> None:
    order = order_at(root)
    rewritten(shard(root, "grades"), "0" * 64)
    told = [line for line in differences(opened(root)) if "another play" in line]
    assert [(shard(root, "grades").name in line, "unit 0" in line) for line in told] == [(True, True)]
    desk = Desk.at(opened(root))
    assert set_aside(root) == {"grades", "credit"}
    assert judge_owed(desk, order) == 0
    desk.leave()
    write_evidence(desk.run)
    assert differences(opened(root)) == []


def test_a_shard_from_before_plays_were_named_counts(root: Path) -> None:
    for table in TABLES:
        rewritten(shard(root, table), None)
    run = opened(root)
    assert survey_sides(run.folder, run.folder.survey().committed).unfit == {}
    write_evidence(run)
    assert differences(run) == []
