"""How much longer a run takes when a model grades and summarizes it: against the larger of what either takes alone.

    python -m benchmarks.graded [--episodes 32] [--reply-s 0.5]

The endpoint is the scripted one, with as many seconds a reply. What calls alone would take is calls x seconds / 16,
with 16 in flight; what rollouts take is the time until the last of them is committed in the same run. Nothing can be
asked before an actor has played the first episode: where calls take longest, `first_request_s` is most of the rest.
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
    """`ratio`: the wall time over the larger of the two; 1 would be perfect overlap. `load` is the machine's at the
    start (processes that want to run, of the last minute): others that work at the same time make it all slower."""

    episodes: int
    requests: int
    most_in_flight: int
    load: float
    first_request_s: float
    wall_s: float
    rollouts_s: float
    calls_s: float
    ratio: float


def measure(episodes: int, reply_s: float) -> Measured:
    """One run on a Ray of its own. Errors: `RunStopped` where it did not complete."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="doom-rollouts-bench-") as folder, FakeEndpoint(delay_s=reply_s) as fake:
        config, grading = load_configs(_settings(episodes, fake.base_url, folder), None, {})
        prepared = prepare(config, open_storage(folder), grading=grading)
        with Signals() as signals, Place("ray") as place:
            ready = start(prepared, prepared.folder.acquire())
            pool = place.rollout_pool(prepared, signals)
            clock = Clock(episodes)
            played = play(ready, pool, clock, signals, place)
            wall_s = time.monotonic() - clock.begun_s
            prepared.folder.finish(ready.lease)
        if played.outcome.state != "complete" or played.side is None or played.side.state != "complete":
            raise RunStopped(f"the run did not complete: {played.outcome.cause or played.side}")
        calls_s = len(fake.requests) * reply_s / IN_FLIGHT
        return Measured(
            episodes=episodes,
            requests=len(fake.requests),
            most_in_flight=fake.most_in_flight,
            load=load,
            first_request_s=fake.requests[0].at_s - clock.begun_s,
            wall_s=wall_s,
            rollouts_s=clock.played_s,
            calls_s=calls_s,
            ratio=wall_s / max(clock.played_s, calls_s),
        )


def _settings(episodes: int, base_url: str, folder: str) -> dict[str, Any]:
    return {
        **{"scenarios": "defend_the_center", "policies": "oracle", "seeds": f"0:{episodes}", "frames": "png"},
        **{"grade": "llm", "grader_model": "judge", "summarize": "llm", "summarizer_model": "scribe"},
        **{"base_url": base_url, "in_flight": str(IN_FLIGHT), "out": folder},
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
