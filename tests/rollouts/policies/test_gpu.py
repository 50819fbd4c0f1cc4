"""Parts of a GPU, without one: what torch is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rollouts.policies.gpu import limit_memory, total_memory_bytes


class Cuda:
    def __init__(self) -> None:
        self.told: list[float] = []

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        assert 0 <= fraction <= 1
        self.told.append(fraction)


@pytest.mark.parametrize(("share", "told"), [(0.25, [0.25]), (None, []), (0.0, []), (1.0, []), (2.0, [])])
def test_only_a_part_is_a_limit(share: float | None, told: list[float]) -> None:
    cuda = Cuda()
    limit_memory(cuda, share)
    assert cuda.told == told


def test_torch_is_not_imported_for_the_limit() -> None:
    code = "import sys, rollouts.policies.gpu as gpu; gpu.limit_torch_memory(0.5); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_memory_of_the_first_gpu_or_none() -> None:
    found = total_memory_bytes()
    assert found is None or found > 2**30
