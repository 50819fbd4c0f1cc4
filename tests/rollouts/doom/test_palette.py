import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rollouts.doom.palette import learn_palette, read_palette

Pixels = NDArray[np.uint8]


@pytest.fixture
def colours() -> Pixels:
    return np.random.default_rng(5).integers(0, 256, (256, 3), dtype=np.uint8)


def write_wad(path: Path, lumps: list[tuple[bytes, bytes]]) -> Path:
    """A PWAD: header, lumps, directory."""
    body, directory = b"", b""
    for name, data in lumps:
        directory += struct.pack("<ii8s", 12 + len(body), len(data), name)
        body += data
    path.write_bytes(struct.pack("<4sii", b"PWAD", len(lumps), 12 + len(body)) + body + directory)
    return path


@pytest.fixture
def wad(tmp_path: Path, colours: Pixels) -> Path:
    return write_wad(tmp_path / "a.wad", [(b"MAP01", b"xx"), (b"PLAYPAL", colours.tobytes() * 2)])


def test_the_first_palette_of_a_wad_is_read(wad: Path, colours: Pixels) -> None:
    palette = read_palette(wad)
    assert palette is not None
    assert np.array_equal(palette, colours)


def test_a_wad_without_a_palette_has_none(tmp_path: Path) -> None:
    assert read_palette(write_wad(tmp_path / "b.wad", [(b"MAP01", b"xx")])) is None


def test_a_palette_that_holds_is_completed_and_read_only(wad: Path, tmp_path: Path, colours: Pixels) -> None:
    indices = np.arange(40, dtype=np.uint8).reshape(4, 10)
    empty = write_wad(tmp_path / "empty.wad", [])
    palette = learn_palette([indices], [colours[indices]], [empty, wad])
    assert palette is not None
    assert np.array_equal(palette, colours)
    assert not palette.flags.writeable


def test_an_index_with_two_colours_in_one_frame_has_no_palette(wad: Path, colours: Pixels) -> None:
    indices = np.array([[1, 1]], np.uint8)
    frame = colours[indices].copy()
    frame[0, 1] += 1
    assert learn_palette([indices], [frame], [wad]) is None


def test_an_index_that_changes_between_frames_has_no_palette(wad: Path, colours: Pixels) -> None:
    indices = np.array([[1, 2]], np.uint8)
    flash = colours[indices] + np.uint8(1)
    assert learn_palette([indices, indices], [colours[indices], flash], [wad]) is None


def test_colours_that_the_game_file_does_not_have_have_no_palette(wad: Path, colours: Pixels) -> None:
    indices = np.array([[1, 2]], np.uint8)
    assert learn_palette([indices], [colours[indices] + np.uint8(1)], [wad]) is None


def test_without_a_palette_in_any_file_the_unseen_colours_are_unknown(colours: Pixels) -> None:
    indices = np.array([[1, 2]], np.uint8)
    assert learn_palette([indices], [colours[indices]], []) is None
