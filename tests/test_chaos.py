"""The short form of `make chaos`: one kill of each kind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.chaos import KINDS, Setting, chaos


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_whatever_is_killed_the_tables_are_those_of_a_calm_run() -> None:
    setting = Setting(seeds=24, episodes_per_unit=2, kills=len(KINDS), limit_s=200)
    with tempfile.TemporaryDirectory(prefix="c", dir="/tmp") as folder:  # Ray's sockets have long names
        killed = chaos(setting, Path(folder))
    assert killed == dict.fromkeys(KINDS, 1)


def test_a_seed_repeats_the_kills() -> None:
    assert Setting(seed=3).schedule() == Setting(seed=3).schedule() != Setting(seed=4).schedule()
    moments, kinds = zip(*Setting(seed=3, kills=25).schedule(), strict=True)
    assert moments == tuple(sorted(set(moments)))
    assert {kind: kinds.count(kind) for kind in KINDS} == dict.fromkeys(KINDS, 5)
