"""What rows of one's own play are worth: cloning the teacher's games beside DAgger, with the same number of rows.

    python -m examples.learning_curve                 # extras `train` and `report`; a learner takes minutes: see README
    python -m examples.learning_curve --draw-only     # the picture from the numbers that are there

A learner of `cloning` trains on so many rows of the teacher's games. One of `dagger` begins with half as many of the
least number, then goes on in rounds: the teacher's share is halved each time, and each point of the curve is a round.
All play the same seeds, which nothing was learned on. Numbers and picture are written after each learner; kill it
whenever you like, and the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paired import interval, seeds_of
from examples.dagger import EVALUATION_SEEDS, Lesson, Round, evaluate, learn
from rollouts.errors import RolloutsError, UsageError
from rollouts.naming import counted
from rollouts.scenarios.registry import SCENARIOS

ROWS = (250, 500, 1_000, 2_000, 5_000)
ARMS = ("cloning", "dagger")


@dataclass(frozen=True)
class Point:
    """What one learner came to with so many rows: the metric of each evaluation seed, and its agreement with the
    teacher in the games that it played itself."""

    arm: str
    rows: int
    learner: int
    values: tuple[float, ...]
    agreement: float


@dataclass(frozen=True)
class Curve:
    """All that the picture is drawn from. `teacher` has the oracle's metric on the same `seeds`."""

    scenario: str
    metric: str
    seeds: tuple[int, ...]
    teacher: tuple[float, ...]
    points: tuple[Point, ...]

    def of(self, arm: str, rows: int) -> tuple[float, ...]:
        """Seed by seed, the mean over learners."""
        found = [point.values for point in self.points if (point.arm, point.rows) == (arm, rows)]
        return tuple(np.mean(found, axis=0).tolist())

    def agreement(self, arm: str, rows: int) -> float:
        """The mean over learners."""
        return float(np.mean([point.agreement for point in self.points if (point.arm, point.rows) == (arm, rows)]))

    def rows(self) -> list[int]:
        return sorted({point.rows for point in self.points})

    @property
    def learners(self) -> int:
        return len({point.learner for point in self.points})

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self)) + "\n")

    @classmethod
    def read(cls, path: Path) -> Curve:
        told: dict[str, Any] = json.loads(path.read_text())
        points = tuple(Point(**{**point, "values": tuple(point["values"])}) for point in told.pop("points"))
        return cls(**{**told, "seeds": tuple(told["seeds"]), "teacher": tuple(told["teacher"]), "points": points})


