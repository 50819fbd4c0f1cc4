"""A scenario from a TOML file: what its keys mean. README.md shows one.

Paths are relative to the file. What it names is read here and travels with the scenario: workers need no file.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from pathlib import Path

import rollouts.doom.engine as doom
from rollouts.doom.cfg import STOCK_CFGS, wads_of
from rollouts.doom.game_files import why_no_wad
from rollouts.errors import ScenarioError, UsageError
from rollouts.rubrics import RUBRICS
from rollouts.scenario_files.texts import Taught, Text, read_teacher, read_text
from rollouts.scenario_files.toml_table import Table
from rollouts.scenarios.measures import METRICS
from rollouts.scenarios.registry import SCENARIOS
from rollouts.scenarios.scenario import Action, Baselines, EngineSetup, GameFile, Metric, PassiveLoss, Scenario, Source
from rollouts.seeds import parse_seeds
from rollouts.settings import one_line, unreadable

SUFFIX = ".toml"
_CLASSES = ("monsters", "items", "projectiles")
_KEYS = (
    *("name", "cfg", "wad", "seeds", "tics", "step_cap", "timeout_tics", "metric", "unit", "variables", *_CLASSES),
    *("actions", "text", "rubrics", "teacher", "baselines", "passive_loss"),
)


def is_scenario_file(name: str) -> bool:
    return name.endswith(SUFFIX)


def read_scenario(path: Path) -> Scenario:
    """The scenario of that file. Errors: `UsageError`, one line with file, key, value and choices."""
    table, content = _read(path)
    table.check_keys(_KEYS)
    actions, text = _actions(table), read_text(table)
    taught = read_teacher(table, tuple(action.name for action in actions))
    step_cap, tics = table.count("step_cap"), table.count("tics")
    try:
        return Scenario(
            name=_name(table),
            seeds=_seeds(table),
            metric=_metric(table),
            actions=actions,
            describe=text.describe,
            teacher=taught.teacher,
            instructions=_instructions(table, path.parent),
            engine=_engine(table, path.parent, text, taught),
            baselines=_baselines(table, has_teacher=taught.teacher is not None),
            tics=4 if tics is None else tics,
            step_cap=300 if step_cap is None else step_cap,
            source=Source(path.name, hashlib.sha256(content).hexdigest()),
        )
    except ScenarioError as error:
        raise UsageError(f"{path}: {error}") from error


def _read(path: Path) -> tuple[Table, bytes]:
    try:
        content = path.read_bytes()
        return Table(str(path), "", tomllib.loads(content.decode())), content
    except OSError as error:
        raise UsageError(f'scenario file "{path}": {unreadable(error)}') from error
    except ValueError as error:
        raise UsageError(f'scenario file "{path}" is not TOML: {one_line(str(error))}') from error


def _name(table: Table) -> str:
    name = table.needed_text("name")
    if name in SCENARIOS:
        table.wrong("name", "a scenario that ships has that name: must be one of its own")
    if not name.isprintable():
        table.wrong("name", "must be one line")
    return name


def _actions(table: Table) -> tuple[Action, ...]:
    """In the order of the file. No buttons, `[]`, is an action that presses nothing."""
    actions = table.table("actions")
    if actions is None or not actions.values:
        table.missing("actions")
    return tuple(_action(actions, name) for name in actions.values)


def _action(actions: Table, name: str) -> Action:
    try:
        buttons = actions.chosen(name, doom.BUTTONS)
    except UsageError as error:
        raise UsageError(f"{error}; [] is an action that presses nothing") from error
    if len(set(buttons)) < len(buttons):
        actions.wrong(name, "must name each button once")
    try:
        return Action(name, buttons)
    except ScenarioError as error:
        raise UsageError(f"{actions.file}: {actions.name}: {error}") from error


def _seeds(table: Table) -> tuple[int, ...]:
    if "seeds" not in table.values:
        return ()
    return parse_seeds(table.values["seeds"], f"{table.file}: seeds") or table.wrong("seeds", "must be your own seeds")


def _metric(table: Table) -> Metric:
    """One of the named ones, or what `module:function` names: a function of (last snapshot, decisions, tics), or a
    `Metric`."""
    spec, unit = table.needed_text("metric"), table.text("unit")
    if ":" not in spec:
        if unit is not None:
            table.wrong("unit", f"is for a metric of your own (module:function); {spec} has its own")
        return METRICS[table.choice("metric", spec, (*METRICS, "module:function"))]
    found = table.imported("metric")
    if isinstance(found, Metric):
        if unit is not None:
            table.wrong("unit", f"{spec} is a Metric, which has its own: leave it out")
        return found
    return Metric(spec.rpartition(":")[2], unit or "points", table.function("metric", takes=3))


def _instructions(table: Table, folder: Path) -> dict[str, str]:
    """Texts by mode: `rule` and `bare` as they are, `rule_file` and `bare_file` from files."""
    rubrics = table.table("rubrics")
    if rubrics is None:
        table.missing("rubrics")
    rubrics.check_keys([*RUBRICS, *(f"{mode}_file" for mode in RUBRICS)])
    texts = {mode: text for mode in RUBRICS if (text := _instruction(rubrics, mode, folder)) is not None}
    return texts or rubrics.missing("rule")


def _instruction(rubrics: Table, mode: str, folder: Path) -> str | None:
    text, name = rubrics.text(mode), rubrics.text(f"{mode}_file")
    if text is not None and name is not None:
        rubrics.wrong(f"{mode}_file", f"give either {mode} or {mode}_file")
    if name is None:
        return text
    content = _content(rubrics, f"{mode}_file", folder / name)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return rubrics.wrong(f"{mode}_file", "must be UTF-8 text")


def _engine(table: Table, folder: Path, text: Text, taught: Taught) -> EngineSetup:
    loss = table.table("passive_loss")
    variables = (*table.chosen("variables", doom.VARIABLES), *text.variables, *taught.variables)
    cfg, wad, game = _game_files(table, folder)
    monsters, items, projectiles = _classes(table)
    return EngineSetup(
        cfg=cfg,
        wad=wad,
        game=game,
        needs_depth=text.needs_depth or taught.needs_depth,
        timeout_tics=table.count("timeout_tics"),
        variables=tuple(dict.fromkeys(variables)),
        extra_monsters=monsters,
        extra_items=items,
        projectiles=projectiles,
        passive_loss=None if loss is None else _passive_loss(loss),
    )


def _classes(table: Table) -> list[tuple[str, ...]]:
    """The class names that the file adds, of each kind: monsters, items, projectiles."""
    kinds: dict[str, str] = {}
    for key in _CLASSES:
        for name in table.texts(key):
            if not name.strip():
                table.wrong(key, "must be names of classes")
            if name in kinds:
                table.wrong(key, f'"{name}" stands in {kinds[name]} already: must be of one kind, once')
            kinds[name] = key
    return [table.texts(key) for key in _CLASSES]


def _game_files(table: Table, folder: Path) -> tuple[str | GameFile, GameFile | None, GameFile | None]:
    """The cfg (a stock one by its name), the map's wad and the base game, each where it is not the package's own."""
    name = table.needed_text("cfg")
    path = folder / name
    if not path.is_file():
        if name in STOCK_CFGS:
            return name, _wad(table, folder), None
        table.wrong("cfg", f"no such file in {folder}, nor one of {', '.join(STOCK_CFGS)}")
    try:
        wad, game = wads_of(path.absolute())
    except ScenarioError as error:
        table.refuse("cfg", str(error))
    cfg = GameFile(path.name, _content(table, "cfg", path))
    found = _wad(table, folder) or (_game_file(table, "cfg", wad) if wad else None)
    return cfg, found, _game_file(table, "cfg", game) if game else None


def _wad(table: Table, folder: Path) -> GameFile | None:
    name = table.text("wad")
    return None if name is None else _game_file(table, "wad", folder / name)


def _game_file(table: Table, key: str, path: Path) -> GameFile:
    content = _content(table, key, path)
    if (fault := why_no_wad(content, len(content))) is not None:
        table.refuse(key, f"{path} is no wad: {fault}")
    return GameFile(path.name, content)


def _content(table: Table, key: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        table.refuse(key, f"{path}: {unreadable(error)}")


def _baselines(table: Table, has_teacher: bool) -> Baselines | None:
    """The means of random and of the teacher; the heuristic grader measures by the distance between them."""
    baselines = table.table("baselines")
    if baselines is None:
        return None
    baselines.check_keys(("random", "oracle"))
    random, oracle = _mean(baselines, "random", table), _mean(baselines, "oracle", table)
    if random is None:
        baselines.missing("random")
    if oracle is not None and not has_teacher:
        baselines.wrong("oracle", "is the mean of the teacher, and there is none: leave it out, or give [[teacher]]")
    if oracle == random:
        baselines.wrong("oracle", f"is that of random too ({random:g}): must be the mean that the teacher came out at")
    return Baselines(random, oracle)


def _mean(baselines: Table, key: str, table: Table) -> float | None:
    """A mean that the metric can have."""
    value, metric = baselines.number(key), METRICS.get(str(table.values.get("metric")))
    if value is not None and metric is not None and not metric.least <= value <= metric.most:
        told = f"from {metric.least:g} to {metric.most:g}" if metric.most < math.inf else f"{metric.least:g} or above"
        baselines.wrong(key, f"must be a mean that {metric.name} can have, {told}")
    return value


def _passive_loss(loss: Table) -> PassiveLoss:
    loss.check_keys(("health", "every_tics"))
    health, every_tics = loss.count("health"), loss.count("every_tics")
    return PassiveLoss(health or loss.missing("health"), every_tics or loss.missing("every_tics"))
