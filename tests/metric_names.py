"""What Prometheus calls our meters, as Ray exports them (tests/actors/test_metrics.py scrapes them from a real one)."""

from __future__ import annotations

from rollouts.meters import METERS, Meter

_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
SERIES: dict[str, Meter] = {f"ray_{meter.name}{suffix}": meter for meter in METERS for suffix in _SUFFIXES[meter.kind]}
