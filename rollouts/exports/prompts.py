"""What a chat policy is sent at a row, word for word, and its answer in the form that is asked for.

`rollouts run --policy chat:MODEL` with the same settings sends these words, so what was trained here can play there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rollouts.exports.samples import Row
from rollouts.policies.chat_prompt import answer_text, system_text, turn_text
from rollouts.policies.model_settings import ModelSettings
from rollouts.records import Snapshot

Told = Mapping[tuple[str, str, str], str | None]
"""(run id, scenario, rubric) → the instructions, None where there are none."""


@dataclass(frozen=True)
class Prompts:
    """Prompts of rows. Options stand as the policy was shown them, else in the scenario's order; no history is sent."""

    settings: ModelSettings
    instructions: Told

    columns = ("scenario", "rubric", "state", "options", "options_shown", "health", "ammo", "kills")

    def system(self, row: Row) -> str:
        return system_text(self.settings, self.instructions[row["run_id"], row["scenario"], row["rubric"]])

    def turn(self, row: Row) -> str:
        snapshot = Snapshot(0, health=row["health"], ammo=row["ammo"], kills=row["kills"])
        return turn_text(self.settings, snapshot, row["state"], _shown(row))

    def answer(self, row: Row, action: str) -> str:
        return answer_text(self.settings.answer, action, _shown(row))


def _shown(row: Row) -> list[str]:
    shown: list[str] = row["options_shown"] or row["options"]
    return shown
