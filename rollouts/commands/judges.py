"""The judge card of a run, shown: what `rollouts grade --judge-card` does."""

from __future__ import annotations

import json

from rich.text import Text

from grading.grade import Weights
from grading.judge_reading import read_judge_card
from grading.judge_words import against_tables, card_lines
from rollouts.commands.console import wide_console
from rollouts.evidence.committed_run import CommittedRun
from rollouts.run.run_folder import RunFolder
from rollouts.settings import one_line


def show_judge_card(folder: RunFolder, weights: Weights, as_json: bool) -> int:
    """Print it; 0. Errors: `UsageError` where there is no run, or no scipy; `StorageError`."""
    card = read_judge_card(CommittedRun.open(folder), weights)
    if as_json:
        print(json.dumps({"judge_card": card.as_dict()}, allow_nan=False))
    else:
        console = wide_console()
        for table in against_tables(card):
            console.print(table)
        for line in card_lines(card):
            console.print(Text(one_line(line)), soft_wrap=True)
    return 0
