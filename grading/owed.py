"""What is owed of a run's grading: which units, how many questions. Reads key columns of committed shards alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from grading.order import GradingOrder
from rollouts.records import Unit
from rollouts.run.run_folder import RunFolder


@dataclass(frozen=True)
class Owed:
    """Committed units, in the plan's order, of which some row is still owed; `episodes` and `gradings` count them.

    A unit whose grades are owed is not in `credit`: its grading task gives credit too, except where the rule reads
    summaries that are not there yet; ask again when all is graded.
    """

    grades: tuple[Unit, ...] = ()
    summaries: tuple[Unit, ...] = ()
    credit: tuple[Unit, ...] = ()
    gradings: int = 0
    summary_episodes: int = 0


def find_owed(folder: RunFolder, order: GradingOrder, units: Sequence[Unit]) -> Owed:
    """What `order` still wants of `units` (committed ones). Errors: `StorageError`."""
    raise NotImplementedError
