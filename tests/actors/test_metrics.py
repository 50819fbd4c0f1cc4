"""What Prometheus gets from a run: scraped over HTTP from a real Ray of the run's own, while it goes on."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from prometheus_client.parser import text_string_to_metric_families

from rollouts.calls.fake_endpoint import FakeEndpoint
from rollouts.meters import METERS
from tests.console import command, environment
from tests.gated import GATE_DIR, LAST_SEED
from tests.graded_runs import rows_of

pytestmark = pytest.mark.slow
PATIENCE_S = 120.0
BEHIND = 8
PRICES = '["judge"]\ninput = 1.0\noutput = 2.0\n'
PLAYED = LAST_SEED - 1
Series = dict[tuple[str, frozenset[str]], float]
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
EXPORTED = {f"{meter.name}{end}".removeprefix("doom_rollouts_") for meter in METERS for end in SUFFIXES[meter.kind]}
OURS = frozenset({"run", *(tag for meter in METERS for tag in meter.tags), "le"})


def scrape(url: str) -> Series:
    """The sum of each of our series over all processes, by name and by our own tags."""
    text = urllib.request.urlopen(url, timeout=10).read().decode()
    found: Series = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("ray_doom_rollouts_"):
                tags = frozenset(f"{name}={value}" for name, value in sample.labels.items() if name in OURS)
                key = (sample.name.removeprefix("ray_doom_rollouts_"), tags)
                found[key] = found.get(key, 0.0) + sample.value
    return found


def of(series: Series, name: str, *tags: str) -> float:
    """The sum of a metric's series that have these tags."""
    return sum(value for (found, has), value in series.items() if found == name and set(tags) <= has)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`rollouts run` of the counting game, graded by a model, that waits before that of seed 32; 8 come after."""
    (tmp_path / "prices.toml").write_text(PRICES)
    with FakeEndpoint() as fake:
        words = (
            *("run", "--scenario", "tests.gated:GATED", "--policy", "random", "--seeds", f"1:{LAST_SEED + BEHIND + 1}"),
            *("--frames", "none", "--actors", "1", "--run-id", "r", "--json", "--metrics-port", "0"),
            *("--grade", "llm", "--grader-model", "judge", "--base-url", fake.base_url, "--prices", "prices.toml"),
        )
        more = {GATE_DIR: str(tmp_path), "RAY_metrics_report_interval_ms": "1000", "RAY_AUTH_MODE": "disabled"}
        process = subprocess.Popen(command(*words), cwd=tmp_path, env=environment(**more), stdout=-1, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def metrics_url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == "note" and told["text"].startswith("metrics: "):
            return str(told["text"].removeprefix("metrics: "))
    raise AssertionError("nobody said where")


def until(seen: Callable[[], bool]) -> None:
    over = time.monotonic() + PATIENCE_S
    while not seen() and time.monotonic() < over:
        time.sleep(0.2)


def wanted_of(folder: Path) -> dict[tuple[str, ...], float]:
    """What the files of the episodes before the gate say: metric and tags of it (as name=value) → value."""
    steps = ds.dataset(sorted((folder / "steps").glob("*.parquet"))).count_rows()
    calls, who = rows_of(folder, "calls"), ("run=r", "scenario=gated", "policy=random")
    return {
        ("decisions_total", *who): steps,
        ("decision_latency_ms_count", *who): steps,
        ("decision_latency_ms_bucket", "le=0.1", *who): steps,  # random says 0 ms
        ("episodes_total", "status=completed", *who): PLAYED,
        ("episodes_total",): PLAYED,
        ("committed_units_total", "pool=rollouts"): PLAYED,
        ("committed_units_total", "pool=grades"): PLAYED,
        ("grades_total", "status=graded"): PLAYED,
        ("grades_total",): PLAYED,
        ("model_requests_total", "pool=grades"): len(calls),
        ("model_tokens_total", "direction=in"): sum(row["tokens_in"] for row in calls),
        ("model_tokens_total", "direction=out"): sum(row["tokens_out"] for row in calls),
        ("model_cost_usd_total", "pool=grades"): pytest.approx(sum(row["cost_usd"] for row in calls)),
        ("units_waiting", "pool=rollouts"): BEHIND,
        ("workers", "pool=rollouts", "state=busy"): 1,
        ("requests_in_flight",): 0,
        ("requests_waiting",): 0,
    }


def test_what_is_scraped_is_what_was_played_and_graded(run: subprocess.Popen[str], tmp_path: Path) -> None:
    url, folder = metrics_url(run), tmp_path / "runs/r"
    until(lambda: len(rows_of(folder, "grades")) >= PLAYED)
    wanted, series = wanted_of(folder), Series()

    def seen() -> dict[tuple[str, ...], float]:
        return {(name, *tags): of(series, name, *tags) for name, *tags in wanted}

    def look() -> bool:
        series.clear()
        series.update(scrape(url))
        return seen() == wanted

    until(look)
    assert seen() == wanted
    assert min(value for (name, *_), value in seen().items() if name.startswith("model_")) > 0
    assert {tag for _, tags in series for tag in (told.partition("=")[0] for told in tags)} <= OURS
    assert {name for name, _ in series} <= EXPORTED
    assert len(series) < 100, "tags that grow"
    (tmp_path / "open").touch()
    assert run.wait(PATIENCE_S) == 0
