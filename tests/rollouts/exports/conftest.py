"""One known run, and what the command makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollouts.cli import main
from tests.exported_runs import judge, make

Exported = Callable[..., tuple[Path, dict[str, Any]]]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The known run with pictures, grades and credit."""
    root = tmp_path_factory.mktemp("runs")
    judge(make(root))
    return root / "known"


@pytest.fixture
def exported(known: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Exported:
    """Exports the known run in a form; gives the folder and what the command said."""

    def export(form: str, *words: str, runs: tuple[Path, ...] = (known,)) -> tuple[Path, dict[str, Any]]:
        out = tmp_path / f"{form}-{len(list(tmp_path.iterdir()))}"
        capsys.readouterr()
        assert main(["export", *map(str, runs), "--format", form, "--out", str(out), "--json", *words]) == 0
        return out, json.loads(capsys.readouterr().out)

    return export
