from __future__ import annotations

import hashlib
import pickle
import sys
from pathlib import Path

import pytest

from rollouts.errors import UsageError
from rollouts.records import DepthBands, Snapshot, Thing
from rollouts.scenario_files.from_toml import read_scenario
from rollouts.scenarios.scenario import Action, Baselines, GameFile, Outcome, PassiveLoss, Scenario, Source
from tests.scenario_files import STOCK, write_line

IMP = Thing("DoomImp", "monster", 0.5, 0.3)


@pytest.fixture
def line(tmp_path: Path) -> Scenario:
    return read_scenario(write_line(tmp_path))


def test_a_file_is_read_whole(line: Scenario, tmp_path: Path) -> None:
    assert (line.name, line.seeds, line.tics, line.step_cap) == ("my_line", (0, 1, 2, 3), 4, 40)
    assert line.actions[:2] == (Action("attack", ("ATTACK",)), Action("turn left", ("TURN_LEFT",)))
    assert line.actions[3:] == (Action("run and gun", ("ATTACK", "MOVE_FORWARD", "SPEED")), Action("wait"))
    assert line.instructions == {
        "rule": "Shoot the nearest monster; turn towards it first.",
        "bare": "Shoot monsters.\n",
    }
    assert (line.metric.name, line.metric.value(Snapshot(0, kills=3), 1, 4, Outcome(0, None))) == ("kills", 3)
    assert line.baselines == Baselines(2.5, 9)
    assert line.source == Source("line.toml", hashlib.sha256((tmp_path / "line.toml").read_bytes()).hexdigest())


def test_its_engine_gets_the_files_and_all_that_text_and_teacher_read(line: Scenario) -> None:
    assert line.engine is not None
    assert line.engine.cfg == GameFile("mine.cfg", (STOCK / "defend_the_line.cfg").read_bytes())
    assert line.engine.wad == GameFile("mine.wad", (STOCK / "defend_the_line.wad").read_bytes())
    assert line.engine.needs_depth
    assert line.engine.variables == ("HITCOUNT", "ARMOR")
    assert line.engine.extra_monsters == ("MarineChainsaw",)


def test_its_text_has_its_own_names_and_words(line: Scenario) -> None:
    seen = Snapshot(0, health=7, ammo=9, things=(IMP,), variables={"ARMOR": 5.0})
    assert line.describe(seen, "wait") == (
        "The nearest monster is an imp: centre, on the crosshair; range close. Hit points: 7. Ammo is 9. Armour: 5. "
        "The previous action was wait."
    )


@pytest.mark.parametrize(
    ("snapshot", "action"),
    [
        (Snapshot(0, things=(IMP,)), "run and gun"),
        (Snapshot(0, things=(Thing("DoomImp", "monster", 0.5, 0.1),)), "attack"),
        (Snapshot(0, depth=DepthBands(60, 60, 60), variables={"HITCOUNT": 1.0}), "turn right"),
        (Snapshot(0, depth=DepthBands(60, 60, 60), variables={"HITCOUNT": 0.0}), "turn left"),
        (Snapshot(0, depth=DepthBands(60, 5, 60), variables={"HITCOUNT": 1.0}), "turn left"),
    ],
)
def test_its_teacher_follows_its_rules_in_order(line: Scenario, snapshot: Snapshot, action: str) -> None:
    assert line.teacher is not None
    assert line.teacher(snapshot) == action


def test_it_travels_as_it_is(line: Scenario) -> None:
    assert pickle.loads(pickle.dumps(line)) == line


def test_a_stock_cfg_goes_by_its_name_and_a_wad_that_a_cfg_names_is_found(tmp_path: Path) -> None:
    stock = read_scenario(write_line(tmp_path, ('cfg = "mine.cfg"\nwad = "mine.wad"', 'cfg = "defend_the_line.cfg"')))
    assert stock.engine is not None
    assert (stock.engine.cfg, stock.engine.wad) == ("defend_the_line.cfg", None)
    beside = write_line(tmp_path, ('wad = "mine.wad"', ""))
    (tmp_path / "mine.cfg").write_text("doom_scenario_path = mine.wad\n")
    own = read_scenario(beside)
    assert own.engine is not None
    assert own.engine.wad == GameFile("mine.wad", (STOCK / "defend_the_line.wad").read_bytes())


