"""DAgger: a small network that sees nothing but pixels learns to play, from the rows of its own rollouts.

    python -m examples.dagger --scenario defend_the_center      # extra `train`; about ten minutes on two cores
    rollouts run --scenario defend_the_center --policy torch:runs/dagger/defend_the_center/round-3.safetensors

Ross, Gordon and Bagnell, "A Reduction of Imitation Learning and Structured Prediction to No-Regret Online Learning"
(2011): in each round a mixture of the teacher and the newest network plays, the teacher says of each frame what it
would have done, and a network is trained on the rows of all rounds so far. With one round, the teacher's own, this is
behaviour cloning. Each round is a run with an id of its own, and a network that is there is not trained again: kill it
whenever you like, and the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import ceil
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.paired import interval, seeds_of
from examples.fitting import fit
from rollouts.commands.flags import GradingFlags, RunFlags
from rollouts.commands.run import run
from rollouts.errors import RolloutsError, UsageError
from rollouts.policies.network_card import NetworkCard
from rollouts.policies.network_inputs import Frames
from rollouts.policies.torch_architectures import build, save_network
from rollouts.readers import count_rows, decode_frame, iter_batches
from rollouts.records import Frame
from rollouts.run.run_folder import RunFolder
from rollouts.scenarios.registry import SCENARIOS
from rollouts.store.storage import open_storage

VIEWS: Mapping[str, Frames] = {
    "defend_the_center": Frames((40, 160), crop=(80, 160, 0, 320)),
    "health_gathering": Frames((76, 160), crop=(88, 240, 0, 320)),
    "defend_the_line": Frames((40, 160), crop=(80, 160, 0, 320)),
    "health_gathering_supreme": Frames((76, 160), crop=(88, 240, 0, 320)),
}
"""The band that things stand in, at half the resolution; elsewhere the network sees the whole frame at a quarter."""
EVALUATION_SEEDS = 16
FIRST_SEED = 3_000_000_000
"""Above those that any scenario is evaluated on."""
_EPISODE_ROWS = 150
_BATCH = 128


@dataclass(frozen=True)
class Round:
    """Whose game it is: the teacher acts with probability `beta`; how many rows are learned from."""

    beta: float
    rows: int


@dataclass(frozen=True)
class Lesson:
    """Who learns what, and where its runs and networks are kept. `seed` draws the games and the network."""

    scenario: str
    out: Path
    seed: int = 0
    steps: int = 600
    pool: str = "ray"

    @property
    def card(self) -> NetworkCard:
        """Each of the three convolutions halves the picture; the grid is as fine as the last one's."""
        view = VIEWS.get(self.scenario, Frames((60, 80)))
        assert view.size is not None
        grid = [ceil(side / 8) for side in view.size]
        settings = {"widths": [8, 16, 32], "grid": grid}
        options = SCENARIOS[self.scenario].options
        return NetworkCard("conv", "frame", options, view.frame_size, view.crop, settings=settings)

    def network(self, number: int) -> Path:
        """Where the network of a round is, or will be."""
        return self.out / f"round-{number}.safetensors"


