"""Meters that the Ray around us exports to Prometheus, with what its own nodes and workers tell.

Ray sends them on every ten seconds (RAY_metrics_report_interval_ms), so that what an actor counted last is lost where
it is killed. Prometheus knows the names with `ray_` before them, and `_total` behind those of counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ray.util.metrics import Counter, Gauge, Histogram

from rollouts.meters import RUN, Meter


class RayMeters:
    """`Meters` of one run. Picklable: where it arrives it counts for that process."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._made: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Callable[[str], RayMeters], tuple[str]]:
        return RayMeters, (self._run,)

    def count(self, meter: Meter, amount: float, **tags: str) -> None:
        if amount:
            self._of(meter).inc(amount, tags)

    def put(self, meter: Meter, value: float, **tags: str) -> None:
        self._of(meter).set(value, tags)

    def observe(self, meter: Meter, values: Iterable[float], **tags: str) -> None:
        histogram = self._of(meter)
        for value in values:
            histogram.observe(value, tags)

    def _of(self, meter: Meter) -> Any:
        if meter.name not in self._made:
            self._made[meter.name] = _make(meter).set_default_tags({RUN: self._run})
        return self._made[meter.name]


def _make(meter: Meter) -> Counter | Gauge | Histogram:
    keys = (RUN, *meter.tags)
    if meter.kind == "histogram":
        return Histogram(meter.name, meter.text, list(meter.bounds), keys)
    return Counter(meter.name, meter.text, keys) if meter.kind == "counter" else Gauge(meter.name, meter.text, keys)
