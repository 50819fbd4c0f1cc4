"""Counts the passes over a dataset, also where loader workers make them: all workers of a pass must agree.

A `DataLoader` copies its dataset into workers, so what they count is lost to the next ones. The count therefore lies
in shared memory, and the first worker of a pass draws for all. The others know its draw by the seed of the loader's
workers, by which pass of theirs it is (persistent workers make several), and by the number of the process that drew:
a program that seeds torch before each pass gives the workers of all passes the same seeds.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import get_worker_info

_SLOTS = 64
_WAIT_S = 60.0
_PAUSE_S = 0.002
_NEXT, _RESUMES, _FIRST = 0, 1, 2
_WIDTH = 4
"""The numbers of a slot: what was drawn (epoch, resumes), the process that drew it, and last of all the key."""


@dataclass(frozen=True, slots=True)
class Pass:
    """The number of a pass, from 0, and whether it goes on where a stored one stopped."""

    epoch: int
    resumes: bool = False


class PassCount:
    """What the next pass is, for this process and the loader workers that it starts."""

    def __init__(self) -> None:
        self._shared = torch.zeros(_FIRST + _WIDTH * _SLOTS, dtype=torch.int64).share_memory_()
        self._made: Counter[int] = Counter()
        self._own: Pass | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A plain copy shares nothing with its original, but with its own workers."""
        self.__dict__.update(state)
        self._shared.share_memory_()

    @property
    def last(self) -> int:
        """The number of the pass that began last, or of that which is to be resumed."""
        next_one = self.next
        return next_one.epoch if next_one.resumes else max(0, next_one.epoch - 1)

    @property
    def next(self) -> Pass:
        return Pass(int(self._shared[_NEXT]), bool(self._shared[_RESUMES]))

    def set_next(self, next_one: Pass) -> None:
        """In a loader's worker for that worker alone, since each of them is told (and only once)."""
        if get_worker_info() is not None:
            self._own = next_one
        else:
            self._share(next_one)

    def begin(self) -> Pass:
        """The pass that begins now."""
        worker = get_worker_info()
        if worker is None:
            return self._draw()
        if self._own is not None:
            own, self._own = self._own, None
            self._share(Pass(own.epoch + 1))
            return own
        key = hash((_parent(), worker.seed - worker.id, self._made[worker.seed]))
        self._made[worker.seed] += 1
        slot = self._shared[_FIRST + _WIDTH * (key % _SLOTS) :][:_WIDTH]
        if worker.id == 0:
            drawn = self._draw()
            slot[0], slot[1], slot[2] = drawn.epoch, int(drawn.resumes), _process_number()
            slot[3] = key
        return _awaited(slot, key, after=_process_number() - worker.num_workers)

    def _share(self, next_one: Pass) -> None:
        self._shared[_RESUMES] = int(next_one.resumes)
        self._shared[_NEXT] = next_one.epoch

    def _draw(self) -> Pass:
        drawn = self.next
        self._share(Pass(drawn.epoch + 1))
        return drawn


def _awaited(slot: torch.Tensor, key: int, after: int) -> Pass:
    """What the first worker drew: a process whose number is above `after`, or it was that of an earlier pass."""
    over = time.monotonic() + _WAIT_S
    while int(slot[3]) != key or int(slot[2]) <= after:
        if time.monotonic() > over:
            raise RuntimeError(f"the first loader worker did not begin its pass within {_WAIT_S:.0f} s")
        time.sleep(_PAUSE_S)
    return Pass(int(slot[0]), bool(slot[1]))


def _parent() -> int:
    """The process that started this one: ranks may share the memory of one dataset, and the seeds."""
    parent = multiprocessing.parent_process()
    return 0 if parent is None or parent.pid is None else parent.pid


def _process_number() -> int:
    """The how-manieth child of its parent this process is."""
    identity: tuple[int, ...] = getattr(multiprocessing.current_process(), "_identity", ())
    return identity[-1] if identity else 0
