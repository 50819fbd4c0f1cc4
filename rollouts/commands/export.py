"""`rollouts export`: the rows of runs in the forms that trainers read."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from cyclopts import Group, Parameter

from rollouts.errors import UsageError
from rollouts.exports.chat_forms import ChatForm, Preference, Sft
from rollouts.exports.exporting import Export, Samples
from rollouts.exports.lerobot import LeRobot
from rollouts.exports.merge import Merge
from rollouts.exports.prompts import Prompts
from rollouts.exports.samples import Form
from rollouts.exports.source import Source
from rollouts.exports.table_files import FILE_KINDS, FileKind
from rollouts.exports.tar_shards import WebDataset
from rollouts.loading.selection import Filters
from rollouts.naming import counted
from rollouts.policies.model_settings import ANSWERS, OBSERVES, ModelSettings, Observe
from rollouts.policies.reply_rules import Wanted
from rollouts.settings import one_line, unknown
from rollouts.signals import Interrupted, Signals

_FORM = Group.create_ordered("In what form")
_ROWS = Group.create_ordered("Which rows")
_SWITCH = Parameter(negative=())
Names = list[str] | None


@Parameter(name="*")
@dataclass(frozen=True)
class FormFlags:
    """What a sample is made of."""

    observe: Annotated[str, Parameter(group=_FORM)] = "text"
    """sft, preference: what the policy is shown, as in `rollouts run`: text, frame or both."""
    answer: Annotated[str, Parameter(group=_FORM)] = "letters"
    """sft, preference: how it answers, as in `rollouts run`: letters, json or plain."""
    files: Annotated[str, Parameter(group=_FORM)] = "parquet"
    """sft, preference: parquet or jsonl (which holds no pictures)."""
    credit: Annotated[bool, Parameter(group=_FORM, negative=())] = False
    """sft, preference, webdataset: a `weight`, the credit of the decision in [-1, 1]; rows without are left out."""
    shard_mb: Annotated[float, Parameter(group=_FORM, allow_leading_hyphen=True)] = 256
    """Megabytes after which another file is begun; merge: up to which small shards are joined. (lerobot has 100.)"""


@Parameter(name="*")
@dataclass(frozen=True)
class RowFlags:
    """The readers' filters."""

    scenario: Annotated[Names, Parameter(group=_ROWS, negative=())] = None
    """Exact name; repeat for more."""
    rubric: Annotated[Names, Parameter(group=_ROWS, negative=())] = None
    """The same."""
    policy: Annotated[Names, Parameter(group=_ROWS, negative=())] = None
    """The same."""
    graded: Annotated[bool, Parameter(group=_ROWS, negative=())] = False
    """Only episodes whose newest grade has a score."""
    min_credit: Annotated[float | None, Parameter(group=_ROWS, allow_leading_hyphen=True)] = None
    """Only rows whose credit is at least that."""
    grader_id: Annotated[str | None, Parameter(group=_ROWS)] = None
    """Whose grades, where a run has several."""
    credit_id: Annotated[str | None, Parameter(group=_ROWS)] = None
    """Which credit, where a run has several."""
    limit: Annotated[int | None, Parameter(group=_ROWS, allow_leading_hyphen=True)] = None
    """The first so many samples only."""

    def filters(self) -> Filters:
        names = ("scenario", "rubric", "policy", "min_credit", "grader_id", "credit_id")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return cast(Filters, {**given, **({"graded": True} if self.graded else {})})


_NO_FORM_FLAGS, _NO_ROW_FLAGS = FormFlags(), RowFlags()
_CLEAN_UP_S = 60.0
"""After a first signal, to remove what was written: gigabytes on a slow disk. A second one does not wait."""


