"""Rows for trainers: one call each for pyarrow, torch and `datasets` (Ray's is in actors/datasets.py).

    from rollouts.readers import read_table, torch_dataset
    table = read_table("runs/mine", ["state", "teacher_action"], scenario="defend_the_center", disagreement="model")
    loader = torch.utils.data.DataLoader(torch_dataset("runs/mine", batch_size=64), batch_size=None, num_workers=2)

A run is the folder of one (a path, its id alone under `runs`, or a URI such as `s3://bucket/runs/mine`); several in a
list are read one after the other. Read are the rows of committed, completed episodes that no later row supersedes, as
they are when the call is made; whatever else lies in the folders is not looked at. Filters: see `Filters`. Columns:
those of `steps`, and GRADE_COLUMNS and CREDIT_COLUMNS, which are joined by key. Errors of every call: `UsageError` for
what cannot be meant, `StorageError`, and `DamagedFrame` naming shard and row.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from rollouts.errors import UsageError
from rollouts.frames import decode as decode_frame
from rollouts.loading.committed import open_runs
from rollouts.loading.order import Even
from rollouts.loading.pictures import DamagedFrame
from rollouts.loading.rows import Rows, find_rows
from rollouts.loading.selection import CREDIT_COLUMNS, GRADE_COLUMNS, TRIPLE, Filters
from rollouts.run.location import find_run

if TYPE_CHECKING:
    from rollouts.loading.torch_rows import TorchRows, Transform

__all__ = [
    "CREDIT_COLUMNS",
    "GRADE_COLUMNS",
    "TRIPLE",
    "DamagedFrame",
    "Filters",
    "Runs",
    "count_rows",
    "decode_frame",
    "hf_dataset",
    "iter_batches",
    "open_rows",
    "read_table",
    "torch_dataset",
]
Runs = str | Path | Sequence[str | Path]


def read_table(runs: Runs, columns: Sequence[str] | None = None, **filters: Unpack[Filters]) -> pa.Table:
    """All rows at once, in order: run by run as given, unit by unit, tick by tick. `frame` is as it is stored."""
    rows = open_rows(runs, columns, **filters)
    return pa.concat_tables([rows.schema.empty_table(), *map(rows.read, rows.pieces)])


def iter_batches(
    runs: Runs, columns: Sequence[str] | None = None, **filters: Unpack[Filters]
) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, a row group's at a time, none of them empty; memory holds one."""
    rows = open_rows(runs, columns, **filters)
    return (batch for piece in rows.pieces for batch in rows.read(piece).combine_chunks().to_batches())


def count_rows(runs: Runs, **filters: Unpack[Filters]) -> int:
    """How many rows there are; no picture is read."""
    return open_rows(runs, ["tick"], **filters).total


def open_rows(runs: Runs, columns: Sequence[str] | None = None, **filters: Unpack[Filters]) -> Rows:
    """What the other calls read from: the row groups and the wanted rows of each. It can be sent to other processes."""
    given = [runs] if isinstance(runs, str | Path) else list(runs)
    if not given:
        raise UsageError("no run is named: give the folder of a run, or a list of them")
    folders = [find_run(str(run)) for run in given]
    named = [folder.describe() for folder in folders]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"the run {twice} is named twice")
    return find_rows(open_runs(folders), columns, filters)


def torch_dataset(  # noqa: PLR0913  a setting each
    runs: Runs,
    columns: Sequence[str] = TRIPLE,
    *,
    batch_size: int | None = None,
    shuffle: bool = True,
    seed: int = 0,
    even: Even = "none",
    rank: int | None = None,
    world_size: int | None = None,
    transform: Transform | None = None,
    **filters: Unpack[Filters],
) -> TorchRows:
    """A torch `IterableDataset` for a `DataLoader`: frames decoded in its workers, to uint8 (3, H, W), RGB.

    With `batch_size` the items are batches (give the loader `batch_size=None`), which is faster than rows collated by
    the loader. Rows are split over ranks (torch.distributed's, or RANK and WORLD_SIZE, unless given) and the loader's
    workers. `even`: "none" gives each row exactly once; "drop" and "repeat" give every rank equally many rows, by
    leaving out fewer than world_size rows, or giving so many twice; so with the same batch size and workers everywhere
    every rank has equally many batches, filters or not.
    Each pass has an order of its own, the same for the same seed: `set_epoch`, or they are counted. `state_dict`,
    `state_after` and `load_state_dict` go on in mid-pass with the same ranks and workers.
    """
    _need("torch", "torch_dataset")
    from rollouts.loading.torch_rows import torch_rows  # noqa: PLC0415  an extra

    reading = {"batch_size": batch_size, "shuffle": shuffle, "seed": seed, "even": even}
    return torch_rows(
        open_rows(runs, columns, **filters), {**reading, "rank": rank, "world_size": world_size}, transform
    )


def hf_dataset(
    runs: Runs, columns: Sequence[str] | None = None, *, streaming: bool = True, **filters: Unpack[Filters]
) -> Any:
    """A `datasets.IterableDataset` whose `frame` is an RGB picture; its shards are row groups, so that it shuffles and
    splits them over workers and nodes. Without `streaming` a `datasets.Dataset`, with all rows in memory as stored."""
    _need("datasets", "hf_dataset")
    from rollouts.loading.hugging_face import in_memory, streamed  # noqa: PLC0415  an extra

    rows = open_rows(runs, columns, **filters)
    return streamed(rows) if streaming else in_memory(rows)


def _need(package: str, what: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UsageError(f"{what} needs {package}: pip install 'doom-rollouts[train]'")
