"""Rows as conversations, in the columns that TRL's trainers read.

`sft`: `messages`, in which the teacher's action is the answer. `preference`: `prompt`, `chosen` (the teacher's action)
and `rejected` (the policy's own), where the two differ and the policy's was an option. With pictures a message's
content is a list of parts, and the pictures stand in `images`, as TRL's vision trainers want it. `weight` is there on
request.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from rollouts.exports.prompts import Prompts
from rollouts.exports.samples import KEYS, WEIGHT, Nothing, Reason, Row, Writer
from rollouts.exports.table_files import FileKind, TableWriter
from rollouts.shards.schemas import FRAME, INT, NUM, STR, make_schema

MESSAGES = pa.list_(pa.struct([("role", STR), ("content", STR)]))
PART = pa.struct([("type", STR), ("text", STR)])
MESSAGES_WITH_PARTS = pa.list_(pa.struct([("role", STR), ("content", pa.list_(PART))]))
Message = dict[str, Any]


@dataclass(frozen=True)
class ChatForm:
    """What both have in common. `weighted`: a column `weight`, the row's credit."""

    prompts: Prompts
    weighted: bool = False
    kind: FileKind = "parquet"
    shard_bytes: int = 1 << 28

    conversations: ClassVar[tuple[str, ...]] = ("messages",)
    answers: ClassVar[tuple[str, ...]] = ("teacher_action",)

    @property
    def sees(self) -> bool:
        return self.prompts.settings.sees

    @property
    def columns(self) -> tuple[str, ...]:
        frame = ("frame",) if self.sees else ()
        weight = (WEIGHT,) if self.weighted else ()
        return (*KEYS, *self.prompts.columns, *self.answers, *frame, *weight)

    @property
    def schema(self) -> pa.Schema:
        messages = MESSAGES_WITH_PARTS if self.sees else MESSAGES
        fields = [(name, messages) for name in self.conversations]
        fields += [("images", pa.list_(FRAME))] if self.sees else []
        fields += [("weight", NUM)] if self.weighted else []
        return make_schema([*fields, ("run_id", STR), ("episode_id", STR), ("tick", INT)], lists=("images",))

    def left_out(self, row: Row) -> Reason | None:
        if row["teacher_action"] is None:
            return Reason.NO_TEACHER
        if self.sees and row["frame"] is None:
            return Reason.NO_FRAME
        if self.weighted and row[WEIGHT] is None:
            return Reason.NO_CREDIT
        return None

    def sample(self, row: Row) -> dict[str, Any]:
        images = {"images": [row["frame"]]} if self.sees else {}
        weight = {"weight": row[WEIGHT]} if self.weighted else {}
        return {**self._said(row), **images, **weight, **{key: row[key] for key in KEYS}}

    def writer(self, folder: Path | None) -> Writer:
        if folder is None:
            return Nothing()
        return TableWriter(folder, self.schema, self.sample, self.kind, self.shard_bytes)

    def _said(self, row: Row) -> dict[str, list[Message]]:
        return {"messages": [*self._asked(row), self._answered(row, "teacher_action")]}

    def _asked(self, row: Row) -> list[Message]:
        system, turn = self.prompts.system(row), self.prompts.turn(row)
        return [self._message("system", system), self._message("user", turn, picture=self.sees)]

    def _answered(self, row: Row, column: str) -> Message:
        return self._message("assistant", self.prompts.answer(row, row[column]))

    def _message(self, role: str, text: str, picture: bool = False) -> Message:
        """The picture comes after the words, as a chat policy sends it."""
        if not self.sees:
            return {"role": role, "content": text}
        parts = [{"type": "text", "text": text}, *([{"type": "image", "text": None}] if picture else [])]
        return {"role": role, "content": parts}


@dataclass(frozen=True)
class Sft(ChatForm):
    """Supervised fine-tuning."""


@dataclass(frozen=True)
class Preference(ChatForm):
    """Pairs of answers, for DPO and its kin."""

    conversations = ("prompt", "chosen", "rejected")
    answers = ("teacher_action", "model_action", "asked", "out_of_schema")

    def left_out(self, row: Row) -> Reason | None:
        if not row["asked"]:
            return Reason.NOT_ASKED
        if row["out_of_schema"] or row["model_action"] is None:
            return Reason.OUT_OF_SCHEMA
        if row["model_action"] == row["teacher_action"]:
            return Reason.AGREES
        return super().left_out(row)

    def _said(self, row: Row) -> dict[str, list[Message]]:
        chosen, rejected = self._answered(row, "teacher_action"), self._answered(row, "model_action")
        return {"prompt": self._asked(row), "chosen": [chosen], "rejected": [rejected]}
