"""Rows as `webdataset` samples: `000000042.png` (the frame as stored) and `000000042.json` (all else of the row).

Keys are numbers, for `webdataset` ends a key at its first dot and episode ids have dots. Equal rows make equal bytes.
"""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rollouts.exports.samples import WEIGHT, Nothing, Reason, Row, Writer
from rollouts.shards.schemas import STEPS

BLOCK_BYTES = 512


@dataclass(frozen=True)
class WebDataset:
    """`weighted`: the JSON has a `weight`, the row's credit."""

    weighted: bool = False
    shard_bytes: int = 1 << 28

    @property
    def columns(self) -> tuple[str, ...]:
        return (*STEPS.names, *((WEIGHT,) if self.weighted else ()))

    def left_out(self, row: Row) -> Reason | None:
        if row["frame"] is None:
            return Reason.NO_FRAME
        return Reason.NO_CREDIT if self.weighted and row[WEIGHT] is None else None

    def writer(self, folder: Path | None) -> Writer:
        return Nothing() if folder is None else TarWriter(folder, self.shard_bytes)


class TarWriter:
    """Writes `shard-000000.tar` and so on; none is larger than `shard_bytes`, but for a sample that is by itself."""

    def __init__(self, folder: Path, shard_bytes: int) -> None:
        self._folder = folder
        self._shard_bytes = shard_bytes
        self._tar: tarfile.TarFile | None = None
        self._shards = 0
        self._samples = 0

    def add(self, row: Row) -> None:
        picture = row["frame"]["bytes"]
        extension = "jpg" if row["frame"]["path"].endswith(".jpg") else "png"
        files = {extension: picture, "json": _json(row)}
        if self._tar is not None and self._tar.offset + _tar_bytes(files) > self._shard_bytes:
            self.close()
        if self._tar is None:
            path = self._folder / f"shard-{self._shards:06d}.tar"
            self._tar = tarfile.open(path, "w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115  closed with its last sample
            self._shards += 1
        for extension, data in files.items():
            entry = tarfile.TarInfo(f"{self._samples:09d}.{extension}")
            entry.size = len(data)
            self._tar.addfile(entry, io.BytesIO(data))
        self._samples += 1

    def close(self) -> None:
        if self._tar is not None:
            self._tar.close()
            self._tar = None


def _tar_bytes(files: dict[str, bytes]) -> int:
    """What the files take in a tar, with their headers and the two empty blocks at its end."""
    return sum(BLOCK_BYTES + -(-len(data) // BLOCK_BYTES) * BLOCK_BYTES for data in files.values()) + 2 * BLOCK_BYTES


def _json(row: Row) -> bytes:
    """The row without its frame; a time as ISO 8601 in UTC, a weight under that name."""
    told = {name: _plain(value) for name, value in row.items() if name not in ("frame", WEIGHT)}
    if WEIGHT in row:
        told["weight"] = row[WEIGHT]
    return json.dumps(told, ensure_ascii=False).encode()


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
