"""Is this machine fit for a run? One check a thing that can be broken, one finding a check. Knows nothing of Ray."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from rollouts.doom.environment import make_environment
from rollouts.errors import RolloutsError
from rollouts.scenarios.scenario import Scenario
from rollouts.scrub import describe_error
from rollouts.store.storage import open_storage

State = Literal["ok", "warn", "broken"]
REFERENCE_ENGINES = ("1.3.0", "1.3.1")
SHARED_MEMORY = Path("/dev/shm")
ENGINE_SHM_BYTES = 12 * 2**20
SPARE_SHM_BYTES = 64 * 2**20
_VERSIONS = ("vizdoom", "ray", "pyarrow", "numpy", "pillow", "isal")


@dataclass(frozen=True)
class Finding:
    """What one check found. `detail` is one line: how it is, and what to do where it is not well."""

    check: str
    state: State
    detail: str


class Worry(Exception):
    """Raised by a check that wants to warn: the run may still work. The message is the detail."""


@dataclass(frozen=True)
class Check:
    """A name and what to try: it returns the detail, raises Worry to warn, or anything else to say it is broken."""

    name: str
    attempt: Callable[[], str]


def examine(checks: Iterable[Check]) -> Iterator[Finding]:
    """Make every check, in order, whatever the earlier ones found."""
    for check in checks:
        try:
            yield Finding(check.name, "ok", check.attempt())
        except Worry as worry:
            yield Finding(check.name, "warn", str(worry))
        except RolloutsError as error:
            yield Finding(check.name, "broken", str(error))
        except Exception as error:  # noqa: BLE001  whatever breaks is the finding
            yield Finding(check.name, "broken", describe_error(error))


def check_versions() -> str:
    """Python and the packages that decide what a run's data is."""
    versions = {name: metadata.version(name) for name in _VERSIONS}
    told = ", ".join([f"python {sys.version.split()[0]}", *(f"{name} {is_}" for name, is_ in versions.items())])
    if versions["vizdoom"] not in REFERENCE_ENGINES:
        raise Worry(f"{told}: the reference results hold for vizdoom {' and '.join(REFERENCE_ENGINES)} only")
    return told


def check_engine(scenario: Scenario, decisions: int = 8) -> str:
    """The game starts without a display and answers."""
    started_s = time.monotonic()
    environment = make_environment(scenario, None)
    try:
        environment.reset(scenario.seeds[0], 0)
        for _ in range(decisions):
            environment.step(scenario.options[-1], scenario.tics)
    finally:
        environment.close()
    return f"{scenario.name} plays headless: {decisions} decisions in {time.monotonic() - started_s:.1f} s"


def check_output(out: str) -> str:
    """Runs can be written to `out`; nothing stays behind."""
    storage = open_storage(out)
    storage.check_writable()
    return f"{storage.describe()} can be written"


def check_shared_memory(actors: int, place: Path = SHARED_MEMORY) -> str:
    """Every engine talks to its actor through some 11 MB of /dev/shm; containers often have 64 MB in all."""
    if not place.is_dir():
        raise Worry(f"{place} is not there: engines and Ray use slower ways")
    free = shutil.disk_usage(place).free
    needed = actors * ENGINE_SHM_BYTES + SPARE_SHM_BYTES
    told = f"{place} has {free / 2**20:,.0f} MiB free, {actors} engines want {needed / 2**20:,.0f} MiB"
    if free < ENGINE_SHM_BYTES:
        raise OSError(f"{told}: not even one fits; free some, or give the container more (docker --shm-size=2g)")
    if free < needed:
        raise Worry(f"{told}: use fewer actors, or give the container more (docker --shm-size=2g)")
    return told
