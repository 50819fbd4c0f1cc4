"""The committed decisions of a run, episode by episode, through the readers that trainers use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from rollouts.calibration import Bools, Floats
from rollouts.evidence.committed_run import GroupName
from rollouts.loading.committed import open_runs
from rollouts.loading.rows import Rows, disagreements, find_rows
from rollouts.loading.selection import Filters
from rollouts.run.run_folder import RunFolder

SHOWN = (
    *("tick", "game_tic", "state", "policy_text", "teacher_action", "model_action", "effective_action", "acted_by"),
    *("asked", "out_of_schema", "schema_error", "error", "parse_rule", "options", "probabilities", "option_mass"),
    *("confidence", "latency_ms", "waited_tics", "raw_reply", "health", "ammo", "kills", "events", "reward"),
)
"""What the viewer shows of a decision."""
CREDIT = ("credit_value", "credit_alpha")
_COUNTED = ("scenario", "rubric", "policy", "episode_id", "effective_action", "teacher_action", "latency_ms")


class EpisodeRows:
    """Rows as they were when this was made, whatever is played meanwhile. Errors: `StorageError`.

    `credit_id`: whose credit stands beside them; None for none.
    """

    def __init__(self, folder: RunFolder, credit_id: str | None = None) -> None:
        opened = open_runs((folder,))
        credit = Filters(credit_id=credit_id) if credit_id is not None else Filters()
        self._counted = find_rows(opened, _COUNTED, {})
        self._shown = find_rows(opened, ("episode_id", *SHOWN, *(CREDIT if credit_id is not None else ())), credit)
        self._frames = find_rows(opened, ("episode_id", "frame"), {})
        self._pieces: dict[str, list[int]] = {}

    def times_and_actions(self) -> Iterator[tuple[GroupName, Floats, Sequence[str | None], Sequence[str | None]]]:
        """Row group by row group: whose it is, the latencies that were measured, (n,), actions sent and prescribed."""
        for number, piece in enumerate(self._counted.pieces):
            table = self._counted.read(piece)
            for episode_id in table["episode_id"].unique().to_pylist():
                self._pieces.setdefault(episode_id, []).append(number)
            group: Any = tuple(table[name][0].as_py() for name in ("scenario", "rubric", "policy"))
            latency_ms = table["latency_ms"].drop_null().to_numpy()
            sent, teacher = (table[name].to_pylist() for name in ("effective_action", "teacher_action"))
            yield group, latency_ms[np.isfinite(latency_ms)], sent, teacher

    def shown(self, episode_id: str) -> tuple[dict[str, list[Any]], Bools]:
        """SHOWN, and CREDIT where there is one, as lists; and (n,) where the policy did not do what the teacher would.
        `times_and_actions` comes first."""
        table = self._episode(self._shown, episode_id)
        return table.drop_columns(["episode_id"]).to_pydict(), disagreements(table, "model")

    def frames(self, episode_id: str) -> list[bytes | None]:
        """The episode's pictures as they are stored, None where a decision has none."""
        frames = self._episode(self._frames, episode_id)["frame"].to_pylist()
        return [None if frame is None else frame["bytes"] for frame in frames]

    def _episode(self, rows: Rows, episode_id: str) -> Any:
        """A `pyarrow.Table`; empty where the episode has no decision."""
        pieces = [rows.pieces[number] for number in self._pieces.get(episode_id, ())]
        tables = [_of(rows.read(piece), episode_id) for piece in pieces]
        return _joined(tables) if tables else rows.schema.empty_table()


def _of(table: Any, episode_id: str) -> Any:
    wanted = [row == episode_id for row in table["episode_id"].to_pylist()]
    return table.take(np.flatnonzero(wanted))


def _joined(tables: Sequence[Any]) -> Any:
    first, *others = tables
    return type(first).from_batches([batch for table in (first, *others) for batch in table.to_batches()], first.schema)
