"""`rollouts doctor`: one line a thing that a run needs, and exit 1 if one of them is broken."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from actors.cluster import Cluster, ClusterSettings
from rollouts.config import load_config
from rollouts.doctor import (
    Check,
    Finding,
    check_engine,
    check_output,
    check_shared_memory,
    check_versions,
    examine,
)

_COLOURS = {"ok": "green", "warn": "yellow", "broken": "red"}


def doctor(
    *,
    out: str | None = None,
    address: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Is this machine fit for a run? Starts the engine and Ray, and exits 1 if something is broken.

    Parameters
    ----------
    out
        Where runs would go (runs).
    address
        The Ray cluster that would be joined (none: one on this machine).
    as_json
        One JSON line a check.
    """
    console, broken = Console(), 0
    for finding in examine(_checks(out, address)):
        broken += finding.state == "broken"
        if as_json:
            print(json.dumps(dataclasses.asdict(finding)), flush=True)
        else:
            _tell(finding, console)
    return int(broken > 0)


def _checks(out: str | None, address: str | None) -> Iterator[Check]:
    config = load_config({"out": out, "address": address})
    yield Check("versions", check_versions)
    for scenario in config.resolved():
        yield Check("engine", partial(check_engine, scenario))
    yield Check("output", partial(check_output, config.out))
    yield Check("shared memory", partial(check_shared_memory, config.actors or len(os.sched_getaffinity(0))))
    yield Check("ray", partial(_check_ray, config.address))


def _check_ray(address: str | None) -> str:
    started_s = time.monotonic()
    cluster = Cluster(ClusterSettings(address))
    try:
        nodes = cluster.nodes()
    finally:
        cluster.close()
    cpus, gpus = sum(node.cpus for node in nodes), sum(node.gpus for node in nodes)
    verb = "started here" if cluster.is_own else "joined"
    return f"{verb} in {time.monotonic() - started_s:.1f} s: nodes {len(nodes)}, CPUs {cpus:g}, GPUs {gpus:g}"


def _tell(finding: Finding, console: Console) -> None:
    line = Text.assemble((f"{finding.state:6}", _COLOURS[finding.state]), f" {finding.check}: {finding.detail}")
    console.print(line, soft_wrap=True)
