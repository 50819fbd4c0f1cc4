"""The dataset card, `README.md` of a run: whose rollouts these are, how to read them, and what the numbers mean.

Its head is YAML that `datasets` reads (a config a table); JSON values are YAML, so nothing needs another library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rollouts.evidence.grading_table import grade_cells, grade_headings, grader_titles, grading_lines
from rollouts.evidence.own_answers import much_not_its_own
from rollouts.evidence.table import coverage_lines, notes, result_cells

HEADINGS = (
    "rubric", "policy", "mean", "sd", "min", "max", "n", "agreement", "Brier", "ECE", "out of schema", "decisions/s",
)  # fmt: skip
_READING = """\
```python
import datasets
steps = datasets.load_dataset("{folder}", "steps", split="train")   # add streaming=True to read as you go
picture = steps[0]["frame"]                                         # a PIL picture, RGB
```

Frames are lossless PNG with a palette where that holds every pixel, so a plain PNG reader may open them in mode `P`,
whose array is palette indices, not colours: convert to RGB (`picture.convert("RGB")`). The column's metadata tells
`datasets` to do so by itself."""
_ROWS = """\
`steps` has a row a decision, of completed episodes only: the state as the policy read it, the frame it saw, the
teacher's action, the policy's own answer (`model_action`) and the action that was sent (`effective_action`). The triple
to train on is (state, frame, teacher_action / effective_action). `acted_by` says who acted: where it was the teacher,
the policy was not asked; where it is null, so is `effective_action`, for the episode was over, in real time, before the
answer came. `episodes` has a row an episode; where an episode has several, the one with the highest `unit` counts.
`terminated` (died, reached the goal) is not `truncated` (time limit, step cap)."""

_GRADES = """\
`grades` has a row a grading: three axes in [-1, 1], never R alone, and an ungraded episode has none. `source` says who
judged: a model (`llm`), people (`explicit`) or a formula (`heuristic`); never pool them. Of an episode's rows by one
`grader_id` and `repeat` the one with the highest `grading` counts. `summaries` has a row a span of decisions; where one
was asked for again, the row with the latest `summarized_at` counts. `credit` has a row a decision of a graded episode
(`value` in [-1, 1], from `grader_id` by `rule`), `calls` a row a call to a model, `feedback` what people wrote."""


def dataset_card(manifest: Mapping[str, Any]) -> str:
    """The whole of `README.md`, in Markdown, from a manifest."""
    sections = (
        _front_matter(manifest["tables"]),
        f"# {plain(manifest['run_id'])}",
        _whose(manifest),
        "## Results",
        *_results(manifest),
        _listed((*map(str, much_not_its_own(manifest)), *coverage_lines(manifest), *notes(manifest))),
        *_grading(manifest),
        "## Reading",
        _READING.format(folder=code(manifest["location"])),
        "## Rows",
        _ROWS,
        "## Making it again",
        _origin(manifest),
    )
    return "\n\n".join(sections) + "\n"


def _front_matter(tables: Mapping[str, Any]) -> str:
    """One config for each table that has files: a glob that matches nothing would spoil the others too.

    A side table has a folder for everybody who made one; a config reads them all, told apart by a column.
    """
    lines = ["---", "configs:"]
    globs = {name.partition("/")[0]: _glob(name) for name, table in tables.items() if table["shards"]}
    for name, glob in globs.items():
        lines += [f"- config_name: {json.dumps(name)}", f"  data_files: {json.dumps(glob)}"]
        lines += ["  default: true"] if name == "steps" else []
    empty = len(lines) == 2
    return "\n".join([*(lines[:1] if empty else lines), "---"])


def _glob(table: str) -> str:
    name, folder, _ = table.partition("/")
    return f"{name}/*/*.parquet" if folder else f"{name}/*.parquet"


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)


def _grading(manifest: Mapping[str, Any]) -> Iterable[str]:
    """Who graded, and what came of it, grader by grader."""
    graders = (manifest.get("grading") or {}).get("graders", ())
    if graders:
        yield "## Grades"
        yield _GRADES
    for grader, title in zip(graders, grader_titles(manifest), strict=True):
        headings = ("scenario", "rubric", "policy", *grade_headings(grader))
        rows = [(g["scenario"], g["rubric"], g["policy"], *grade_cells(g)) for g in grader["groups"]]
        yield f"### {plain(title)}\n\n{markdown_table(headings, rows, texts=3)}"
    if lines := grading_lines(manifest):
        yield _listed(lines)


def _whose(manifest: Mapping[str, Any]) -> str:
    who = "\n".join(f"- {_policy(name, described)}" for name, described in manifest["policies"].items())
    games = ", ".join(f"`{code(name)}`" for name in manifest["scenarios"])
    return (
        f"On-policy rollouts of {games}: every row was played by the policy that its `policy` column names. What one "
        f"policy saw says nothing about what another would have seen.\n\n{who}"
    )


def _policy(name: str, described: Mapping[str, Any]) -> str:
    known = ((key, described.get(key)) for key in ("model", "provider", "checkpoint_hash"))
    facts = [f"{key.replace('_', ' ')} `{code(value)}`" for key, value in known if value]
    text = ", ".join([f"`{code(name)}`: a {described['kind']}", *facts])
    return f"{text}. {plain(described['note'])}" if described.get("note") else text


def _results(manifest: Mapping[str, Any]) -> Iterable[str]:
    lines = list(zip(manifest["results"], manifest["coverage"]["groups"], strict=True))
    for scenario, facts in manifest["scenarios"].items():
        metric = facts["metric"]
        rows = [result_cells(b, c, metric["name"]) for b, c in lines if b["scenario"] == scenario]
        title = f"### {plain(scenario)}: {plain(metric['name'])} ({plain(metric['unit'])})"
        yield f"{title}\n\n{markdown_table(HEADINGS, rows)}"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 2) -> str:
    """A table whose first columns are texts and the others numbers."""
    rule = [*["---"] * texts, *["---:"] * (len(headings) - texts)]
    return "\n".join(f"| {' | '.join(plain(cell) for cell in row)} |" for row in (headings, rule, *rows))


def _origin(manifest: Mapping[str, Any]) -> str:
    source, engine = manifest["source"], manifest["engine"]
    code = f"revision `{source['revision']}`{' with local changes' if source['dirty'] else ''}"
    return (
        f"Made by doom-rollouts, {code if source['revision'] else 'outside a checkout'}, on {plain(engine['name'])} "
        f"{plain(engine['version'])}, started {manifest['started_at']}. `manifest.json` has the whole configuration, "
        "the instructions, and the rows and sha256 of every shard; `rollouts verify` recomputes its numbers."
    )


def plain(text: object) -> str:
    """Text from outside as one line that is no Markdown."""
    line = " ".join(str(text).split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in line)


def code(text: object) -> str:
    """Text from outside, safe between backticks and in a Python string."""
    return " ".join(str(text).split()).replace("`", "'").replace('"', "'").replace("\\", "/")
