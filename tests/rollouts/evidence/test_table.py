"""The final table: every number that a person is promised, as it is in the manifest."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from rollouts.evidence.manifest import make_manifest
from rollouts.evidence.table import RATE_NOTE, SELF_CHECK, print_results, result_cells, results_tables
from rollouts.metrics import AGREEMENT_NOTE
from tests.made_runs import made_run


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return make_manifest(made_run(tmp_path_factory.mktemp("runs")))


def printed(manifest: dict[str, Any], **console: Any) -> str:
    out = io.StringIO()
    print_results(manifest, Console(file=out, **console))
    return out.getvalue()


def test_a_line_holds_the_numbers(manifest: dict[str, Any]) -> None:
    """Mean 5, population sd 2.944 of (2, 4, 9); agreement 2 of 4; Brier 1.31 / 3; ECE 2 / 3; 5 decisions in 6 s."""
    cells = result_cells(manifest["results"][0], manifest["coverage"]["groups"][0], "left")
    assert cells == ("rule", "half", "5.000", "2.94", "2.00", "9.00", "3", "0.5000", "0.4367", "0.6667", "1 of 5", "1")


def test_nothing_is_a_dash_and_never_0(manifest: dict[str, Any]) -> None:
    cells = result_cells(manifest["results"][1], manifest["coverage"]["groups"][1], "left")
    assert cells == ("rule", "absent", "-", "-", "-", "-", "0 of 3", "-", "-", "-", "0 of 0", "-")


def test_there_is_a_table_a_scenario_with_its_metric(manifest: dict[str, Any]) -> None:
    (table,) = results_tables(manifest)
    assert str(table.title) == "counting: left (count)"
    assert table.row_count == 2
    text = printed(manifest)
    headings = ("left mean", "sd", "min", "max", "n", "agreement", "Brier", "ECE", "out of schema", "decisions/s")
    assert all(heading in text for heading in headings)


def test_what_is_missing_and_what_numbers_mean_stand_below(manifest: dict[str, Any]) -> None:
    text = printed(manifest)
    for line in (AGREEMENT_NOTE, RATE_NOTE, "3 of 6 episodes completed, 3 owed"):
        assert line in text
    assert "Brier and ECE leave out 1 decision without usable probabilities" in text
    assert f"manifest: {manifest['location']}/manifest.json" in text
    assert SELF_CHECK not in text


def test_the_oracles_agreement_is_marked_as_a_self_check(manifest: dict[str, Any]) -> None:
    block = {**manifest["results"][0], "policy": "oracle"}
    assert result_cells(block, manifest["coverage"]["groups"][0], "left")[7] == "0.5000*"
    assert SELF_CHECK in printed({**manifest, "results": [block, manifest["results"][1]]})


def test_failures_are_told_by_stage_and_cause(manifest: dict[str, Any]) -> None:
    failure = {"scenario": "s", "rubric": "rule", "policy": "p", "stage": "engine", "cause": "gone [red]", "n": 2}
    assert "failed: 2 in s/rule/p, stage engine: gone [red]" in printed({**manifest, "failures": [failure]})


def test_a_scenario_without_a_teacher_has_dashes(manifest: dict[str, Any]) -> None:
    block = {key: value for key, value in manifest["results"][0].items() if key != "rubric_agreement"}
    assert result_cells(block, manifest["coverage"]["groups"][0], "left")[7:10] == ("-", "-", "-")


def test_a_pipe_is_wide_enough_for_every_number(manifest: dict[str, Any]) -> None:
    text = printed(manifest, width=60)
    (line,) = [line for line in text.splitlines() if "half" in line]
    assert all(number in line for number in ("5.000", "2.94", "0.4367", "0.6667", "1 of 5"))


def test_a_terminal_of_80_columns_shows_every_number_whole(manifest: dict[str, Any]) -> None:
    console = Console(width=80, file=io.StringIO(), force_terminal=True, color_system=None)
    print_results(manifest, console)
    text = console.file.getvalue()
    lines = [line.split() for line in text.splitlines() if "half" in line]
    assert [word for line in lines for word in ("5.000", "2.94", "0.4367", "0.6667") if word in line] == [
        *("5.000", "2.94"),
        *("0.4367", "0.6667"),
    ]
    assert "…" not in text.partition("Rubric agreement")[0]
    assert all(
        heading in text for heading in ("left mean", "agreement", "Brier", "ECE", "out of schema", "decisions/s")
    )
