"""`rollouts status`: how far is a run?"""

from __future__ import annotations

import json
from typing import Annotated

from cyclopts import Parameter

from grading.evidence import SECTION, make_section, weights_of
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.grading_table import grading_lines
from rollouts.evidence.status import log_lines, read_status, status_lines
from rollouts.run.location import find_run


def status(run: str, /, *, as_json: Annotated[bool, Parameter(name="--json", negative=())] = False) -> int:
    """Say how far a run is, from its folder alone: while it goes on, from any machine, and long after.

    Parameters
    ----------
    run
        The run's folder: a path, a URI, or its id alone under ./runs.
    as_json
        One JSON object.
    """
    found = read_status(find_run(run))
    told = found.manifest.get(SECTION) if found.run is None else None
    grading = told or make_section(found.run or CommittedRun.open(found.folder), weights_of(found.manifest))
    if as_json:
        print(json.dumps({**found.as_dict(), SECTION: grading}))
    else:
        print(*status_lines(found), *grading_lines({SECTION: grading}), *log_lines(found), sep="\n")
    return 0
