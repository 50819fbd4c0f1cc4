"""The Grafana dashboard asks for what is measured: its queries against the meters of the code, and the reverse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rollouts.meters import METERS, RUN

DASHBOARD = json.loads((Path(__file__).resolve().parents[2] / "deploy/grafana/doom-rollouts.json").read_text())
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
SERIES = {f"ray_{meter.name}{suffix}": meter for meter in METERS for suffix in SUFFIXES[meter.kind]}
"""What Prometheus calls them (tests/actors/test_metrics.py scrapes them from a real Ray)."""
NAME = re.compile(r"\bray_\w+")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
MATCHED = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
SHOWN = re.compile(r"\{\{(\w+)\}\}")
Target = dict[str, Any]


def targets() -> list[Target]:
    return [target for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("target", targets(), ids=lambda target: target["expr"][:60])
def test_a_query_knows_its_metrics_and_their_tags(target: Target) -> None:
    expr = target["expr"]
    asked = [SERIES.get(name) for name in NAME.findall(expr)]
    assert asked
    assert None not in asked, f"no such metric in {expr}"
    has = set.intersection(*({RUN, *meter.tags, "le"} for meter in asked if meter))
    grouped = {tag.strip() for tags in GROUPED.findall(expr) for tag in tags.split(",")}
    assert grouped | set(MATCHED.findall(expr)) <= has
    assert set(SHOWN.findall(target["legendFormat"])) <= grouped
    assert expr.count("(") == expr.count(")")
    assert f'{RUN}=~"$run"' in expr


@pytest.mark.parametrize("target", targets(), ids=lambda target: target["expr"][:60])
def test_counters_are_looked_at_as_rates_or_sums_and_buckets_as_quantiles(target: Target) -> None:
    for name in NAME.findall(target["expr"]):
        before = target["expr"].partition(name)[0]
        if name.endswith("_bucket"):
            assert before.startswith("histogram_quantile(")
        elif name.endswith(("_total", "_sum", "_count")):
            assert re.search(r"(rate|increase|sum|sum by \([^)]*\)) ?\($", before), target["expr"]


def test_every_meter_is_shown() -> None:
    shown = {SERIES[name].name for target in targets() for name in NAME.findall(target["expr"])}
    assert {meter.name for meter in METERS} - shown == set()


def test_the_runs_to_choose_from_are_those_that_are_measured() -> None:
    (run,) = (variable for variable in DASHBOARD["templating"]["list"] if variable["name"] == "run")
    name, tag = re.fullmatch(r"label_values\((\w+), (\w+)\)", run["query"]["query"]).groups()  # type: ignore[union-attr]
    assert (name in SERIES, tag) == (True, RUN)


def test_panels_lie_beside_each_other() -> None:
    cells = [
        (x, y)
        for panel in DASHBOARD["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
