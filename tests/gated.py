"""The counting game whose last episodes wait until somebody outside has seen something: orders events without a clock.

Workers import it as `tests.gated:GATED`; the folder of GATE_DIR must then be in their environment.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from rollouts.records import Snapshot
from tests.doubles import CountingEnvironment, counting_scenario

GATE_DIR = "TESTS_GATE_DIR"
LAST_SEED = 32
PATIENCE_S = 90.0


class GatedEnvironment(CountingEnvironment):
    """Seed 32 begins once the gate is open."""

    def reset(self, seed: int, index: int) -> Snapshot:
        over = time.monotonic() + PATIENCE_S
        while seed == LAST_SEED and not gate().exists():
            if time.monotonic() > over:
                raise RuntimeError("the gate was never opened")
            time.sleep(0.01)
        return super().reset(seed, index)


def gate() -> Path:
    return Path(os.environ[GATE_DIR]) / "open"


GATED = counting_scenario(name="gated", environment=lambda scenario, tics, capture: GatedEnvironment())
