"""`rollouts scenarios`: what can be played, and how to name it."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any

from cyclopts import Parameter
from rich import box
from rich.table import Table

from rollouts.commands.console import wide_console
from rollouts.scenarios.registry import PUBLISHED_SCENARIOS, SCENARIOS
from rollouts.scenarios.scenario import Baselines, Scenario


def scenarios(*, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False) -> int:
    """List the scenarios with their actions, seeds, metric, and what random and the teacher come out at.

    Parameters
    ----------
    as_json
        One JSON line a scenario.
    """
    if as_json:
        for scenario in SCENARIOS.values():
            print(json.dumps(_told(scenario)))
    else:
        wide_console().print(_table())
    return 0


def _told(scenario: Scenario) -> dict[str, Any]:
    baselines = scenario.baselines
    return {
        "scenario": scenario.name,
        "metric": {"name": scenario.metric.name, "unit": scenario.metric.unit},
        "actions": list(scenario.options),
        "rubrics": list(scenario.instructions),
        "seeds": list(scenario.seeds),
        "tics": scenario.tics,
        "step_cap": scenario.step_cap,
        "has_teacher": scenario.teacher is not None,
        "published": scenario.name in PUBLISHED_SCENARIOS,
        "baselines": None if baselines is None else {"random": baselines.random, "oracle": baselines.oracle},
    }


def _table() -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("scenario", no_wrap=True)
    for heading in ("actions", "seeds", "step cap", "metric", "random", "oracle"):
        table.add_column(heading)
    for scenario in SCENARIOS.values():
        baselines = scenario.baselines or Baselines(math.nan)
        table.add_row(
            scenario.name,
            ", ".join(scenario.options),
            f"{scenario.seeds[0]} … {scenario.seeds[-1]} ({len(scenario.seeds)})" if scenario.seeds else "-",
            str(scenario.step_cap),
            scenario.metric.name,
            *(_number(baselines.random), _number(baselines.oracle)),
        )
    return table


def _number(mean: float | None) -> str:
    return "-" if mean is None or math.isnan(mean) else f"{mean:.5g}"
