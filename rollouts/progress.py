"""What a person, or a program, sees while a run goes on: a live bar, plain lines, or JSON lines.

The bar and the plain lines go to stderr, JSON lines to stdout (`launch` first, `done` last). Knows nothing of Ray.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from rollouts.naming import counted
from rollouts.records import SideCounts

RATE_WINDOW_S = 15.0
PLAIN_EVERY_S = 5.0
JSON_EVERY_S = 1.0
NOTHING_GRADED = SideCounts()


@dataclass(frozen=True)
class Launch:
    """The start of a run, after the plan is fixed: how much there is, how much is owed, and where it goes.

    `judging` says in short words what of the episodes that were played earlier is still to be graded.
    """

    run_id: str
    location: str
    resumed: bool
    units: int
    units_owed: int
    episodes: int
    episodes_owed: int
    pool: str
    actors: int
    judging: tuple[str, ...] = ()


@dataclass(frozen=True)
class Counts:
    """Episodes committed (of this and earlier runs), those of them that failed, and this run's decisions so far.

    `side` is what grading has made since the command began.
    """

    episodes: int = 0
    failed: int = 0
    decisions: int = 0
    out_of_schema: int = 0
    side: SideCounts = NOTHING_GRADED

    def plus_side(self, side: SideCounts) -> Counts:
        return replace(self, side=self.side + side)

    def plus(self, episodes: int, failed: int, decisions: int, out_of_schema: int) -> Counts:
        return replace(
            self,
            episodes=self.episodes + episodes,
            failed=self.failed + failed,
            decisions=self.decisions + decisions,
            out_of_schema=self.out_of_schema + out_of_schema,
        )


class Meter:
    """Rates over the last seconds, so that start-up does not weigh on them. Times are monotonic seconds."""

    def __init__(self, episodes: int, counts: Counts, now_s: float) -> None:
        self._total = episodes
        self._points: deque[tuple[float, Counts]] = deque([(now_s, counts)])

    def add(self, counts: Counts, now_s: float) -> None:
        self._points.append((now_s, counts))
        while len(self._points) > 2 and self._points[1][0] <= now_s - RATE_WINDOW_S:
            self._points.popleft()

    @property
    def decisions_per_s(self) -> float | None:
        """None until there is anything to tell."""
        return self._rate(lambda counts: counts.decisions)

    @property
    def left_s(self) -> float | None:
        """Seconds until the last episode, at the present rate."""
        rate = self._rate(lambda counts: counts.episodes)
        return (self._total - self._points[-1][1].episodes) / rate if rate else None

    def _rate(self, of: Callable[[Counts], int]) -> float | None:
        (start_s, first), (end_s, last) = self._points[0], self._points[-1]
        gained = of(last) - of(first)
        return gained / (end_s - start_s) if gained and end_s > start_s else None


class Reporter(Protocol):
    """Told of a run's course by whoever leads it: one launch, any number of counts and notes, one done."""

    def launch(self, launch: Launch, counts: Counts) -> None: ...

    def counts(self, counts: Counts) -> None: ...

    def note(self, text: str) -> None:
        """Something that a person should know now: an actor lost, a node gone."""
        ...

    def done(self, done: Mapping[str, Any]) -> None:
        """The end of the run. `done` is what `--json` prints."""
        ...

    def close(self) -> None:
        """Give the terminal back, whatever happened. May be called twice."""
        ...


def summary(counts: Counts, course: Course) -> str:
    """The one line that the plain reporter prints and the bar carries at its right."""
    if course.only_grades:
        return f"{counted(counts.episodes, 'episode')} · {' · '.join(side_words(counts.side)) or 'nothing graded yet'}"
    rate, left_s = course.meter.decisions_per_s, course.meter.left_s
    parts = [
        f"{counts.episodes:,}/{counted(course.episodes, 'episode')}",
        f"{rate:,.0f} decisions/s" if rate else "- decisions/s",
        f"{counts.out_of_schema:,} out of schema",
        *([f"{counts.failed:,} failed"] if counts.failed else []),
        *side_words(counts.side),
        f"{timedelta(seconds=round(left_s))} left" if left_s is not None else "- left",
    ]
    return " · ".join(parts)


def side_words(side: SideCounts) -> list[str]:
    """What grading has made so far, in short words; nothing where it has made nothing."""
    ungraded, degraded = (sum(n for _, n in causes) for causes in (side.ungraded, side.degraded))
    numbers = (
        (side.graded, f"{side.graded:,} graded"),
        (ungraded, f"{ungraded:,} ungraded"),
        (side.entries, counted(side.entries, "entry")),
        (degraded, f"{degraded:,} degraded"),
        (side.requests, counted(side.requests, "request")),
        (side.reused, f"{counted(side.reused, 'reply')} used again"),
    )
    return [words for n, words in numbers if n]


