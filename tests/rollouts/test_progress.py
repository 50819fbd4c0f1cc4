from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
from rich.console import Console

from rollouts.progress import BarReporter, Counts, JsonReporter, Launch, Meter, PlainReporter, make_reporter

LAUNCH = Launch(
    run_id="r",
    location="/data/r",
    resumed=False,
    units=4,
    units_owed=4,
    episodes=40,
    episodes_owed=40,
    pool="ray",
    actors=2,
)


class Clock:
    """Seconds that pass when the test says so."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Iterator[Clock]:
    return Clock()


def test_counts_add_up() -> None:
    assert Counts(1, 0, 10, 2).plus(3, 1, 50, 4) == Counts(4, 1, 60, 6)


def test_there_is_no_rate_before_anything_was_played(clock: Clock) -> None:
    meter = Meter(40, Counts(), clock())
    assert (meter.decisions_per_s, meter.left_s) == (None, None)


def test_rate_and_time_left() -> None:
    meter = Meter(40, Counts(), 0.0)
    meter.add(Counts(10, 0, 1_000), 5.0)
    assert meter.decisions_per_s == 200.0
    assert meter.left_s == 15.0


def test_the_rate_forgets_the_start() -> None:
    meter = Meter(1_000, Counts(), 0.0)
    for second in range(1, 61):
        slow = min(second, 30) * 10
        meter.add(Counts(second, 0, slow + max(0, second - 30) * 500), float(second))
    assert meter.decisions_per_s == 500.0


def test_episodes_of_an_earlier_run_do_not_make_this_one_look_fast() -> None:
    meter = Meter(40, Counts(episodes=30), 0.0)
    meter.add(Counts(32, 0, 100), 4.0)
    assert meter.left_s == 16.0


def test_plain_lines_come_at_most_every_five_seconds_and_at_the_end(clock: Clock) -> None:
    out = io.StringIO()
    reporter = PlainReporter(out, clock)
    reporter.launch(LAUNCH, Counts())
    for episodes in range(1, 41):
        clock.now_s += 0.5
        reporter.counts(Counts(episodes, 1, episodes * 100, 3))
    lines = out.getvalue().splitlines()
    assert lines[0] == "starting r: 40 of 40 episodes owed, 2 actors (ray), in /data/r"
    assert lines[1] == "10/40 episodes · 200 decisions/s · 3 out of schema · 1 failed · 0:00:15 left"
    assert lines[-1] == "40/40 episodes · 200 decisions/s · 3 out of schema · 1 failed · 0:00:00 left"
    assert len(lines) == 5
    assert "\x1b" not in out.getvalue()


def test_json_lines_start_with_launch_and_end_with_done(clock: Clock) -> None:
    out = io.StringIO()
    reporter = JsonReporter(out, clock)
    reporter.launch(LAUNCH, Counts())
    reporter.counts(Counts(1, 0, 100))
    clock.now_s += 2
    reporter.counts(Counts(2, 0, 200))
    reporter.note("an actor was lost\nand came back")
    reporter.done({"state": "complete"})
    events = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["launch", "progress", "note", "done"]
    assert events[0]["run_id"] == "r"
    assert events[1]["decisions_per_s"] == 100.0
    assert events[1]["episodes"] == 2


def test_a_number_that_json_has_not_is_never_printed(clock: Clock) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        JsonReporter(io.StringIO(), clock).done({"mean": float("nan")})


def test_the_bar_shows_counts_and_gives_the_terminal_back(clock: Clock) -> None:
    out = io.StringIO()
    reporter = BarReporter(Console(file=out, force_terminal=True, width=120), clock)
    reporter.launch(LAUNCH, Counts())
    clock.now_s += 1
    reporter.counts(Counts(10, 0, 1_000, 7))
    reporter.note("[red]kept as it is[/red]")
    reporter.close()
    text = out.getvalue()
    assert "10/40" in text
    assert "1,000 decisions/s · 7 out of schema · 0:00:03 left" in text
    assert "[red]kept as it is[/red]" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_who_reports_depends_on_where_the_output_goes() -> None:
    plain = make_reporter(as_json=False, stdout=io.StringIO(), stderr=io.StringIO())
    assert isinstance(plain, PlainReporter)
    assert isinstance(make_reporter(as_json=True, stdout=io.StringIO(), stderr=io.StringIO()), JsonReporter)
