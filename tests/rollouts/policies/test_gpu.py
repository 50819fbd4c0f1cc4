"""Parts of a GPU, without one: what torch is told."""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import pytest

from rollouts.errors import UsageError
from rollouts.policies.gpu import limit_memory, torch_device, total_memory_bytes
from rollouts.policies.registry import make_policy
from rollouts.records import Answer, PolicyDescription
from tests.doubles import COUNTING


class Cuda:
    def __init__(self, there: bool = True) -> None:
        self.told: list[float] = []
        self._there = there

    def is_available(self) -> bool:
        return self._there

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        assert 0 <= fraction <= 1
        self.told.append(fraction)


@pytest.mark.parametrize(("share", "told"), [(0.25, [0.25]), (None, []), (0.0, []), (1.0, []), (2.0, [])])
def test_only_a_part_is_a_limit(share: float | None, told: list[float]) -> None:
    cuda = Cuda()
    limit_memory(cuda, share)
    assert cuda.told == told


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A torch that is none, with a GPU; nothing has imported it yet."""
    pretended = types.ModuleType("torch")
    pretended.cuda, pretended.__version__ = Cuda(), "9"  # type: ignore[attr-defined]
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return pretended


def test_a_network_of_ours_runs_on_its_part_of_a_gpu(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert (torch_device(torch, 0.0, "p"), torch_device(torch, None, "p"), torch.cuda.told) == ("cpu", "cpu", [])
    assert (torch_device(torch, 0.25, "p"), torch.cuda.told) == ("cuda", [0.25])
    torch.cuda = Cuda(there=False)
    with pytest.raises(UsageError, match=r"policy 'p' was given 0.25 of a GPU, but torch 9 sees none here"):
        torch_device(torch, 0.25, "p")


class Late:
    """Imports torch only when it is made."""

    torch: Any

    def __init__(self) -> None:
        sys.modules["torch"] = Late.torch

    def predict_choice(self, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        return Answer(options[0])

    def describe(self) -> PolicyDescription:
        return PolicyDescription("late", "model")


def test_a_class_that_imports_torch_late_keeps_to_its_part_too(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Late, "torch", torch, raising=False)
    make_policy(f"{__name__}:Late", COUNTING, gpus=0.25)
    assert torch.cuda.told == [0.25]


def test_torch_is_not_imported_for_the_limit() -> None:
    code = "import sys, rollouts.policies.gpu as gpu; gpu.limit_torch_memory(0.5); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_memory_of_the_first_gpu_or_none() -> None:
    found = total_memory_bytes()
    assert found is None or found > 2**30
