"""Lines of judges: who waits for whom, how one ends when another stops, and that nobody who feeds them ever waits."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Collection

from grading.judge import Stage
from grading.pipeline import LOCAL_LIMITS, Line, SideEvent, SidePipeline
from rollouts.driver import Committed
from rollouts.pools.lanes import LocalLanes
from rollouts.pools.pool import Report
from rollouts.records import SideCounts, SideReport, Unit
from rollouts.signals import Signals
from tests.lane_doubles import FakeJudge, Mishap, SideCommitsDouble, side_report
from tests.pool_doubles import make_units


class Recorded(FakeJudge):
    """Says which stage made a report, and notes when a task begins."""

    def __init__(self, stage: Stage, log: list[tuple[str, Stage, int]], seconds: float, mishaps: dict[int, Mishap]):
        super().__init__(seconds, mishaps)
        self._stage = stage
        self._log = log

    async def play(self, unit: Unit, attempt: str) -> SideReport:
        self._log.append(("begun", self._stage, unit.number))
        return await super().play(unit, attempt)


class Scene:
    """Lines of the given stages, whose judges note what they begin and whose commits note what is through."""

    def __init__(self, seconds: float = 0.01, mishaps: dict[Stage, dict[int, Mishap]] | None = None) -> None:
        self.log: list[tuple[str, Stage, int]] = []
        self._seconds = seconds
        self._mishaps = mishaps or {}

    def line(self, stage: Stage, after: Collection[Stage] = (), fed: bool = True, lanes: int = 2) -> Line:
        def make() -> Recorded:
            return Recorded(stage, self.log, self._seconds, self._mishaps.get(stage, {}))

        return Line(stage, LocalLanes(make, lanes, stage), frozenset(after), LOCAL_LIMITS, fed)

    def note(self, event: SideEvent) -> None:
        if isinstance(event.event, Committed):
            self.log.append(("told", event.stage, event.event.unit.number))

    def begun(self, stage: Stage) -> list[int]:
        return sorted(number for what, at, number in self.log if (what, at) == ("begun", stage))


def test_stages_without_need_of_each_other_work_at_the_same_time() -> None:
    """Each judge waits until the other stage has begun with the same unit: one after the other would never end."""
    scene, commits = Scene(), SideCommitsDouble()

    class Meeting(Recorded):
        async def play(self, unit: Unit, attempt: str) -> SideReport:
            report = await super().play(unit, attempt)
            async with asyncio.timeout(20):
                while {at for what, at, number in scene.log if number == unit.number} != {"summaries", "grades"}:
                    await asyncio.sleep(0.005)
            return report

    def line(stage: Stage) -> Line:
        return Line(stage, LocalLanes(lambda: Meeting(stage, scene.log, 0, {}), 2, stage), limits=LOCAL_LIMITS)

    with SidePipeline([line("summaries"), line("grades")], commits) as pipeline:
        for unit in make_units(2):
            pipeline.feed(unit)
        ended = pipeline.finish(scene.note)
    assert ended.state == "complete"
    assert [(s.units, s.committed) for s in ended.stages.values()] == [(2, 2), (2, 2)]
    assert ended.stages["grades"].counts == SideCounts(graded=2)
    assert sorted(scene.log[-4:]) == [("told", s, n) for s in ("grades", "summaries") for n in (0, 1)]


def test_a_stage_begins_with_a_unit_when_the_one_it_reads_is_committed() -> None:
    scene = Scene()
    through: list[int] = []
    commits = SideCommitsDouble(lambda report: through.append(report.unit))
    begun_too_early: list[int] = []

    class Reader(Recorded):
        async def play(self, unit: Unit, attempt: str) -> SideReport:
            if unit.number not in through:
                begun_too_early.append(unit.number)
            return await super().play(unit, attempt)

    grades = Line("grades", LocalLanes(lambda: Reader("grades", scene.log, 0, {}), 2), frozenset({"summaries"}))
    with SidePipeline([scene.line("summaries"), grades], commits) as pipeline:
        for unit in make_units(20):
            pipeline.feed(unit)
        assert pipeline.finish().state == "complete"
    assert begun_too_early == []
    assert scene.begun("grades") == list(range(20))


def test_credit_waits_for_both_and_takes_old_units_too() -> None:
    """Units 0-2 come in now; 3 lacks credit alone, 4 grades and credit."""
    scene, commits = Scene(), SideCommitsDouble()
    units = make_units(5)
    lines = [scene.line("summaries"), scene.line("grades"), scene.line("credit", ("summaries", "grades"))]
    with SidePipeline(lines, commits) as pipeline:
        pipeline.add(units[3], ["credit"])
        pipeline.add(units[4], ["grades", "credit"])
        for unit in units[:3]:
            pipeline.feed(unit)
        ended = pipeline.finish()
    assert ended.state == "complete"
    assert (scene.begun("summaries"), scene.begun("grades")) == ([0, 1, 2], [0, 1, 2, 4])
    assert scene.begun("credit") == [0, 1, 2, 3, 4]
    for number in (0, 1, 2):
        marks = [(what, at) for what, at, n in scene.log if n == number]
        assert marks[-1] == ("begun", "credit")


def test_a_line_that_is_not_fed_takes_only_what_it_is_given() -> None:
    scene, commits = Scene(), SideCommitsDouble()
    with SidePipeline([scene.line("summaries"), scene.line("grades", fed=False)], commits) as pipeline:
        first, second = make_units(2)
        pipeline.add(first, ["grades"])
        pipeline.feed(second)
        pipeline.finish()
    assert (scene.begun("summaries"), scene.begun("grades")) == ([1], [0])


def test_nothing_to_do_starts_nothing() -> None:
    scene = Scene()
    with SidePipeline([scene.line("grades")], SideCommitsDouble()) as pipeline:
        ended = pipeline.finish()
    assert (ended.state, scene.log) == ("complete", [])


def test_a_spent_budget_of_one_stage_holds_back_those_that_read_it_and_no_other() -> None:
    scene, commits = Scene(mishaps={"summaries": {2: "budget"}}), SideCommitsDouble()
    units = make_units(40)
    lines = [
        scene.line("summaries", lanes=1),
        scene.line("grades"),
        scene.line("credit", ("summaries", "grades")),
    ]
    with SidePipeline(lines, commits) as pipeline:
        for unit in units:
            pipeline.feed(unit)
        ended = pipeline.finish()
    assert (ended.state, ended.cause) == ("budget", "the budget of 3 calls is used up")
    assert {stage: s.owed for stage, s in ended.stages.items()} == {"summaries": 38, "grades": 0, "credit": 38}
    assert ended.stages["credit"].state == "budget"
    assert ended.stages["grades"].state == "complete"


def test_a_stage_that_cannot_work_stops_with_its_first_true_cause() -> None:
    scene = Scene(mishaps={"grades": dict.fromkeys(range(9), "raise")})
    with SidePipeline([scene.line("grades")], SideCommitsDouble()) as pipeline:
        for unit in make_units(9):
            pipeline.feed(unit)
        ended = pipeline.finish()
    assert ended.state == "stopped"
    assert ended.cause == "3 tries in a row failed by one cause: ValueError: bad weights path X"
    assert ended.stages["grades"].owed == 9


def test_feeding_and_asking_never_wait_for_a_stuck_store() -> None:
    """A hundred units and looks take no time while the one commit hangs."""
    hangs = threading.Event()

    def hang(_report: Report) -> None:
        hangs.wait(30)

    scene, units = Scene(seconds=0), make_units(101)
    with SidePipeline([scene.line("grades")], SideCommitsDouble(hang)) as pipeline:
        pipeline.feed(units[0])
        while not scene.log:
            time.sleep(0.01)
        begun = time.monotonic()
        for unit in units[1:]:
            pipeline.feed(unit)
            assert pipeline.status()["grades"].committed == 0
        assert time.monotonic() - begun < 15
        hangs.set()
        assert pipeline.finish().stages["grades"].committed == 101


def test_a_signal_ends_all_lines_in_time_and_what_is_owed_is_said() -> None:
    scene, commits = Scene(seconds=30), SideCommitsDouble()
    with Signals() as signals, SidePipeline([scene.line("grades"), scene.line("summaries")], commits, signals) as lines:
        for unit in make_units(4):
            lines.feed(unit)
        while len(scene.log) < 4:
            time.sleep(0.01)
        begun = time.monotonic()
        signal.raise_signal(signal.SIGTERM)
        ended = lines.finish()
    assert time.monotonic() - begun < 15
    assert ended.state == "interrupted"
    assert [s.owed for s in ended.stages.values()] == [4, 4]


def test_leaving_it_early_ends_what_is_under_way() -> None:
    scene = Scene(seconds=30)
    begun = time.monotonic()
    with SidePipeline([scene.line("grades")], SideCommitsDouble()) as pipeline:
        pipeline.feed(make_units(1)[0])
        while not scene.log:
            time.sleep(0.01)
    assert time.monotonic() - begun < 15
    assert pipeline.status()["grades"].state == "interrupted"


def test_a_report_of_a_part_does_not_count_as_done() -> None:
    unit = make_units(1)[0]
    part = side_report(unit, "a", ("budget", "spent"))
    assert not part.complete
    scene, commits = Scene(mishaps={"grades": {0: "budget"}}), SideCommitsDouble()
    with SidePipeline([scene.line("grades")], commits) as pipeline:
        pipeline.feed(unit)
        ended = pipeline.finish()
    assert commits.units() == [0]
    assert (ended.stages["grades"].committed, ended.stages["grades"].owed) == (0, 1)
