"""Policies that tell which GPUs their process sees, and what part of one it was given, importable as
`tests.gpu_probe:NAME`. The torch of this module is none: it has a GPU, and remembers what it was told."""

from __future__ import annotations

import json
import os
import sys
import time
import types
from collections.abc import Sequence
from pathlib import Path

from rollouts.policies.base import Question
from rollouts.records import Answer, PolicyDescription, Snapshot

MEETING = "ROLLOUTS_TEST_MEETING"


class Cuda:
    """What torch.cuda is asked for; checks its contract."""

    def __init__(self) -> None:
        self.fraction: float | None = None

    def is_available(self) -> bool:
        return bool(os.environ.get("CUDA_VISIBLE_DEVICES"))

    def set_per_process_memory_fraction(self, fraction: float) -> None:
        assert 0 <= fraction <= 1
        assert self.is_available()
        self.fraction = fraction


CUDA = Cuda()
pretended = types.ModuleType("torch")
pretended.cuda = CUDA  # type: ignore[attr-defined]
sys.modules["torch"] = pretended


class Probe:
    """One that each actor owns."""

    def act(self, snapshot: Snapshot, text: str, options: tuple[str, ...], instructions: str | None) -> Answer:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        told = {"visible": visible, "fraction": CUDA.fraction, "pid": os.getpid()}
        return Answer(options[0], raw_reply=json.dumps(told))

    def describe(self) -> PolicyDescription:
        return PolicyDescription("probe", "model")


class Gathered(Probe):
    """Plays only once eight workers are there to play: then each of them has had something to do."""

    def __init__(self) -> None:
        meeting = os.environ.get(MEETING)
        if meeting is None:  # the driver only looks at it
            return
        over_s = time.monotonic() + 100
        Path(meeting, str(os.getpid())).touch()
        while len(list(Path(meeting).iterdir())) < 8:
            assert time.monotonic() < over_s, "eight workers were to come"
            time.sleep(0.05)


class Served(Probe):
    """One that servers hold."""

    needs_frames = False

    def act_batch(self, questions: Sequence[Question]) -> list[Answer]:
        return [self.act(q.snapshot, q.text, q.options, q.instructions) for q in questions]

    def describe(self) -> PolicyDescription:
        return PolicyDescription("served", "model")
