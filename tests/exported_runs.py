"""Runs whose rows are known one by one, to be exported: some agree, some differ, some were replaced by a later play.

The scenario is the counting game: options `stay` (letter A) and `down` (letter B), the teacher always says `down`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollouts.config import RunConfig
from rollouts.evidence.committed_run import CommittedRun
from rollouts.frames import encode
from rollouts.identity import RunFacts
from rollouts.records import Frame, PlannedEpisode, PolicyDescription, Unit
from rollouts.run.run_folder import RunFolder
from rollouts.run.run_record import make_run_record
from rollouts.store.storage import Storage, open_storage
from tests.made_runs import Played, Turn, stage
from tests.side_doubles import commit_rows, episode, grade

POLICY = "half"
GRADER, CREDIT = "formula-00000001", "formula-events-00000001"
OF_CREDIT = {"grader_id": GRADER, "rule": "events"}


def pixels(seed: int, tick: int) -> NDArray[np.uint8]:
    """(24, 32, 3) RGB: the picture of a decision."""
    return Frame(np.random.default_rng((seed, tick)).integers(0, 256, (24, 32), np.uint8), palette()).rgb()


def palette() -> NDArray[np.uint8]:
    """No grey ramp: indices taken for grey are not the colours."""
    return np.random.default_rng(0).integers(0, 256, (256, 3), np.uint8)


def played(seed: int, answers: str, pictures: bool = True, size: tuple[int, int] = (24, 32)) -> Played:
    """A letter a decision: d agrees (`down`), s differs (`stay`), x is no option, t was the teacher's turn."""
    said = {"d": "down", "s": "stay", "x": "jump", "t": "down"}
    turns = []
    for tick, letter in enumerate(answers):
        indices = np.random.default_rng((seed, tick)).integers(0, 256, size, np.uint8)
        picture = encode(Frame(indices, palette()), "png") if pictures else None
        error = "not_an_option" if letter == "x" else None
        turns.append(Turn(said[letter], {}, asked=letter != "t", schema_error=error, picture=picture))
    return Played(tuple(turns), float(len(answers)))


FAILED = Played(failure=("engine", "the engine died (signal 9)"))
Units = Sequence[Mapping[int, Played]]
"""Seed → how its episode went, a unit each."""


def known_units(pictures: bool = True) -> Units:
    """7 committed rows, of which 1 was replaced: `d s x`, `t`, `s d` count."""
    return (
        {1: played(1, "dsx", pictures), 2: played(2, "d", pictures)},
        {3: FAILED},
        {3: played(3, "t", pictures)},
        {2: played(2, "sd", pictures)},
    )


def make(root: Path | Storage, run_id: str = "known", units: Units | None = None, policy: str = POLICY) -> CommittedRun:
    """Commit a run below `root`."""
    chosen = known_units() if units is None else units
    plan = tuple(
        Unit(n, "counting", "rule", policy, tuple(PlannedEpisode(seed, 0) for seed in unit))
        for n, unit in enumerate(chosen)
    )
    facts = RunFacts("0.0", {}, {policy: PolicyDescription(policy, "rule")})
    config = RunConfig(scenarios=("tests.doubles:COUNTING",), policies=(policy,), step_cap=9, run_id=run_id)
    folder = RunFolder(root if isinstance(root, Storage) else open_storage(root), run_id)
    lease = folder.acquire()
    folder.create(lease, make_run_record(config, facts, run_id), plan)
    for unit, history in zip(plan, chosen, strict=True):
        folder.promote(lease, stage(folder, unit, lease.next_attempt(), tuple(history.values())))
    folder.finish(lease)
    return CommittedRun.open(folder)


def judge(run: CommittedRun) -> None:
    """Seed 1 is graded, and its three rows have the credit -0.5, 0.25 and 1; seed 2 is ungraded, seed 3 unknown."""
    rows = [grade(run, 1, "heuristic", (1, 1, 1)), grade(run, 2, "heuristic", None, cause="no_baseline")]
    commit_rows(run, "grades", GRADER, {"kind": "heuristic"}, rows)
    of_all = {**episode(run, 1), "grading": 0, "repeat": 0, "source": "heuristic", "r": 1.0, "alpha": 0.0}
    credit = [{**of_all, "tick": tick, "value": value} for tick, value in enumerate((-0.5, 0.25, 1.0))]
    commit_rows(run, "credit", CREDIT, OF_CREDIT, credit)


def provenance(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "export.json").read_text())
    return found