def test_functions_of_a_module_take_the_place_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_functions.py").write_text(
        "from rollouts.scenarios.scenario import Metric\n"
        "def score(last, decisions, tics): return 2 * decisions\n"
        "def tell(snapshot, previous): return 'all is well'\n"
        "def teach(snapshot): return 'wait'\n"
        "BEST = Metric('best', 'runs', of_outcome=lambda outcome: outcome.reward + 1)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = write_line(tmp_path, ('metric = "kills"', 'metric = "mine_functions:score"\nunit = "marks"'))
    text = path.read_text()
    head, _, tail = text.partition("[text]")
    rubrics = tail[tail.index("[rubrics]") : tail.index("[[teacher]]")]
    path.write_text(f'teacher = "mine_functions:teach"\n{head}[text]\ndescribe = "mine_functions:tell"\n{rubrics}')
    read = read_scenario(path)
    assert (read.metric.name, read.metric.unit, read.metric.value(Snapshot(0), 4, 4, Outcome(0, None))) == (
        *("score", "marks"),
        8,
    )
    assert read.describe(Snapshot(0), None) == "all is well"
    assert read.teacher is not None
    assert read.teacher(Snapshot(0)) == "wait"
    path.write_text(path.read_text().replace("mine_functions:score", "mine_functions:BEST"))
    with pytest.raises(UsageError, match=r'unit is "marks": mine_functions:BEST is a Metric'):
        read_scenario(path)
    path.write_text(path.read_text().replace('unit = "marks"\n', ""))
    assert read_scenario(path).metric.value(Snapshot(0), 4, 4, Outcome(6, None)) == 7


