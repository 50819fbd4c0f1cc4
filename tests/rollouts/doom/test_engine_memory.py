"""The watch that tests keep over engines' shared memory tells whose it is."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine_memory import EngineMemory

MAPS_IT = """
import mmap, sys, time
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    kept = mmap.mmap(file.fileno(), 4096)
    print("mapped", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def segment() -> Iterator[Path]:
    path = Path("/dev/shm") / f"ViZDoomMQCtr{secrets.token_hex(5)}"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("is_own", [True, False])
def test_memory_is_lost_once_its_owner_is_gone_and_only_to_the_owners_test(segment: Path, is_own: bool) -> None:
    owner = os.getpid() if is_own else 1
    with EngineMemory(lambda process: process.ppid() == owner) as memory:
        with subprocess.Popen([sys.executable, "-c", MAPS_IT, str(segment)], stdout=subprocess.PIPE) as user:
            assert user.stdout is not None
            assert user.stdout.readline() == b"mapped\n"
            time.sleep(0.2)
            assert memory.lost(patience_s=0) == set()
            user.kill()
        assert memory.lost(patience_s=0.1) == ({segment.name} if is_own else set())
        segment.unlink()
        assert memory.lost(patience_s=0) == set()
