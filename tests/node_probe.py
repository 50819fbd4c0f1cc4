"""A policy that takes its time and leaves the id of its node in a folder, importable as `tests.node_probe:Slow`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rollouts.records import Answer, PolicyDescription

SEEN = "ROLLOUTS_TEST_SEEN"


class Slow:
    """Text-only; what it answers depends on the text alone."""

    def predict_choice(self, text: str, options: tuple[str, ...], _instructions: str | None) -> Answer:
        import ray

        time.sleep(0.01)
        if (seen := os.environ.get(SEEN)) and ray.is_initialized():
            Path(seen, ray.get_runtime_context().get_node_id()).touch()
        return Answer(options[len(text) % len(options)])

    def describe(self) -> PolicyDescription:
        return PolicyDescription("slow", "rule")