def rounds_of(arm: str, rows: Sequence[int]) -> list[Round]:
    """The rounds of a learner that comes by each of `rows` in turn."""
    if arm == "cloning":
        return [Round(1.0, more) for more in _steps((0, *rows))]
    return [Round(0.5**number, more) for number, more in enumerate(_steps((0, rows[0] // 2, *rows)))]


def _steps(totals: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise(totals)]


def measure(lesson: Lesson, arm: str, rows: Sequence[int], seeds: tuple[int, ...]) -> Iterator[Point]:
    """One learner of an arm, from the least rows to the most."""
    rounds = rounds_of(arm, rows)
    totals = list(accumulate(each.rows for each in rounds))
    for total, network in zip(totals, learn(lesson, rounds), strict=True):
        if total in rows:
            (outcome,) = evaluate(lesson, f"evaluation-{total}", (f"torch:{network}",), seeds)
            yield Point(arm, total, lesson.seed, outcome.values, outcome.agreement)


def measured(scenario: str, out: Path, rows: Sequence[int], learners: int, pool: str) -> Iterator[Curve]:
    """The curve after each learner of either arm."""
    seeds = seeds_of(SCENARIOS[scenario], EVALUATION_SEEDS)
    (teacher,) = evaluate(Lesson(scenario, out, pool=pool), "teacher", ("oracle",), seeds)
    points: list[Point] = []
    for learner in range(learners):
        for arm in ARMS:
            lesson = Lesson(scenario, out / f"{arm}-{learner}", learner, pool=pool)
            points += measure(lesson, arm, rows, seeds)
        yield Curve(scenario, SCENARIOS[scenario].metric.name, seeds, teacher.values, tuple(points))


def table(curve: Curve) -> str:
    """In Markdown, a line a number of rows: means with 95 % bootstrap intervals over the evaluation seeds."""
    lines = [
        f"| rows | cloning, {curve.metric} | dagger, {curve.metric} | dagger - cloning, paired | agreement of both |",
        "|---|---|---|---|---|",
    ]
    for rows in curve.rows():
        cloned, daggered = (curve.of(arm, rows) for arm in ARMS)
        agreed = " and ".join(f"{curve.agreement(arm, rows):.3f}" for arm in ARMS)
        apart = interval([one - other for one, other in zip(daggered, cloned, strict=True)])
        lines.append(f"| {rows:,} | {interval(cloned)} | {interval(daggered)} | {apart} | {agreed} |")
    learners, seeds = counted(curve.learners, "learner"), counted(len(curve.seeds), "seed")
    told = f"teacher {interval(curve.teacher)}; {learners} of each, {seeds}"
    return "\n".join([*lines, "", f"{curve.scenario}, {curve.metric}: {told}."])


def draw(curve: Curve, path: Path) -> None:
    """The picture as SVG or PNG, by the name's ending. Imports matplotlib (extra `report`)."""
    from matplotlib.figure import Figure  # noqa: PLC0415  an extra, and not needed to measure

    figure = Figure(figsize=(9, 4), layout="constrained")
    played, agreed = figure.subplots(1, 2)
    taught = interval(curve.teacher)
    played.axhline(taught.mean, color="0.4", linestyle="--", label="teacher (the written rule)")
    played.axhspan(taught.low, taught.high, color="0.4", alpha=0.12, linewidth=0)
    for arm, colour, shift in zip(ARMS, ("tab:blue", "tab:orange"), (0.97, 1.03), strict=True):
        at = [rows * shift for rows in curve.rows()]
        spread = [interval(curve.of(arm, rows)) for rows in curve.rows()]
        bars = np.array([[each.mean - each.low, each.high - each.mean] for each in spread]).T
        played.errorbar(at, [each.mean for each in spread], bars, color=colour, marker="o", capsize=3, label=arm)
        agreed.plot(curve.rows(), [curve.agreement(arm, rows) for rows in curve.rows()], color=colour)
        each = [(point.rows, point.agreement) for point in curve.points if point.arm == arm]
        agreed.scatter(*zip(*each, strict=True), color=colour, marker=".")
    for axes in (played, agreed):
        axes.set_xscale("log", base=10)
        axes.set_xticks(curve.rows(), [f"{rows:,}" for rows in curve.rows()])
        axes.minorticks_off()
        axes.set_xlabel("rows learned from")
    played.set(ylabel=f"{curve.metric} an episode", title=curve.scenario)
    played.set_ylim(bottom=min(0.0, played.get_ylim()[0]))
    agreed.set(ylabel="does what the teacher would do", title="in the games that it plays itself")
    played.legend(loc="lower right")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    taught = [name for name, scenario in SCENARIOS.items() if scenario.teacher is not None]
    parser.add_argument("--scenario", choices=taught, default="defend_the_center")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS), help="rows to learn from, rising")
    parser.add_argument("--learners", type=int, default=3, help="how often each arm is learned from the start")
    parser.add_argument("--pool", choices=("ray", "local"), default="ray")
    parser.add_argument("--out", type=Path, help="where runs and networks are kept (runs/curve/SCENARIO)")
    parser.add_argument("--picture", type=Path, help="docs/learning_curve_SCENARIO.png; the numbers lie beside it")
    parser.add_argument("--draw-only", action="store_true")
    asked = parser.parse_args(arguments)
    picture = asked.picture or Path(f"docs/learning_curve_{asked.scenario}.png")
    out = asked.out or Path("runs/curve", asked.scenario)
    try:
        if not asked.draw_only:
            for curve in measured(asked.scenario, out.absolute(), sorted(asked.rows), asked.learners, asked.pool):
                curve.write(picture.with_suffix(".json"))
                print(table(curve), flush=True)
    except RolloutsError as error:
        print(f"learning_curve: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    curve = Curve.read(picture.with_suffix(".json"))
    print(table(curve))
    draw(curve, picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
