"""How much of what an endpoint can answer 64 games get: decisions a second beside a bare load generator.

    python -m benchmarks.endpoint_bound [--actors 64] [--episodes 4] [--reply-s 0.2]

The endpoint is the scripted one, in a process of its own, and takes so many seconds a reply. The generator asks it the
policy's own question with the same client and as many requests in flight, from one process a core, and does nothing
else. Both are counted where the requests arrive: of ours those from when each actor has played an episode until the
first of them has nothing to do, of the generator's all but the first seconds. `--episodes` is for each actor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.ours import Quiet, Stopwatch
from rollouts.calls.chat import ChatClient
from rollouts.calls.endpoint import Endpoint
from rollouts.calls.limiter import LocalLimiter
from rollouts.calls.limits import Limits
from rollouts.commands.playing import play, start
from rollouts.commands.pools import Place
from rollouts.commands.preparing import prepare
from rollouts.config import load_configs
from rollouts.errors import RunStopped
from rollouts.policies.base import AsksModel
from rollouts.policies.model_settings import ModelSettings
from rollouts.policies.registry import make_policy
from rollouts.scenarios.registry import SCENARIOS
from rollouts.signals import Signals
from rollouts.store.storage import open_storage

GOAL = 0.85
SCENARIO = "defend_the_center"
WARM_UP = 0.15
"""Share of the generator's time that is not counted, at its beginning and at its end."""
GENERATE_S = 20.0


@dataclass(frozen=True)
class Rate:
    """Requests that arrived while all were at work."""

    seconds: float
    decisions_per_s: float


@contextmanager
def endpoint(reply_s: float, log: Path) -> Iterator[str]:
    """Its URL; a JSON line a request in `log`."""
    command = (sys.executable, "-m", "rollouts.cli", "fake-endpoint", "--port", "0", "--delay-s", str(reply_s))
    process = subprocess.Popen((*command, "--log", str(log)), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[0].partition("=")[2]
    finally:
        process.kill()
        process.communicate()


def arrived(log: Path, from_s: float, until_s: float) -> Rate:
    """What `log` says of the time from `from_s` to `until_s` (monotonic seconds)."""
    times = [json.loads(line)["at_s"] for line in log.read_text().splitlines()]
    return Rate(until_s - from_s, sum(from_s <= at_s <= until_s for at_s in times) / (until_s - from_s))


def ours(actors: int, episodes: int, url: str, folder: Path) -> tuple[float, float]:
    """Play, on a Ray of its own; from when until when all actors were at work. Errors: `RunStopped` where the run did
    not complete."""
    wished = {
        **{"scenarios": SCENARIO, "policies": "chat:fake", "base_url": url, "grade": "none", "out": str(folder)},
        **{"seeds": f"0:{actors * episodes}", "in_flight": str(actors)},
        **{"actors": str(actors), "cpus_per_actor": str((os.cpu_count() or 1) / actors)},
    }
    config, grading = load_configs(wished, None, {})
    prepared = prepare(config, open_storage(folder), grading=grading)
    with Signals() as signals, Place("ray") as place:
        pool = Stopwatch(place.rollout_pool(prepared, signals))
        ready = start(prepared, prepared.folder.acquire())
        outcome = play(ready, pool, Quiet(), signals, place).outcome
        prepared.folder.finish(ready.lease)
    if outcome.state != "complete" or outcome.failed_episodes:
        raise RunStopped(f"the run is {outcome.state}: {outcome.cause or outcome.first_failure}")
    from_s, until_s = max(u[0].at_s for u in pool.units.values()), min(u[-1].at_s for u in pool.units.values())
    if len(pool.units) < actors or until_s <= from_s:
        raise RunStopped("too few episodes to measure a steady state: give more --episodes")
    return from_s, until_s


def generated(in_flight: int, url: str, seconds: float) -> tuple[float, float]:
    """Ask from a process a core; from when until when all of them were at work."""
    cores = os.cpu_count() or 1
    shares = [in_flight // cores + (n < in_flight % cores) for n in range(cores)]
    command = (sys.executable, "-m", "benchmarks.endpoint_bound", "--generate", url, "--for-s", str(seconds))
    asking = [subprocess.Popen((*command, "--actors", str(share)), stdout=subprocess.PIPE) for share in shares if share]
    for process in asking:
        assert process.stdout is not None
        process.stdout.readline()
    from_s = time.monotonic() + seconds * WARM_UP
    until_s = from_s + seconds * (1 - 2 * WARM_UP)
    for process in asking:
        process.communicate()
    if any(process.returncode for process in asking):
        raise RunStopped("the load generator failed")
    return from_s, until_s


async def generate(in_flight: int, url: str, seconds: float) -> None:
    """So many requests in flight, each the policy's first question, for so long; says when it begins."""
    policy = make_policy("chat:fake", SCENARIOS[SCENARIO], 0.0, ModelSettings())
    assert isinstance(policy, AsksModel)
    request = policy.example(SCENARIOS[SCENARIO].instructions["rule"], "A monster is to the left.", 0)
    client = ChatClient(Endpoint(url), LocalLimiter(Limits(in_flight=in_flight)))
    over_s = time.monotonic() + seconds

    async def ask() -> None:
        while time.monotonic() < over_s:
            reply = await client(request)
            assert reply.error is None, reply.error

    print("asking", flush=True)
    await asyncio.gather(*(ask() for _ in range(in_flight)))
    await client.close()


def measure(actors: int, episodes: int, reply_s: float, generate_s: float = GENERATE_S) -> tuple[Rate, Rate]:
    """(ours, the generator's), one after the other, each with an endpoint of its own."""
    with tempfile.TemporaryDirectory(prefix="doom-rollouts-bench-") as name:
        folder = Path(name)
        with endpoint(reply_s, folder / "generated") as url:
            bare = arrived(folder / "generated", *generated(actors, url, generate_s))
        with endpoint(reply_s, folder / "played") as url:
            played = arrived(folder / "played", *ours(actors, episodes, url, folder / "runs"))
    return played, bare


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, default=64)
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("--reply-s", type=float, default=0.2)
    parser.add_argument("--generate", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--for-s", type=float, default=GENERATE_S, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.generate:
        asyncio.run(generate(asked.actors, asked.generate, asked.for_s))
        return
    played, bare = measure(asked.actors, asked.episodes, asked.reply_s)
    ratio = played.decisions_per_s / bare.decisions_per_s
    most = asked.actors / asked.reply_s
    told = {"ours": asdict(played), "generator": asdict(bare), "at_most": most, "ratio": ratio, "goal": GOAL}
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