@dataclass
class Rows:
    """What all rounds so far have shown: frames as the network sees them, and the number of the teacher's action."""

    seen: list[Tensor] = field(default_factory=list)
    done: list[Tensor] = field(default_factory=list)

    def add(self, folder: Path, card: NetworkCard, most: int) -> None:
        """The first `most` rows of a run, in its own order."""
        frames, options = Frames(card.frame_size, card.crop), card.options or ()
        rows = (row for batch in iter_batches(folder, ["frame", "teacher_action"]) for row in batch.to_pylist())
        for _, row in zip(range(most), rows, strict=False):
            pixels = frames.fit(Frame(decode_frame(row["frame"]["bytes"]))).rgb()
            self.seen.append(torch.from_numpy(pixels).permute(2, 0, 1).contiguous())
            self.done.append(torch.tensor(options.index(row["teacher_action"])))

    def batches(self, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Bytes made [0, 1] as the `torch` policy makes them, with the actions: pass after pass, without end."""
        seen, done = torch.stack(self.seen), torch.stack(self.done)
        drawn = torch.Generator().manual_seed(seed)
        while True:
            for chosen in torch.randperm(len(done), generator=drawn).split(_BATCH):
                yield seen[chosen].float() / 255, done[chosen]


def learn(lesson: Lesson, rounds: Sequence[Round]) -> Iterator[Path]:
    """A network after each round, trained from nothing on the rows of all rounds up to it."""
    _check_same(lesson, rounds)
    rows = Rows()
    for number, this in enumerate(rounds):
        rows.add(collect(lesson, number, this), lesson.card, this.rows)
        if not lesson.network(number).exists():
            _train(lesson, rows, lesson.network(number))
        yield lesson.network(number)


def _check_same(lesson: Lesson, rounds: Sequence[Round]) -> None:
    """What is there is gone on with, so it must be of the same lesson. Errors: UsageError."""
    told = {"scenario": lesson.scenario, "seed": lesson.seed, "steps": lesson.steps, "rounds": [*map(asdict, rounds)]}
    path = lesson.out / "lesson.json"
    if path.exists() and json.loads(path.read_text()) != told:
        raise UsageError(f"{lesson.out} holds another lesson: {path.read_text()}; give another --out")
    lesson.out.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(told))


def collect(lesson: Lesson, number: int, this: Round) -> Path:
    """Play a round, with further seeds until there are enough rows; a run that is there goes on, or is done already."""
    policy = "oracle" if this.beta == 1 else f"mixture:{this.beta}:torch:{lesson.network(number - 1)}"
    first = FIRST_SEED + 1_000_000 * lesson.seed + 10_000 * number
    episodes, there = max(ceil(this.rows / _EPISODE_ROWS), _planned(lesson, f"round-{number}")), 0
    while there < this.rows:
        folder = play(lesson, f"round-{number}", (policy,), range(first, first + episodes))
        there = count_rows(folder)
        episodes += ceil(episodes * max(this.rows - there, 1) / max(there, 1))
    return folder


def _planned(lesson: Lesson, run_id: str) -> int:
    """The episodes of a run that was begun: it may be given more seeds, not fewer."""
    folder = RunFolder(open_storage(lesson.out), run_id)
    return sum(len(unit.episodes) for unit in folder.read_plan()) if folder.started() else 0


def play(lesson: Lesson, run_id: str, policies: Sequence[str], seeds: range | tuple[int, ...]) -> Path:
    """What `rollouts run` does, and the run's folder. Ends this process where the run did not come to its end."""
    flags = RunFlags(
        scenarios=[lesson.scenario],
        policies=list(policies),
        seeds=",".join(map(str, seeds)),
        out=str(lesson.out),
        run_id=run_id,
        pool=lesson.pool,
    )
    if code := run(flags=flags, grading_flags=GradingFlags(grade="none")):
        sys.exit(code)
    return lesson.out / run_id


def _train(lesson: Lesson, rows: Rows, path: Path) -> None:
    torch.manual_seed(lesson.seed)
    network = build(lesson.card, len(lesson.card.options or ()))
    loss = fit(network, rows.batches(lesson.seed), lesson.steps)
    unfinished = path.with_suffix(".part")
    save_network(network, lesson.card, unfinished)
    unfinished.rename(path)
    print(f"{path.name}: {len(rows.done):,} rows, loss {loss:.3f}", flush=True)


@dataclass(frozen=True)
class Outcome:
    """A policy's games: the metric of each seed's first episode, in the order of the seeds, and how often it did what
    the teacher would have done in its place."""

    values: tuple[float, ...]
    agreement: float


def evaluate(lesson: Lesson, run_id: str, policies: Sequence[str], seeds: tuple[int, ...]) -> list[Outcome]:
    """Of each policy what it came to."""
    folder = play(lesson, run_id, policies, seeds)
    metric = SCENARIOS[lesson.scenario].metric.name
    results = json.loads((folder / "manifest.json").read_text())["results"]
    values = [tuple(episode["value"] for episode in block[f"{metric}_by_episode"]) for block in results]
    agreements = [block["rubric_agreement"]["agreement"] for block in results]
    return [Outcome(*both) for both in zip(values, agreements, strict=True)]


def report(lesson: Lesson, rounds: Sequence[Round], seeds: tuple[int, ...], begun_s: float) -> dict[str, object]:
    """The last network beside the teacher, on the same seeds, which nothing was learned on."""
    scenario, network = SCENARIOS[lesson.scenario], lesson.network(len(rounds) - 1)
    policies = (f"torch:{network}", "oracle")
    learned, taught = (outcome.values for outcome in evaluate(lesson, "evaluation", policies, seeds))
    apart = interval([one - other for one, other in zip(learned, taught, strict=True)])
    took_s = time.monotonic() - begun_s
    print(f"{scenario.metric.name} on {len(seeds)} seeds that nothing was learned on, mean [95 %]: network ", end="")
    print(f"{interval(learned)}, teacher {interval(taught)}, paired difference {apart}; {took_s:.0f} s in all")
    told = {"scenario": scenario.name, "metric": scenario.metric.name, "rows": sum(each.rows for each in rounds)}
    return {**told, "seeds": seeds, "network": learned, "teacher": taught, "seconds": took_s}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    taught = [name for name, scenario in SCENARIOS.items() if scenario.teacher is not None]
    parser.add_argument("--scenario", choices=taught, default="defend_the_center")
    parser.add_argument("--betas", type=float, nargs="+", default=[1, 0.5, 0.25, 0], help="the teacher's share a round")
    parser.add_argument("--rows", type=int, default=2_000, help="rows a round")
    parser.add_argument("--steps", type=int, default=600, help="steps of training after each round")
    parser.add_argument("--evaluation-seeds", type=int, default=EVALUATION_SEEDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pool", choices=("ray", "local"), default="ray")
    parser.add_argument("--out", type=Path, help="where runs and networks are kept (runs/dagger/SCENARIO)")
    asked = parser.parse_args(arguments)
    if asked.betas[0] != 1 or not all(0 <= beta <= 1 for beta in asked.betas):
        parser.error("--betas must begin with 1 (there is no network yet) and lie between 0 and 1")
    if min(asked.rows, asked.steps, asked.evaluation_seeds) < 1:
        parser.error("--rows, --steps and --evaluation-seeds must be 1 or more")
    begun_s = time.monotonic()
    out = asked.out or Path("runs/dagger", asked.scenario)
    lesson = Lesson(asked.scenario, out.absolute(), asked.seed, asked.steps, asked.pool)
    rounds = [Round(beta, asked.rows) for beta in asked.betas]
    try:
        for network in learn(lesson, rounds):
            print(f"the newest network: {network}", flush=True)
        told = report(lesson, rounds, seeds_of(SCENARIOS[asked.scenario], asked.evaluation_seeds), begun_s)
    except RolloutsError as error:
        print(f"dagger: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    (lesson.out / "report.json").write_text(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
