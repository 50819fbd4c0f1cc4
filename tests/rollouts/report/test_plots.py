"""What plots show, and that they say it in words."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from rollouts.evidence.episode_numbers import EpisodeNumbers
from rollouts.evidence.results import EpisodeRow
from rollouts.report.plots.drawing import Plot
from rollouts.report.plots.outcomes import survival_curve
from rollouts.report.report import make_report
from tests.made_runs import HALF_RIGHT, SILENT, Played
from tests.reported_runs import histories_run, reported


@pytest.fixture(scope="module")
def plots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Plot]:
    histories = {"a $x_1$ <b>": [Played(HALF_RIGHT, 2.0), Played(SILENT, 4.0)], "b": [Played(SILENT, 1.0)] * 2}
    run = histories_run(tmp_path_factory.mktemp("plots"), histories)
    return {plot.name: plot for plot in make_report([reported(run)]).plots}


def lasted(steps: int, end: str) -> EpisodeNumbers:
    return EpisodeNumbers(EpisodeRow(f"{steps}", 1, 0, "completed", 0.0, steps, 1.0, end_reason=end))


def test_an_episode_that_was_cut_off_has_not_ended() -> None:
    """Deaths at 2, 4 and 4, cut off at 3: 3/4 go on after 2, of the two at risk at 4 none."""
    episodes = [lasted(2, "death"), lasted(3, "step_cap"), lasted(4, "death"), lasted(4, "goal")]
    steps, going, cut = survival_curve(episodes)
    assert dict(zip(steps, going, strict=True)) == {0.0: 1.0, 2.0: 0.75, 3.0: 0.75, 4.0: 0.0}
    assert cut == [(3.0, 0.75)]


def test_a_policy_that_was_always_cut_off_survived() -> None:
    steps, going, _ = survival_curve([lasted(9, "timeout")] * 3)
    assert (steps[-1], going[-1]) == (9.0, 1.0)


def test_there_is_a_plot_of_each_thing_that_is_there(plots: dict[str, Plot]) -> None:
    kinds = {name.partition("-")[0] for name in plots}
    assert kinds == {"metric", "survival", "agreement", "reliability", "actions", "out"}


def test_plots_are_pictures_and_say_what_they_show(plots: dict[str, Plot]) -> None:
    for plot in plots.values():
        assert ElementTree.fromstring(plot.svg).tag.endswith("svg")
        pixels = np.asarray(Image.open(io.BytesIO(plot.png)).convert("L"))
        assert pixels.std() > 5
        assert len(plot.alt) > 30
    assert "3.00 [2.00, 4.00]" in plots["metric-counting"].alt
    assert "1 not_an_option" in plots["out-of-schema"].alt


def test_names_are_texts_in_a_picture_and_never_markup(plots: dict[str, Plot]) -> None:
    """The picture is XML of its own, so a name with brackets is escaped; and `$` begins no formula."""
    said = [element.text for element in ElementTree.fromstring(plots["metric-counting"].svg).iter() if element.text]
    assert any("a $x_1$ <b>" in text for text in said)
    assert "<b>" not in plots["metric-counting"].inline


def test_a_picture_in_the_page_takes_the_pages_colour_and_has_ids_of_its_own(plots: dict[str, Plot]) -> None:
    first, second = plots["metric-counting"].inline, plots["agreement"].inline
    assert "currentColor" in first
    assert "<style" not in first
    ids = [set(ElementTree.fromstring(text).iter()) for text in (first, second)]
    own = [{element.get("id") for element in elements if element.get("id")} for elements in ids]
    assert own[0].isdisjoint(own[1])


def test_the_same_run_gives_the_same_pictures(tmp_path: Path) -> None:
    run = reported(histories_run(tmp_path, {"a": [Played(SILENT, 4.0), Played(SILENT, 2.0)]}))
    once, twice = make_report([run]).plots, make_report([run]).plots
    assert [plot.svg for plot in once] == [plot.svg for plot in twice]
