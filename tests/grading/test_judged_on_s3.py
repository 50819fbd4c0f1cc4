"""Judging a run that lies on a real S3 endpoint on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from grading.credit import CreditSettings
from grading.owed import Owed, find_owed
from grading.played_here import JudgeHere
from rollouts.evidence.manifest import write_evidence
from rollouts.evidence.verify import differences
from rollouts.store.storage import open_storage
from tests.judged_runs import GRADER, SUMMARIZER, Desk, Model, make_order, played_run
from tests.s3_servers import new_bucket, object_store, uri_in

pytestmark = pytest.mark.slow


@pytest.fixture
def uri() -> Iterator[str]:
    with object_store() as place:
        yield uri_in(place, new_bucket(place), "out")


def test_grades_summaries_and_credit_on_an_object_store(uri: str, tmp_path: Path) -> None:
    here = make_order(uri, grader="heuristic", credit=CreditSettings())
    desk = Desk.at(played_run(open_storage(uri), judge=JudgeHere(here)))
    order = make_order(uri, grader=GRADER, summarizer=SUMMARIZER, credit=CreditSettings())
    first = Model(budget=3)
    assert [report.complete for report in desk.summarize(order, first)] == [True, False]
    rest = Model()
    desk.summarize(order, rest)
    assert len(rest.requests) == 1
    desk.grade(order, Model())
    desk.leave()
    assert find_owed(desk.run.folder, order, desk.units) == find_owed(desk.run.folder, here, desk.units) == Owed()
    write_evidence(desk.run)
    assert differences(desk.run) == []
    assert [f.path for f in desk.run.storage.list(desk.run.path(".calls"), recursive=True)] == []
