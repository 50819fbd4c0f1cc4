import pytest

from rollouts.errors import ScenarioError
from rollouts.records import DepthBands, Snapshot, Thing, ThingKind
from rollouts.scenarios.registry import SCENARIOS
from rollouts.scenarios.rules import Rule, Rules, towards

MEDIKIT_AHEAD = Thing("Medikit", "item", 0.5, 0.9)
DEMON_AHEAD = Thing("Demon", "monster", 0.5, 0.9)


def seeing(kind: ThingKind, *centres: float) -> Snapshot:
    name = "Demon" if kind == "monster" else "Medikit"
    return Snapshot(0, things=tuple(Thing(name, kind, cx, 0.3) for cx in centres))


def teach(scenario: str, snapshot: Snapshot) -> str:
    teacher = SCENARIOS[scenario].teacher
    assert teacher is not None
    return teacher(snapshot)


@pytest.mark.parametrize(
    ("snapshot", "action"),
    [
        (Snapshot(0), "turn left"),
        (Snapshot(0, things=(MEDIKIT_AHEAD,)), "turn left"),
        (seeing("monster", 0.5), "attack"),
        (seeing("monster", 0.3), "turn left"),
        (seeing("monster", 0.1), "turn left"),
        (seeing("monster", 0.7), "turn right"),
        (seeing("monster", 0.9), "turn right"),
        (seeing("monster", 0.9, 0.5), "turn right"),
    ],
)
def test_defend_the_center_follows_its_published_rule(snapshot: Snapshot, action: str) -> None:
    assert teach("defend_the_center", snapshot) == action


@pytest.mark.parametrize(
    ("snapshot", "action"),
    [
        (Snapshot(0), "turn right"),
        (Snapshot(0, things=(DEMON_AHEAD,)), "turn right"),
        (seeing("item", 0.44), "move forward"),
        (seeing("item", 0.43), "turn left"),
        (seeing("item", 0.0), "turn left"),
        (seeing("item", 0.57), "turn right"),
        (seeing("item", 1.0), "turn right"),
        (seeing("item", 0.1, 0.5), "turn left"),
    ],
)
def test_health_gathering_follows_its_published_rule(snapshot: Snapshot, action: str) -> None:
    assert teach("health_gathering", snapshot) == action


def moving(speed_to_the_left: float, left: float = 60, right: float = 60) -> Snapshot:
    return Snapshot(0, depth=DepthBands(left, 60, right), variables={"VELOCITY_Y": speed_to_the_left})


@pytest.mark.parametrize(
    ("snapshot", "action"),
    [
        (moving(0.0), "move left"),
        (moving(7.5), "move left"),
        (moving(-7.5), "move right"),
        (moving(7.5, left=23), "move right"),
        (moving(-7.5, right=5), "move left"),
        (moving(7.5, left=24), "move left"),
    ],
)
def test_take_cover_keeps_moving_until_a_wall_is_near(snapshot: Snapshot, action: str) -> None:
    assert teach("take_cover", snapshot) == action


@pytest.mark.parametrize(
    ("rule", "fits"),
    [
        (Rule("go"), True),
        (Rule("go", see="monster"), True),
        (Rule("go", see="Demon"), True),
        (Rule("go", see="item"), False),
        (Rule("go", unseen="item"), True),
        (Rule("go", unseen="Demon"), False),
        (Rule("go", see="monster", where=("centre",)), False),
        (Rule("go", see="monster", where=("left", "far left")), True),
        (Rule("go", see="monster", near=("close",)), True),
        (Rule("go", see="monster", near=("point blank", "far")), False),
        (Rule("go", ahead=("open",)), True),
        (Rule("go", left=("wall near",)), False),
        (Rule("go", left=("wall directly ahead",), right=("some room",)), True),
        (Rule("go", variable="health", below=20), False),
        (Rule("go", variable="health", below=20.5), True),
        (Rule("go", variable="health", at_least=20), True),
        (Rule("go", variable="health", at_least=20, below=20), False),
        (Rule("go", variable="ARMOR", at_least=7), True),
        (Rule("go", variable="kills", at_least=0), False),
        (Rule("go", see="monster", variable="health", below=5), False),
    ],
)
def test_a_rule_fits_when_all_that_it_names_holds(rule: Rule, fits: bool) -> None:
    demons = (Thing("Demon", "monster", 0.3, 0.3), Thing("Demon", "monster", 0.5, 0.1))
    seen = Snapshot(0, health=20, things=demons, depth=DepthBands(5, 60, 30), variables={"ARMOR": 7.0})
    assert rule.fits(seen) is fits


def test_without_a_depth_buffer_no_rule_about_room_fits() -> None:
    assert Rule("go", ahead=("open",)).fits(Snapshot(0)) is False


def test_the_first_rule_that_fits_decides() -> None:
    rules = Rules((Rule("hide", variable="health", below=30), *towards("monster", "attack"), Rule("wait")))
    assert rules(Snapshot(0, health=10, things=(DEMON_AHEAD,))) == "hide"
    assert rules(Snapshot(0, health=30, things=(DEMON_AHEAD,))) == "attack"
    assert rules(Snapshot(0, health=30)) == "wait"


@pytest.mark.parametrize("rules", [(), (Rule("go", see="monster"),), (Rule("wait"), Rule("go", ahead=("open",)))])
def test_rules_that_leave_anything_open_are_refused(rules: tuple[Rule, ...]) -> None:
    with pytest.raises(ScenarioError, match="last rule must fit always"):
        Rules(rules)
