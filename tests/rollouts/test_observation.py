import pytest

from rollouts.observation import StateText, clearance, distance, nearest, position
from rollouts.records import DepthBands, Snapshot, Thing
from rollouts.scenarios.registry import SCENARIOS

DEMON = Thing("Demon", "monster", cx=0.5, size=0.3)
MEDIKIT = Thing("Medikit", "item", cx=0.1, size=0.05)
describe_center = SCENARIOS["defend_the_center"].describe
describe_gathering = SCENARIOS["health_gathering"].describe


@pytest.mark.parametrize(
    ("cx", "bucket"),
    [
        (0.0, "far left"),
        (0.199, "far left"),
        (0.20, "left"),
        (0.439, "left"),
        (0.44, "centre"),
        (0.56, "centre"),
        (0.561, "right"),
        (0.80, "right"),
        (0.801, "far right"),
        (1.0, "far right"),
    ],
)
def test_positions_have_the_published_bounds(cx: float, bucket: str) -> None:
    assert position(cx) == bucket


@pytest.mark.parametrize(
    ("size", "bucket"),
    [(0.451, "point blank"), (0.45, "close"), (0.251, "close"), (0.25, "medium"), (0.121, "medium"), (0.12, "far")],
)
def test_distances_have_the_published_bounds(size: float, bucket: str) -> None:
    assert distance(size) == bucket


@pytest.mark.parametrize(
    ("depth", "bucket"),
    [
        (11.5, "wall directly ahead"),
        (12, "wall near"),
        (23.5, "wall near"),
        (24, "some room"),
        (44.5, "some room"),
        (45, "open"),
    ],
)
def test_clearances_have_the_published_bounds(depth: float, bucket: str) -> None:
    assert clearance(depth) == bucket


def test_nearest_is_the_first_of_its_kind_or_name() -> None:
    snapshot = Snapshot(0, things=(MEDIKIT, DEMON, Thing("Demon", "monster", 0.9, 0.1)))
    assert nearest(snapshot, "monster") == nearest(snapshot, "Demon") == DEMON
    assert nearest(Snapshot(0, things=(MEDIKIT,)), "monster") is None


def test_defend_the_center_says_every_fact_once() -> None:
    snapshot = Snapshot(8, health=97, ammo=26, kills=3, things=(DEMON, MEDIKIT))
    assert describe_center(snapshot, "turn left") == (
        "The nearest monster is a Demon: centre, on the crosshair; range close. "
        "Health is 97. Ammo is 26. Kills so far: 3. The previous action was turn left."
    )


def test_defend_the_center_without_monsters_says_so_and_has_no_previous_action_at_first() -> None:
    text = describe_center(Snapshot(0, health=100, ammo=26, kills=0, things=(MEDIKIT,)), None)
    assert text == "No monster is visible. Health is 100. Ammo is 26. Kills so far: 0."


def test_at_most_three_monsters_are_named() -> None:
    text = describe_center(Snapshot(0, health=1, ammo=1, kills=0, things=(DEMON,) * 5), None)
    assert text.count("Demon") == 3
    assert "The third nearest monster" in text


def test_health_gathering_names_two_items_and_three_depth_bands() -> None:
    snapshot = Snapshot(0, health=44, things=(DEMON, *(MEDIKIT,) * 3), depth=DepthBands(5, 30, 100))
    assert describe_gathering(snapshot, None) == (
        "The nearest item is a Medikit: far left; range far. The second nearest item is a Medikit: far left; "
        "range far. To the left: wall directly ahead. Ahead: some room. To the right: open. Health is 44."
    )


def test_health_gathering_without_items_says_so() -> None:
    assert describe_gathering(Snapshot(0, health=44), None) == "No item is visible. Health is 44."


def test_a_scenario_can_use_names_and_words_of_its_own() -> None:
    text = StateText(
        things=(("monster", 1), ("projectile", 1)),
        variables=("health", "ARMOR", "POSITION_X", "ammo"),
        names={"Demon": "ogre"},
        words={"monster": "foe", "projectile": "missile", "centre": "straight ahead", "health": "Hit points:"},
    )
    seen = Snapshot(0, health=9, things=(DEMON,), variables={"ARMOR": 50.0, "POSITION_X": 1.25})
    assert text(seen, None) == (
        "The nearest foe is an ogre: straight ahead; range close. No missile is visible. "
        "Hit points: 9. ARMOR is 50. POSITION_X is 1.25."
    )


def test_an_unknown_value_is_left_out_not_made_up() -> None:
    assert StateText(things=(), variables=("ammo", "kills"))(Snapshot(0, kills=2), None) == "Kills so far: 2."
