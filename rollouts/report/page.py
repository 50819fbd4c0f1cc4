"""The page: one HTML file without a reference to anything outside it.

What a run holds is text from outside. It is escaped wherever it stands, its JSON has no character that HTML could read,
and the Content-Security-Policy lets no script run but this page's own, by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from rollouts.report.embedding import Embedded
from rollouts.report.evidence_texts import evidence, evidence_details, evidence_tables, run_facts
from rollouts.report.report import Report
from rollouts.report.reported_run import ReportedRun
from rollouts.report.tables import (
    card_lines,
    card_tables,
    failure_table,
    grade_tables,
    judge_lines,
    result_notes,
    result_tables,
    warnings_of,
)

SCRIPTS = ("dom", "data", "filters", "list", "charts", "decision", "verdicts", "player", "main")
"""In this order they become one script."""
_FOOTER = "Made by doom-rollouts from committed rows. This file asks for nothing outside itself."
_NEVER_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def render_page(report: Report, embedded: Embedded) -> str:
    """The whole file."""
    runs = report.runs
    files = resources.files("rollouts.report") / "page"
    script = _script(files)
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (files / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        title=report.title,
        style=Markup((files / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=_hash(script),
        runs=[_of_run(run) for run in runs],
        warnings=warnings_of(runs),
        tables=result_tables(report.lines),
        notes=result_notes(runs),
        failures=failure_table(runs),
        plots=report.plots,
        graders=grade_tables(runs, report.lines),
        grading_lines=judge_lines(runs),
        card_tables=card_tables(runs),
        card_lines=card_lines(runs),
        left_out=embedded.left_out,
        index=script_json(embedded.index),
        parts=embedded.parts,
        footer=_FOOTER,
    )


def script_json(value: Any) -> str:
    """JSON that may stand in a script element: no `</script>`, no `<!--`, whatever the strings say; all ASCII."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_NEVER_IN_HTML)


def _of_run(run: ReportedRun) -> dict[str, Any]:
    return {
        "id": run.run_id,
        "facts": run_facts(run),
        "evidence": list(evidence(run)),
        "tables": evidence_tables(run),
        "texts": list(evidence_details(run)),
    }


def _script(files: Any) -> str:
    """One classic script whose names are its own."""
    parts = [(files / "js" / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS]
    return "\n".join(['(() => {\n"use strict";', *parts, "})();\n"])


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