def test_health_that_the_world_takes_is_said_in_the_file(tmp_path: Path) -> None:
    path = write_line(tmp_path, ("[baselines]", "[passive_loss]\nhealth = 8\nevery_tics = 32\n[baselines]"))
    engine = read_scenario(path).engine
    assert engine is not None
    assert engine.passive_loss == PassiveLoss(8, 32)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (('name = "my_line"', ""), ["name is missing"]),
        (('cfg = "mine.cfg"', ""), ["cfg is missing"]),
        (("step_cap", "stepcap"), ['key "stepcap" is unknown', "step_cap"]),
        (("[text]\n", "[text]\ncolour = 3\n"), ['key "text.colour"', "text.monsters", "text.words"]),
        (('"ATTACK", "MOVE_FORWARD"', '"ATTACK", "FIRE"'), ["actions.run and gun", '"FIRE"', "MOVE_FORWARD"]),
        (('"HITCOUNT"]', '"HITCONT"]'), ["variables", '"HITCONT"', 'did you mean "HITCOUNT"']),
        (('variable = "HITCOUNT"', 'variable = "luck"'), ["teacher[3].variable", '"luck"', "health", "HITCOUNT"]),
        (('do = "turn right"', 'do = "turn back"'), ["teacher[3].do", '"turn back"', "turn left", "run and gun"]),
        (('see = "monster"', 'see = "ghost"'), ["teacher[1].see", '"ghost"', "monster", "MarineChainsaw"]),
        (('where = "centre"', 'where = "middle"'), ["teacher[1].where", '"middle"', "far left"]),
        (('near = ["close"', 'near = ["nearby"'), ["teacher[1].near", '"nearby"', "point blank"]),
        (('ahead = ["open"', 'ahead = ["air"'), ["teacher[3].ahead", '"air"', "wall near"]),
        (("at_least = 1", 'at_least = "1"'), ["teacher[3].at_least", '"1"', "finite number"]),
        (("at_least = 1\n", ""), ["teacher[3].variable", "without below or at_least"]),
        (('variable = "HITCOUNT"\n', ""), ["teacher[3].at_least", "without variable"]),
        (('see = "monster"\n', ""), ["teacher[1].where", "without see"]),
        (('do = "turn left"\n\n[base', 'do = "turn left"\nsee = "item"\n[base'), ["teacher", "last rule"]),
        (('metric = "kills"', 'metric = "frags"'), ["metric", '"frags"', "survival_s", "module:function"]),
        (('metric = "kills"', 'metric = "absent_module:f"'), ["metric", "absent_module"]),
        (('metric = "kills"', 'metric = "math:pi"'), ["metric", '"math:pi"', "function"]),
        (('metric = "kills"', 'metric = "shutil:disk_usage"'), ["metric", "shutil:disk_usage", "3 arguments"]),
        (('seeds = "0:4"', 'seeds = "four"'), ["seeds", "four"]),
        (('seeds = "0:4"', 'seeds = "published"'), ["seeds", "published"]),
        (("step_cap = 40", "step_cap = 0"), ["step_cap", '"0"', "from 1"]),
        (("step_cap = 40", "step_cap = 4.5"), ["step_cap", '"4.5"']),
        (("monsters = 3", "monsters = 4"), ["text.monsters", '"4"', "from 0 to 3"]),
        (('"ammo", "ARMOR"', '"ammo", "MANA"'), ["text.variables", '"MANA"', "ammo"]),
        (("names = { DoomImp", "names = { Imp"), ["text.names.Imp", 'did you mean "text.names.DoomImp"']),
        (("words = { health", "words = { hunger"), ["text.words.hunger", "text.words.health"]),
        (('wad = "mine.wad"', 'wad = "gone.wad"'), ["wad", "gone.wad", "No such file"]),
        (('wad = "mine.wad"', 'wad = "."'), ["wad", "is a folder, not a file"]),
        (('wad = "mine.wad"', 'wad = "bare.txt"'), ["wad", "bare.txt", "no wad", "IWAD or PWAD"]),
        (('cfg = "mine.cfg"', 'cfg = "gone.cfg"'), ["cfg", "gone.cfg", "defend_the_line.cfg"]),
        (('bare_file = "bare.txt"', 'bare_file = "gone.txt"'), ["rubrics.bare_file", "gone.txt", "No such file"]),
        (("bare_file =", "rule_file ="), ["rubrics.rule_file", "either rule or rule_file"]),
        (("bare_file =", "loose_file ="), ['"rubrics.loose_file"', "rubrics.bare_file"]),
        (("random = 2.5\n", ""), ["baselines.random is missing"]),
        (("wait = []", "wait = 3"), ["actions.wait", '"3"', "list of texts"]),
        (("[baselines]", "[[baselines]]"), ["baselines", "must be a table"]),
        (('name = "my_line"', 'name = "basic"'), ['name is "basic"', "ships"]),
        (('name = "my_line"', 'name = "my\\nline"'), ["name", "one line"]),
        (('attack = "ATTACK"', '"" = "ATTACK"'), ["actions", "action ''", "one line"]),
        (('attack = "ATTACK"', '"attack " = "ATTACK"'), ["actions", "action 'attack '", "blanks"]),
        (("wait = []", 'wait = ""'), ["actions.wait", '""', "[] is an action that presses nothing"]),
        (("wait = []", 'wait = "NOOP"'), ["actions.wait", '"NOOP"', "[] is an action that presses nothing"]),
        (("wait = []", 'wait = ["USE", "USE"]'), ["actions.wait", "['USE', 'USE']", "once"]),
        (("Hit points:", "Hit {health}:"), ["text.words.health", "Hit {health}:", "braces"]),
        (('"imp"', '"imp}"'), ["text.names.DoomImp", "imp}", "braces"]),
        (("Hit points:", "Hit\\npoints:"), ["text.words.health", "one line"]),
        (("[text]\n", '[text]\ndescribe = "textwrap:indent"\n'), ["text.monsters", "describe"]),
        (("oracle = 9", "oracle = 2.5"), ["baselines.oracle", '"2.5"', "random"]),
        (("oracle = 9", "oracle = -1"), ["baselines.oracle", '"-1"', "kills", "0 or above"]),
        (('metric = "kills"', 'metric = "goal"'), ["baselines.random", '"2.5"', "goal", "from 0 to 1"]),
        (('metric = "kills"', 'metric = "kills"\nunit = "heads"'), ["unit", "heads", "kills has its own"]),
        (('monsters = ["MarineChainsaw"]', 'monsters = [""]'), ["monsters", "names of classes"]),
        (('["MarineChainsaw"]', '["Orc"]\nitems = ["Orc"]'), ["items", '"Orc"', "in monsters"]),
        (("at_least = 1", "at_least = 1\nbelow = 1"), ["teacher[3].at_least", '"1"', "below 1"]),
        (('see = "monster"\n', 'see = "monster"\nunseen = "monster"\n'), ["teacher[1].unseen", "monster"]),
        (("[[teacher]]\n", '[[teacher]]\ndo = "wait"\n\n[[teacher]]\n'), ["teacher", "rule 1", "reached"]),
        (('name = "my_line"', "name = "), ["not TOML"]),
    ],
)
def test_what_is_wrong_is_one_line_with_file_key_value_and_choices(
    tmp_path: Path, change: tuple[str, str], named: list[str]
) -> None:
    path = write_line(tmp_path, change)
    with pytest.raises(UsageError) as caught:
        read_scenario(path)
    said = str(caught.value)
    assert "\n" not in said
    assert [word for word in ["line.toml", *named] if word not in said] == []


def test_the_mean_of_a_teacher_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = write_line(tmp_path)
    head, _, tail = path.read_text().partition("[[teacher]]")
    path.write_text(f"{head}[baselines]{tail.partition('[baselines]')[2]}")
    with pytest.raises(UsageError, match=r'line\.toml: baselines\.oracle is "9": .* there is none'):
        read_scenario(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r'scenario file ".*absent\.toml": No such file'):
        read_scenario(tmp_path / "absent.toml")
