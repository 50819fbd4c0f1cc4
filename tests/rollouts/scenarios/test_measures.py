import pytest

from rollouts.records import Snapshot
from rollouts.scenarios.measures import METRICS
from rollouts.scenarios.scenario import Outcome

LAST = Snapshot(0, health=37, kills=4)


@pytest.mark.parametrize(
    ("name", "outcome", "value"),
    [
        ("kills", Outcome(-3.0, "death"), 4),
        ("health", Outcome(-3.0, "death"), 37),
        ("survival_s", Outcome(-3.0, "death"), 8),
        ("reward", Outcome(-3.5, "death"), -3.5),
        ("goal", Outcome(-3.0, "goal"), 1),
        ("goal", Outcome(99.0, "timeout"), 0),
        ("goal", Outcome(99.0, "death"), 0),
        ("goal", Outcome(0.0, None), 0),
        ("success", Outcome(0.93, "goal"), 1),
        ("success", Outcome(-0.07, "goal"), 0),
    ],
)
def test_each_measures_what_it_says(name: str, outcome: Outcome, value: float) -> None:
    """70 decisions of 4 tics are 8 seconds of 35."""
    assert METRICS[name].value(LAST, 70, 4, outcome) == value


def test_counters_that_a_scenario_lacks_count_nothing() -> None:
    assert [METRICS[name].value(Snapshot(0), 1, 4, Outcome(0.0, None)) for name in ("kills", "health")] == [0, 0]
