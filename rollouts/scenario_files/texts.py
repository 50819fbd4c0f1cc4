"""The parts of a scenario file that look at a snapshot: its state text, and its teacher as a list of rules."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, get_args

import rollouts.doom.engine as doom
from rollouts.doom.perception import ITEMS, MONSTERS
from rollouts.errors import ScenarioError
from rollouts.observation import COUNTERS, MOST_SHOWN, WORDS, Clearance, Position, Range, StateText
from rollouts.records import Snapshot, ThingKind
from rollouts.scenario_files.toml_table import Table
from rollouts.scenarios.rules import Rule, Rules
from rollouts.scenarios.scenario import Teacher

KINDS: tuple[ThingKind, ...] = get_args(ThingKind)
_BANDS = ("left", "ahead", "right")
_TEXT_KEYS = ("monsters", "items", "projectiles", "depth", "variables", "names", "words", "describe")
_RULE_KEYS = ("do", "see", "where", "near", "unseen", *_BANDS, "variable", "below", "at_least")


@dataclass(frozen=True)
class Text:
    """How a snapshot is described, and what that takes of the engine: depth, further variables."""

    describe: Callable[[Snapshot, str | None], str]
    needs_depth: bool
    variables: tuple[str, ...]


@dataclass(frozen=True)
class Taught:
    """The teacher, if there is one, and what it takes of the engine."""

    teacher: Teacher | None
    needs_depth: bool = False
    variables: tuple[str, ...] = ()


def read_text(table: Table) -> Text:
    """The table `text` of a scenario file. Errors: `UsageError`."""
    text = table.table("text") or Table(table.file, "text", {})
    text.check_keys(_TEXT_KEYS)
    depth = text.switch("depth")
    if text.text("describe") is not None:
        for key in text.values:
            if key not in ("describe", "depth"):
                text.refuse(key, "describe says it all: leave one of them out")
        return Text(text.function("describe", takes=2), depth, ())
    variables = text.chosen("variables", (*COUNTERS, *doom.VARIABLES)) if "variables" in text.values else COUNTERS
    told = [(kind, text.count(f"{kind}s", least=0, most=MOST_SHOWN) or 0) for kind in KINDS]
    describe = StateText(
        things=tuple((kind, most) for kind, most in told if most),
        depth=depth,
        variables=variables,
        names=_renamed(text, "names", _classes(table)),
        words=_renamed(text, "words", (*WORDS, *variables)),
    )
    return Text(describe, depth, _of_the_engine(variables))


def _classes(table: Table) -> tuple[str, ...]:
    """The class names of all that can be seen: the file's own, then Doom's."""
    return (
        *table.texts("monsters"),
        *table.texts("items"),
        *table.texts("projectiles"),
        *sorted(MONSTERS),
        *sorted(ITEMS),
    )


def _renamed(text: Table, key: str, choices: Collection[str]) -> dict[str, str]:
    """A table of names or words to others."""
    renamed = text.table(key)
    if renamed is None:
        return {}
    renamed.check_keys(choices)
    for name in renamed.values:
        told = renamed.needed_text(name)
        if {"{", "}"} & set(told):
            renamed.wrong(name, "is told as it stands, for nothing is filled in: leave the braces out")
        if not told.isprintable():
            renamed.wrong(name, "must be one line")
    return {name: renamed.needed_text(name) for name in renamed.values}


def read_teacher(table: Table, options: tuple[str, ...]) -> Taught:
    """`teacher` of a scenario file: a list of rules, or `module:function`. Errors: `UsageError`."""
    if isinstance(table.values.get("teacher"), str):
        return Taught(table.function("teacher", takes=1))
    things = (*KINDS, *_classes(table))
    rules = tuple(_rule(rule, options, things) for rule in table.tables("teacher"))
    if not rules:
        return Taught(None)
    try:
        teacher = Rules(rules)
    except ScenarioError as error:
        table.refuse("teacher", str(error))
    variables = [rule.variable for rule in rules if rule.variable is not None]
    return Taught(teacher, any(rule.reads_depth for rule in rules), _of_the_engine(variables))


def _rule(table: Table, options: Collection[str], things: Collection[str]) -> Rule:
    table.check_keys(_RULE_KEYS)
    for key, other in (("where", "see"), ("near", "see"), ("below", "variable"), ("at_least", "variable")):
        if key in table.values and other not in table.values:
            table.refuse(key, f"means nothing without {other}")
    if "variable" in table.values and not {"below", "at_least"} & table.values.keys():
        table.refuse("variable", "means nothing without below or at_least")
    below, at_least = table.number("below"), table.number("at_least")
    if below is not None and at_least is not None and at_least >= below:
        table.wrong("at_least", f"no number is that and below {below:g} too")
    if "see" in table.values and table.values["see"] == table.values.get("unseen"):
        table.wrong("unseen", "the rule wants to see the same: leave one of them out")
    chosen: dict[str, Any] = {
        **{"where": table.chosen("where", get_args(Position)), "near": table.chosen("near", get_args(Range))},
        **{band: table.chosen(band, get_args(Clearance)) for band in _BANDS},
    }
    return Rule(
        do=table.choice("do", table.needed_text("do"), options),
        see=_one_of(table, "see", things),
        unseen=_one_of(table, "unseen", things),
        variable=_one_of(table, "variable", (*COUNTERS, *doom.VARIABLES)),
        below=below,
        at_least=at_least,
        **chosen,
    )


def _one_of(table: Table, key: str, choices: Collection[str]) -> str | None:
    value = table.text(key)
    return None if value is None else table.choice(key, value, choices)


def _of_the_engine(variables: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in variables if name not in COUNTERS)