def opening(launch: Launch) -> str:
    """The first line for a person: what starts, or goes on, and where."""
    if launch.judging and not launch.episodes_owed:
        return f"grading {launch.run_id}: {', '.join(launch.judging)}, in {launch.location}"
    if not launch.episodes_owed:
        return f"nothing is owed: {launch.run_id} has its {counted(launch.episodes, 'episode')}, in {launch.location}"
    verb = "resuming" if launch.resumed else "starting"
    return (
        f"{verb} {launch.run_id}: {launch.episodes_owed:,} of {counted(launch.episodes, 'episode')} owed, "
        f"{counted(launch.actors, 'actor')} ({launch.pool}), in {launch.location}"
        f"{'; to be graded: ' + ', '.join(launch.judging) if launch.judging else ''}"
    )


class Course:
    """How far a run has come, by the clock: the meter, and when something was last said."""

    def __init__(self, launch: Launch | None, counts: Counts, clock: Callable[[], float]) -> None:
        self.episodes = episodes = launch.episodes if launch else 0
        self.only_grades = launch is not None and not launch.episodes_owed
        self.meter = Meter(episodes, counts, clock())
        self._clock, self._said_s = clock, clock()
        self._was_whole = False

    def add(self, counts: Counts) -> None:
        self.meter.add(counts, self._clock())

    def due(self, counts: Counts, every_s: float) -> bool:
        """True, once, when `every_s` have passed or the last episode is in."""
        now_s, whole = self._clock(), counts.episodes >= self.episodes
        if now_s - self._said_s < every_s and (self._was_whole or not whole):
            return False
        self._said_s, self._was_whole = now_s, whole
        return True


class PlainReporter:
    """Plain lines, at most one in five seconds, with no control codes: for files, pipes and CI."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock = out, clock
        self._course = Course(None, Counts(), clock)

    def launch(self, launch: Launch, counts: Counts) -> None:
        self._course = Course(launch, counts, self._clock)
        self.note(opening(launch))

    def counts(self, counts: Counts) -> None:
        self._course.add(counts)
        if self._course.due(counts, PLAIN_EVERY_S):
            self.note(summary(counts, self._course))

    def note(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def done(self, done: Mapping[str, Any]) -> None:
        """The table that follows says it all."""

    def close(self) -> None:
        """Nothing to give back."""


class JsonReporter:
    """JSON lines: `launch`, then `progress` at most once a second and `note`, then `done`."""

    def __init__(self, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock = out, clock
        self._course = Course(None, Counts(), clock)

    def launch(self, launch: Launch, counts: Counts) -> None:
        self._course = Course(launch, counts, self._clock)
        self._say("launch", asdict(launch))

    def counts(self, counts: Counts) -> None:
        self._course.add(counts)
        if self._course.due(counts, JSON_EVERY_S):
            meter = self._course.meter
            rates = {"decisions_per_s": meter.decisions_per_s, "left_s": meter.left_s}
            self._say("progress", {**_told(counts), "of_episodes": self._course.episodes, **rates})

    def note(self, text: str) -> None:
        self._say("note", {"text": text})

    def done(self, done: Mapping[str, Any]) -> None:
        self._say("done", done)

    def close(self) -> None:
        """Nothing to give back."""

    def _say(self, event: str, fields: Mapping[str, Any]) -> None:
        print(json.dumps({"event": event, **fields}, allow_nan=False), file=self._out, flush=True)


def _told(counts: Counts) -> dict[str, Any]:
    told, side = asdict(counts), asdict(counts.side)
    del told["side"]
    return {**told, "grading": {**side, "ungraded": dict(side["ungraded"]), "degraded": dict(side["degraded"])}}


class BarReporter:
    """A live bar at the bottom of the terminal; notes scroll by above it."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console, self._clock = console, clock
        text = TextColumn("{task.description}", markup=False)
        self._bar = Progress(BarColumn(bar_width=None), MofNCompleteColumn(), text, console=console)
        self._task = self._bar.add_task("", total=None)
        self._course = Course(None, Counts(), clock)

    def launch(self, launch: Launch, counts: Counts) -> None:
        self.note(opening(launch))
        self._course = Course(launch, counts, self._clock)
        self._bar.update(self._task, total=launch.episodes, completed=counts.episodes)
        self._bar.start()

    def counts(self, counts: Counts) -> None:
        self._course.add(counts)
        _, _, line = summary(counts, self._course).partition(" · ")
        self._bar.update(self._task, completed=counts.episodes, description=line)

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def done(self, done: Mapping[str, Any]) -> None:  # noqa: ARG002  the table that follows says it
        self.close()

    def close(self) -> None:
        self._bar.stop()


def make_reporter(as_json: bool, stdout: TextIO, stderr: TextIO) -> Reporter:
    """JSON lines when asked for; else the bar where stderr is a terminal, and plain lines where it is not."""
    if as_json:
        return JsonReporter(stdout)
    if stderr.isatty():
        return BarReporter(Console(file=stderr))
    return PlainReporter(stderr)
