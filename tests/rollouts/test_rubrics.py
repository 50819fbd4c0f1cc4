import hashlib

import pytest

from rollouts.rubrics import RUBRICS, bare, both
from rollouts.scenarios.registry import SCENARIOS
from rollouts.scenarios.scenario import Scenario

TAUGHT = [scenario for scenario in SCENARIOS.values() if scenario.teacher is not None]


@pytest.mark.parametrize("scenario", TAUGHT, ids=lambda s: s.name)
def test_every_mode_names_every_action_and_only_rule_tells_the_rule(scenario: Scenario) -> None:
    assert tuple(scenario.instructions) == RUBRICS
    rule, of_bare = (scenario.instructions[mode] for mode in RUBRICS)
    criteria = [line for line in rule.splitlines() if line.startswith("- ")]
    assert [line.removeprefix("- ").partition(": ")[0] for line in criteria] == list(scenario.options)
    assert of_bare.endswith(f"The actions are: {', '.join(scenario.options)}.")
    assert "choose by this rule" in rule
    assert "rule" not in of_bare


def test_without_a_teacher_there_is_no_rule_to_tell() -> None:
    assert [s.name for s in SCENARIOS.values() if "rule" not in s.instructions] == ["predict_position"]
    assert [s.name for s in SCENARIOS.values() if s.teacher is None] == ["predict_position"]


@pytest.mark.parametrize(
    ("scenario", "mode", "sha256"),
    [
        ("defend_the_center", "rule", "65a1ee738d670687"),
        ("defend_the_center", "bare", "b10b65fde481acca"),
        ("health_gathering", "rule", "ffba2b0ee1119273"),
        ("health_gathering", "bare", "ebe507a0e7b395e5"),
    ],
)
def test_the_published_texts_are_as_they_were(scenario: str, mode: str, sha256: str) -> None:
    text = SCENARIOS[scenario].instructions[mode]
    assert hashlib.sha256(text.encode()).hexdigest().startswith(sha256)


def test_both_texts_share_the_story() -> None:
    texts = both("A story.", "Look only at the door", {"open": "it is shut.", "wait": "it is open."})
    assert texts == {
        "rule": "A story.\nLook only at the door and choose by this rule:\n- open: it is shut.\n- wait: it is open.",
        "bare": "A story.\nThe actions are: open, wait.",
    }
    assert bare("A story.", ("open", "wait")) == {"bare": texts["bare"]}
