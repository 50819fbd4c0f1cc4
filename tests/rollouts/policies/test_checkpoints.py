"""Checkpoint files and the packages that read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rollouts.errors import UsageError
from rollouts.policies.checkpoints import check_file, check_folder, hash_of, need


def test_a_missing_extra_is_one_line_with_the_command() -> None:
    with pytest.raises(UsageError) as told:
        need("no_such_torch", "torch:w.safetensors", "torch")
    assert str(told.value) == (
        "policy 'torch:w.safetensors' needs no_such_torch, which is not installed: pip install 'doom-rollouts[torch]'"
    )


def test_a_package_that_lacks_another_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "half_installed.py").write_text("import no_such_part_of_it")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=r"half_installed cannot be imported .*no_such_part_of_it"):
        need("half_installed", "torch:x", "torch")


def test_a_package_that_is_there() -> None:
    assert need("json", "p", "torch") is json


def test_the_hash_knows_names_and_contents_but_no_order(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    first = hash_of([one, other])
    assert first == hash_of([other, one])
    assert first != hash_of([one])
    one.write_bytes(b"2")
    other.write_bytes(b"1")
    assert first != hash_of([one, other])


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f'"{tmp_path}/no" on .*: no such folder'):
        check_folder(tmp_path / "no", "transformers:no")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UsageError, match=f'"{tmp_path}/file" on .*: is a file, not a folder'):
        check_folder(tmp_path / "file", "transformers:file")


def test_a_folder_in_the_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").mkdir()
    with pytest.raises(UsageError, match=f'"{tmp_path}/a.onnx" on .*: is a folder, not a file'):
        check_file(tmp_path / "a.onnx", ".onnx", "onnx:a.onnx")
