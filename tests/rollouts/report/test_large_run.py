"""A run of 100,000 decisions: its report takes a minute and 1.5 GB at most, and the page opens within 3 s."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from rollouts.frames import encode
from rollouts.records import Frame
from tests.browser import Browser, find_browser
from tests.console import ROOT, command, environment
from tests.made_runs import RUN_ID, Played, Turn
from tests.reported_runs import histories_run

pytestmark = pytest.mark.slow
DECISIONS, EPISODES = 250, 200
MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], check=False).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(done)
"""


@dataclass(frozen=True)
class Made:
    page: Path
    told: dict[str, object]
    cpu_s: float
    peak_mb: float


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root = tmp_path_factory.mktemp("large")
    played = [Played(_turns(), float(episode % 7)) for episode in range(EPISODES)]
    histories_run(root, {"one": played, "other": played}, episodes_per_unit=20)
    words = command("report", str(root / RUN_ID), "--json")
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told, used = done.stdout.splitlines()
    cpu_s, peak_kb = map(float, used.split())
    return Made(root / RUN_ID / "report.html", json.loads(told), cpu_s, peak_kb / 1024)


def _turns() -> list[Turn]:
    noise = np.random.default_rng(7).integers(0, 256, (16, 48, 64), np.uint8)
    palette = np.random.default_rng(8).integers(0, 256, (256, 3), np.uint8)
    pictures = [encode(Frame(pixels, palette), "png") for pixels in noise]
    answers = ("down", "stay", "down")
    return [
        Turn(answers[tick % 3], {"stay": 0.4, "down": 0.6}, picture=pictures[tick % 16]) for tick in range(DECISIONS)
    ]


def test_it_takes_a_minute_and_little_memory(made: Made) -> None:
    """Its own processor time: what else the machine does is not counted."""
    assert made.cpu_s < 60
    assert made.peak_mb < 1_500


def test_it_is_small_and_says_what_it_left_out(made: Made) -> None:
    assert made.page.stat().st_size < 25_000_000
    assert "100,000 decisions" in made.page.read_text()
    assert "400 episodes are here without" in str(made.told["left_out"])


@pytest.mark.skipif(find_browser() is None, reason="no Chromium here (Debian: apt-get install chromium)")
def test_it_opens_in_three_seconds(made: Made) -> None:
    """Until something is seen, as the browser measures it; and it can be played."""
    with Browser() as browser:
        browser.look()
        browser.open(made.page)
        (seen_ms,) = browser.ask(
            "performance.getEntriesByName('first-contentful-paint').map((entry) => entry.startTime)"
        )
        assert seen_ms < 3_000
        assert browser.ask("document.getElementById('scrubber').max") == str(DECISIONS - 1)
        browser.press("n")
        assert "(disagrees)" in browser.text("decision")
        assert browser.complaints() == []
