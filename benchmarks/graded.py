"""How much longer a run takes when a model grades and summarizes it: against the larger of what either takes alone.

    python -m benchmarks.graded [--episodes 32] [--reply-s 0.5]

The endpoint is the scripted one, with as many seconds a reply. What calls alone would take is calls x seconds / 16,
with 16 in flight, and has no start in it; what rollouts take is the time until the last of them is committed, in the
same run, or alone. Nothing can be asked before an actor has played the first episode: where calls take longest,
`first_request_s` is most of the rest. Every number begins when Ray is up and the run's folder is there.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.commands.playing import play, start
from rollouts.commands.pools import Place
from rollouts.commands.preparing import prepare
from rollouts.config import load_configs
from rollouts.errors import RunStopped
from rollouts.progress import Counts
from rollouts.signals import Signals
from rollouts.store.storage import open_storage

IN_FLIGHT = 16


@dataclass
class Clock:
    """Hears how far a run is, and notes when all its episodes were committed."""

    episodes: int
    begun_s: float = field(default_factory=time.monotonic)
    played_s: float = 0.0

    def launch(self, *_: object) -> None: ...
    def counts(self, counts: Counts) -> None:
        if not self.played_s and counts.episodes >= self.episodes:
            self.played_s = time.monotonic() - self.begun_s

    def note(self, text: str) -> None:
        print(text)

    def done(self, *_: object) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Measured:
    """`ratio`: the wall time over the larger of what rollouts and calls take within the run; 1: perfect overlap.
    `ratio_to_rollouts_alone` has in the place of the former what they take, from the same moment on, where nobody
    judges them; `ratio_since_first_request` leaves out what passes until there is something to ask, and is over the
    calls alone. `load` is the machine's at the start (processes that want to run, of the last minute): others that work
    at the same time make it all slower."""

    episodes: int
    requests: int
    most_in_flight: int
    load: float
    first_request_s: float
    wall_s: float
    rollouts_s: float
    rollouts_alone_s: float
    calls_s: float
    ratio: float
    ratio_to_rollouts_alone: float
    ratio_since_first_request: float


def measure(episodes: int, reply_s: float) -> Measured:
    """Rollouts alone, then judged, each on a Ray of its own. Errors: `RunStopped` where one did not complete."""
    load = os.getloadavg()[0]
    alone_s = _timed(_settings(episodes)).wall_s
    with FakeEndpoint(delay_s=reply_s) as fake:
        judged = _timed({**_settings(episodes), **_judges(fake.base_url)})
        first_s = fake.requests[0].at_s - judged.begun_s
        calls_s = len(fake.requests) * reply_s / IN_FLIGHT
        return Measured(
            episodes=episodes,
            requests=len(fake.requests),
            most_in_flight=fake.most_in_flight,
            load=load,
            first_request_s=first_s,
            wall_s=judged.wall_s,
            rollouts_s=judged.played_s,
            rollouts_alone_s=alone_s,
            calls_s=calls_s,
            ratio=judged.wall_s / max(judged.played_s, calls_s),
            ratio_to_rollouts_alone=judged.wall_s / max(alone_s, calls_s),
            ratio_since_first_request=(judged.wall_s - first_s) / calls_s,
        )


@dataclass(frozen=True)
class Timed:
    """When a run's clock began (monotonic), how long all of it took, and its rollouts."""

    begun_s: float
    wall_s: float
    played_s: float


def _timed(settings: dict[str, Any]) -> Timed:
    """One run, from the moment when Ray is up and its folder is there."""
    with tempfile.TemporaryDirectory(prefix="doom-rollouts-bench-") as folder:
        config, grading = load_configs({**settings, "out": folder}, None, {})
        prepared = prepare(config, open_storage(folder), grading=grading)
        with Signals() as signals, Place("ray") as place:
            ready = start(prepared, prepared.folder.acquire())
            pool = place.rollout_pool(prepared, signals)
            clock = Clock(config.episodes_per_seed * len(config.seeds or ()))
            played = play(ready, pool, clock, signals, place)
            wall_s = time.monotonic() - clock.begun_s
            prepared.folder.finish(ready.lease)
        if played.outcome.state != "complete" or (played.side and played.side.state != "complete"):
            raise RunStopped(f"the run did not complete: {played.outcome.cause or played.side}")
        return Timed(clock.begun_s, wall_s, clock.played_s)


def _settings(episodes: int) -> dict[str, Any]:
    return {
        **{"scenarios": "defend_the_center", "policies": "oracle", "seeds": f"0:{episodes}", "frames": "png"},
        "grade": "none",
    }


def _judges(base_url: str) -> dict[str, Any]:
    return {
        **{"grade": "llm", "grader_model": "judge", "summarize": "llm", "summarizer_model": "scribe"},
        **{"base_url": base_url, "in_flight": str(IN_FLIGHT)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--reply-s", type=float, default=0.5)
    asked = parser.parse_args()
    measured = measure(asked.episodes, asked.reply_s)
    print(json.dumps({**asdict(measured), "goal": 1.3}, indent=1))


if __name__ == "__main__":
    main()
