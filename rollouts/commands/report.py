"""`rollouts report`: what came of runs, as a page that people open."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from grading.evidence import SECTION, grading_section, weights_of
from grading.grade import Weights
from grading.judgements import judgements
from rollouts.commands.ending import current_manifest
from rollouts.errors import UsageError
from rollouts.evidence.committed_run import CommittedRun
from rollouts.evidence.manifest import make_manifest, read_manifest
from rollouts.run.location import find_run

PACKAGES = ("jinja2", "matplotlib", "scipy")
MEGABYTE = 1_000_000
LARGEST_MB = 25.0


def report(
    *runs: str,
    out: Path | None = None,
    max_mb: Annotated[float, Parameter(allow_leading_hyphen=True)] = LARGEST_MB,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Make one HTML file of runs that needs nothing else: results, plots, evidence, and a player of their episodes.

    Beside it come the plots as SVG and PNG, and a summary in Markdown. Episodes that failed, disagreements and answers
    that were none are there first; what finds no place any more is counted.

    Parameters
    ----------
    runs
        Folders of runs: paths, URIs, or ids alone under ./runs.
    out
        The HTML file; report.html in the run's folder where there is one run.
    max_mb
        Megabytes that the file may have.
    as_json
        One JSON object.
    """
    _check(runs, out, max_mb)
    from rollouts.report.reported_run import read_run  # noqa: PLC0415  an extra
    from rollouts.report.writing import Place, write_report  # noqa: PLC0415  an extra

    folders = [find_run(run) for run in runs]
    place = Place(folders[0].storage, folders[0].path()) if out is None else Place.at(out)
    place.storage.check_writable(place.folder)
    read = [read_run(folder, _manifest, _judge) for folder in folders]
    written = write_report(read, place, int(max_mb * MEGABYTE))
    if as_json:
        print(json.dumps(written.as_dict()))
    else:
        print(f"{written.page} ({written.page_bytes / MEGABYTE:.1f} MB)", written.markdown, sep="\n")
        print(f"{len(written.plots)} files of plots beside them", *written.left_out, sep="\n")
    return 0


def _check(runs: tuple[str, ...], out: Path | None, max_mb: float) -> None:
    """Errors: `UsageError`."""
    if not runs:
        raise UsageError("no run is named: give the folder of a run, or several")
    named = [find_run(run).describe() for run in runs]
    if twice := next((name for name in named if named.count(name) > 1), None):
        raise UsageError(f"the run {twice} is named twice")
    if len(runs) > 1 and out is None:
        raise UsageError("a report of several runs lies in none of them: give --out FILE.html")
    if not math.isfinite(max_mb) or max_mb <= 0:
        raise UsageError(f"--max-mb is {max_mb:g}: must be above 0")
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    if missing:
        raise UsageError(f"a report needs {', '.join(missing)}: pip install 'doom-rollouts[report]'")


def _manifest(run: CommittedRun) -> Mapping[str, Any]:
    """As it is on file where that is up to date; of a run that goes on, made anew and not written."""
    return current_manifest(run.folder, None) or make_manifest(run, {SECTION: grading_section(_weights(run))})


def _judge(run: CommittedRun) -> Any:
    return judgements(run, _weights(run))


def _weights(run: CommittedRun) -> Weights:
    try:
        return weights_of(read_manifest(run) or {})
    except ValueError:
        return Weights()
