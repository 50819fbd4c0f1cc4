import pytest

from rollouts.records import Snapshot, Thing
from rollouts.rubrics import RUBRICS, teach_defend_the_center, teach_health_gathering
from rollouts.scenarios import SCENARIOS, Scenario

MEDIKIT_AHEAD = Thing("Medikit", "item", 0.5, 0.9)
DEMON_AHEAD = Thing("Demon", "monster", 0.5, 0.9)


def seeing(kind: str, *centres: float) -> Snapshot:
    name = "Demon" if kind == "monster" else "Medikit"
    return Snapshot(0, things=tuple(Thing(name, kind, cx, 0.3) for cx in centres))  # type: ignore[arg-type]


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
def test_defend_the_center_follows_its_rule(snapshot: Snapshot, action: str) -> None:
    assert teach_defend_the_center(snapshot) == action


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
def test_health_gathering_follows_its_rule(snapshot: Snapshot, action: str) -> None:
    assert teach_health_gathering(snapshot) == action


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda s: s.name)
def test_every_mode_names_every_action_and_only_rule_tells_the_rule(scenario: Scenario) -> None:
    assert tuple(scenario.instructions) == RUBRICS
    rule, bare = (scenario.instructions[mode] for mode in RUBRICS)
    for option in scenario.options:
        assert f"- {option}: " in rule
        assert option in bare
    assert "nearest" in rule
    assert "nearest" not in bare
