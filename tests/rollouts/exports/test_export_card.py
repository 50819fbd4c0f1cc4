"""The card's head: `datasets` opens every export by its folder alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exported_runs import make, played
from tests.rollouts.exports.conftest import Exported

COLUMNS = {
    "sft": "messages",
    "preference": "chosen",
    "webdataset": "png",
    "lerobot": "observation.image",
}


@pytest.mark.parametrize(
    ("form", "words", "rows"),
    [
        ("sft", (), 6),
        ("sft", ("--files", "jsonl"), 6),
        ("preference", (), 2),
        ("webdataset", (), 6),
        ("lerobot", (), 6),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_datasets_opens_the_folder(
    exported: Exported,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    words: tuple[str, ...],
    rows: int,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    out, _ = exported(form, *words)
    found = datasets.load_dataset(str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert len(found) == rows
    assert COLUMNS[form] in found.column_names


def test_it_says_whose_rollouts_these_are_and_what_is_left_out(exported: Exported) -> None:
    card = (exported("preference", "--policy", "half")[0] / "README.md").read_text()
    assert "- known: `counting`, played by `half`" in card
    assert "2 rows; left out: superseded 1, not_asked 1, out_of_schema 1, agrees 2. Filters: policy" in card


def test_names_from_outside_cannot_break_out(exported: Exported, tmp_path: Path) -> None:
    evil = "x|y`z\n# Title <script>"
    make(tmp_path / "evil", "evil", ({1: played(1, "d")},), policy=evil)
    card = (exported("sft", runs=(tmp_path / "evil" / "evil",))[0] / "README.md").read_text()
    assert "\n# Title" not in card
    assert "`x|y'z # Title <script>`" in card
