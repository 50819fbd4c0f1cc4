"""The dataset card: a head that `datasets` reads, and a body that says whose rows these are and what numbers mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from rollouts.evidence.card import dataset_card
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import write_evidence
from rollouts.metrics import AGREEMENT_NOTE
from tests.made_runs import made_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CommittedRun:
    return made_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def manifest(run: CommittedRun) -> dict[str, Any]:
    return write_evidence(run)


def head(card: str) -> Any:
    _, front, _ = card.split("---\n", 2)
    return yaml.safe_load(front)


def test_the_head_lists_a_config_a_table(manifest: dict[str, Any]) -> None:
    assert head(dataset_card(manifest))["configs"] == [
        {"config_name": "steps", "data_files": "steps/*.parquet", "default": True},
        {"config_name": "episodes", "data_files": "episodes/*.parquet"},
    ]


def test_a_table_without_files_is_not_listed(manifest: dict[str, Any]) -> None:
    """A glob that matches nothing would make the whole folder unreadable."""
    nothing = {"rows": 0, "shards": []}
    no_steps = {**manifest, "tables": {**manifest["tables"], "steps": nothing}}
    assert [config["config_name"] for config in head(dataset_card(no_steps))["configs"]] == ["episodes"]
    assert head(dataset_card({**manifest, "tables": {"steps": nothing, "episodes": nothing}})) is None


def test_the_body_says_what_must_be_said(run: CommittedRun, manifest: dict[str, Any]) -> None:
    card = dataset_card(manifest)
    assert card.encode() == run.storage.read_bytes(run.path("README.md"))
    assert AGREEMENT_NOTE in card
    assert "`half`: a model, model `half|model`" in card
    assert 'convert("RGB")' in card
    assert "3 of 6 episodes completed, 3 owed" in card
    assert "| rule | half | 5.000 | 2.94 | 2.00 | 9.00 | 3 | 0.5000 | 0.4367 | 0.6667 | 1 of 5 | 1 |" in card
    assert "| rule | absent | - | - | - | - | 0 of 3 | - | - | - | 0 of 0 | - |" in card


def test_names_from_outside_cannot_break_out(manifest: dict[str, Any]) -> None:
    evil = "x|y`z\n# Title <script>"
    block = {**manifest["results"][0], "policy": evil}
    changed = {**manifest, "results": [block, manifest["results"][1]], "policies": {evil: manifest["policies"]["half"]}}
    card = dataset_card(changed)
    assert "\n# Title" not in card
    assert "<script>" not in card.replace("`x|y'z # Title <script>`", "")
    row = next(line for line in card.splitlines() if line.startswith("| rule | x"))
    assert row.replace("\\|", "").count("|") == 13


@pytest.mark.slow
def test_datasets_reads_the_folder_by_its_card(run: CommittedRun, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    write_evidence(run)
    folder = run.storage.full(run.path())
    steps = datasets.load_dataset(folder, "steps", split="train", cache_dir=str(tmp_path))
    episodes = datasets.load_dataset(folder, "episodes", split="train", cache_dir=str(tmp_path))
    assert (len(steps), len(episodes)) == (5, 4)
    assert steps.features["frame"].mode == "RGB"