def export(  # noqa: PLR0913  the flags of the command
    *runs: str,
    format: str,
    out: Path,
    form: FormFlags = _NO_FORM_FLAGS,
    rows: RowFlags = _NO_ROW_FLAGS,
    dry_run: Annotated[bool, _SWITCH] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Write the committed rows of one or more runs in a form that trainers read, with a card and where it is from.

    Rows of episodes that were played again later are left out; what else is left out is counted by reason.

    Parameters
    ----------
    runs
        Folders of runs: paths, URIs, or ids alone under ./runs.
    format
        sft (chat messages, the teacher's action as the answer), preference (pairs, where policy and teacher differ),
        webdataset (tar shards), lerobot (a LeRobot dataset, v3.0) or merge (several runs as one set, rows as they are).
    out
        A folder that is not there yet; it is there whole or not at all.
    dry_run
        Only count: what would be written, and what left out.
    as_json
        One JSON object.
    """
    try:
        signals = Signals(grace_s=_CLEAN_UP_S)
        with signals, signals.interruptible(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            order = _order(runs, format, out, form, rows)
            told = order.count() if dry_run else order.run()
            damaged = list(dict.fromkeys(one_line(str(warning.message)) for warning in caught))
    except Interrupted:
        return 128 + (signals.received or 0)
    for line in damaged:
        print(f"rollouts: {line}", file=sys.stderr)
    _tell({**told, "out": str(out), "dry_run": dry_run}, as_json)
    return 1 if damaged else 0


def _order(runs: tuple[str, ...], format: str, out: Path, form: FormFlags, rows: RowFlags) -> Export:
    """Errors: `UsageError`."""
    if not runs:
        raise UsageError("no run is named: give the folder of a run, or several")
    if format not in (*FORMS, "merge"):
        raise unknown("--format", format, [*FORMS, "merge"])
    if rows.limit is not None and rows.limit < 1:
        raise UsageError(f"--limit is {rows.limit}: must be 1 or above")
    if not math.isfinite(form.shard_mb) or form.shard_mb <= 0:
        raise UsageError(f"--shard-mb is {form.shard_mb:g}: must be above 0")
    _refuse_without_place(format, form, rows)
    source = Source(runs, rows.filters())
    if format == "merge":
        return Export(source, format, Merge(_bytes(form)), out)
    made, settings = FORMS[format](source, form)
    return Export(source, format, Samples(made, rows.limit), out, rows.limit, settings)


Made = tuple[Form, Mapping[str, Any]]
"""A form, and the settings that decide what its samples are."""


_WITHOUT_PLACE: Mapping[str, tuple[str, ...]] = {
    "webdataset": ("observe", "answer", "files"),
    "lerobot": ("observe", "answer", "files", "shard_mb", "credit", "min_credit", "limit"),
    "merge": ("observe", "answer", "files", "credit", "min_credit", "limit"),
}
"""LeRobot's trainers read no weight; it has whole episodes, as a merged set has, which takes all their columns."""


def _refuse_without_place(format: str, form: FormFlags, rows: RowFlags) -> None:
    """A flag that would change nothing, or tear an episode apart, is not passed over in silence."""
    given, usual = {**asdict(form), **asdict(rows)}, {**asdict(_NO_FORM_FLAGS), **asdict(_NO_ROW_FLAGS)}
    for name in _WITHOUT_PLACE.get(format, ()):
        if given[name] != usual[name]:
            raise UsageError(f"--{name.replace('_', '-')} has no place in --format {format}")


def _sft(source: Source, flags: FormFlags) -> Made:
    return _chat(Sft, source, flags)


def _preference(source: Source, flags: FormFlags) -> Made:
    return _chat(Preference, source, flags)


def _chat(kind: type[ChatForm], source: Source, flags: FormFlags) -> Made:
    for flag, value, choices in (
        ("--observe", flags.observe, OBSERVES),
        ("--answer", flags.answer, ANSWERS),
        ("--files", flags.files, FILE_KINDS),
    ):
        if value not in choices:
            raise unknown(flag, value, choices)
    settings = ModelSettings(observe=cast(Observe, flags.observe), answer=cast(Wanted, flags.answer))
    if settings.sees and flags.files == "jsonl":
        raise UsageError(f"--files jsonl holds no pictures, and --observe is {flags.observe}: use --files parquet")
    prompts = Prompts(settings, source.instructions)
    form = kind(prompts, flags.credit, cast(FileKind, flags.files), _bytes(flags))
    return form, {"observe": flags.observe, "answer": flags.answer, "files": flags.files, "credit": flags.credit}


def _webdataset(source: Source, flags: FormFlags) -> Made:  # noqa: ARG001  as the others
    return WebDataset(flags.credit, _bytes(flags)), {"credit": flags.credit}


def _lerobot(source: Source, flags: FormFlags) -> Made:  # noqa: ARG001  as the others
    return LeRobot(source.instructions), {}


def _bytes(flags: FormFlags) -> int:
    return int(flags.shard_mb * 1_000_000)


FORMS: Mapping[str, Callable[[Source, FormFlags], Made]] = {
    "sft": _sft,
    "preference": _preference,
    "webdataset": _webdataset,
    "lerobot": _lerobot,
}


def _tell(told: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(told))
        return
    for reason, n in told["left_out"].items():
        print(f"left out, {reason}: {counted(n, 'row')}")
    done = "would be written" if told["dry_run"] else "written"
    noun = "row" if told["format"] == "merge" else "sample"
    print(f"{counted(told['written'], noun)} ({told['format']}) {done} to {told['out']}")
