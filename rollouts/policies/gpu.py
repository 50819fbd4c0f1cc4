"""An actor's part of a GPU. Ray shares out devices, not their memory: whoever allocates keeps to its part by itself."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from rollouts.errors import UsageError


def limit_torch_memory(share: float | None) -> None:
    """Of a process that has imported torch and sees a GPU; `share` of 1 and above is no limit."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        limit_memory(torch.cuda, share)


def limit_memory(cuda: Any, share: float | None) -> None:
    """`cuda` is what torch calls so."""
    if share is not None and 0 < share < 1:
        cuda.set_per_process_memory_fraction(share)


def torch_device(torch: Any, share: float | None, policy: str) -> str:
    """`cuda` where a part of a GPU was given, else `cpu`. Errors: UsageError where torch sees none."""
    if not share:
        return "cpu"
    if not torch.cuda.is_available():
        raise UsageError(
            f"policy {policy!r} was given {share:g} of a GPU, but torch {torch.__version__} sees none here"
        )
    limit_torch_memory(share)
    return "cuda"


def total_memory_bytes() -> int | None:
    """Of the first visible GPU; None where there is none. Asked of the driver itself: no package needed."""
    total = ctypes.c_size_t()
    device = ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    failed = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0)
    failed = failed or driver.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    return None if failed else total.value
