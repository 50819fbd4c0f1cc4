"""Judges committed units and stages what comes of it: grades, summaries, credit, and the calls that they took.

Knows nothing of Ray. Reads the text columns of a unit's shards, in threads; a stored validated reply is never asked for
again. What it stages counts once the driver has promoted it (rollouts/run/side_folder.py).

    worker = GradingWorker(order)
    report = await worker.summarize_unit(unit, attempt, call)
    report = await worker.grade_unit(unit, attempt, call)     # heuristic and explicit grades need no call
    report = worker.credit_unit(unit, attempt)                # no call either; blocks
"""

from __future__ import annotations

from grading.order import GradingOrder
from rollouts.calls.chat_records import Call
from rollouts.records import SideReport, Unit
from rollouts.run.run_folder import RunFolder


class GradingWorker:
    """Judges one run's units, many at once if wanted. Attempts come from the driver's lease, as for rollouts.

    Errors of each method: `StorageError`; `TryVoid` where the unit's shards are not there as they should be. A call's
    `BudgetSpent` and `RunStopped` do not come out: what is done is staged, the report is not complete and says why.
    A task that is cancelled stages nothing and loses nothing: each reply is on file as soon as it is judged.
    """

    def __init__(self, order: GradingOrder, folder: RunFolder | None = None) -> None:
        self.order = order
        self._folder = folder

    async def grade_unit(self, unit: Unit, attempt: str, call: Call | None = None) -> SideReport:
        """Grade what is owed of the unit, and give credit for it where the rule has all that it needs."""
        raise NotImplementedError

    async def summarize_unit(self, unit: Unit, attempt: str, call: Call) -> SideReport:
        """Write an offload entry for each span of each episode that has none."""
        raise NotImplementedError

    def credit_unit(self, unit: Unit, attempt: str) -> SideReport:
        """Spread committed grades over the decisions of the episodes that have no credit for them yet."""
        raise NotImplementedError
