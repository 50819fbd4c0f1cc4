"""What lies beside samples: `README.md`, a card whose head `datasets` reads, and `export.json`, where they are from.

`export.json` names the runs with the hashes of the shards that were read, the filters, how many rows became samples and
why the others did not, and every file with its hash. But for its clock and versions, equal exports are equal.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rollouts.evidence.card import code, plain
from rollouts.loading.committed import OpenRun
from rollouts.provenance import package_versions, source_revision

PROVENANCE = "export.json"
EXPORT_VERSION = 1
CARD = "README.md"
_HEADS = {
    "sft": ("data/*.{kind}", "`messages` ends with the teacher's action; TRL's `SFTTrainer` reads it as it is."),
    "preference": (
        "data/*.{kind}",
        "`chosen` is the teacher's action and `rejected` the policy's own, where they differ; TRL's `DPOTrainer` reads "
        "it as it is.",
    ),
    "webdataset": ("*.tar", "A sample is a picture and `json`, the rest of its row; keys are numbers."),
    "lerobot": (
        "data/*/*.parquet",
        '`LeRobotDataset("any/name", root=FOLDER)` opens it. `action` is what was sent, 1 for the option chosen.',
    ),
    "merge": ("", "Rows of several runs as they are, told apart by `run_id`; nothing in here was played again later."),
}
"""Form → the glob of its files, and what they are."""
_TABLES = ("steps", "episodes", "grades", "summaries", "credit", "calls", "feedback")
_WEIGHT = "`weight` is the credit of the decision as it was played, in [-1, 1]; rows without credit are left out."


def provenance(told: Mapping[str, Any], runs: Sequence[OpenRun], folder: Path) -> dict[str, Any]:
    """What `export.json` says of an export of `runs` whose files lie in `folder`. `told`: form, settings, counts."""
    return {
        "export_version": EXPORT_VERSION,
        **told,
        "runs": [_run(run) for run in runs],
        "files": [_file(path, folder) for path in sorted(folder.rglob("*")) if path.is_file()],
        "written_at": datetime.now(UTC).isoformat(),
        "written_by": {"source": dataclasses.asdict(source_revision()), "versions": package_versions()},
    }


def write_beside(told: Mapping[str, Any], runs: Sequence[OpenRun], folder: Path) -> None:
    """Put card and provenance beside the finished files of an export."""
    (folder / CARD).write_text(card(told, runs, folder), encoding="utf-8", errors="replace")
    text = json.dumps(provenance(told, runs, folder), indent=1, ensure_ascii=False)
    (folder / PROVENANCE).write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")


def card(told: Mapping[str, Any], runs: Sequence[OpenRun], folder: Path) -> str:
    """The whole of `README.md`."""
    glob, says = _HEADS[told["format"]]
    weight = f" {_WEIGHT}" if told["settings"].get("credit") else ""
    sections = (
        _front_matter(told, glob, folder),
        f"# {plain(told['format'])} of {', '.join(plain(run_id) for run in runs for run_id in run.origin.records)}",
        f"{says}{weight}",
        _whose(runs),
        _counts(told),
        f"Made by doom-rollouts; `{PROVENANCE}` has the runs, their shards and hashes, and the settings.",
    )
    return "\n\n".join(sections) + "\n"


def _front_matter(told: Mapping[str, Any], glob: str, folder: Path) -> str:
    globs = {"default": glob.format(kind=told["settings"].get("files"))} if glob else _table_globs(folder)
    lines = ["---", "configs:"]
    for name, pattern in globs.items():
        lines += [f"- config_name: {json.dumps(name)}", f"  data_files: {json.dumps(pattern)}"]
        lines += ["  default: true"] if name == "steps" else []
    return "\n".join([*lines, "---"])


def _table_globs(folder: Path) -> dict[str, str]:
    """A config for each table that has files: a glob that matches nothing would spoil the others too."""
    there = [name for name in _TABLES if any(folder.glob(f"{name}/**/*.parquet"))]
    return {
        name: f"{name}/*.parquet" if any(folder.glob(f"{name}/*.parquet")) else f"{name}/*/*.parquet" for name in there
    }


def _whose(runs: Iterable[OpenRun]) -> str:
    lines = []
    for run_id, record in ((run_id, record) for run in runs for run_id, record in run.origin.records.items()):
        policies = ", ".join(f"`{code(name)}`" for name in record["policies"])
        games = ", ".join(f"`{code(name)}`" for name in record["scenarios"])
        lines.append(f"- {plain(run_id)}: {games}, played by {policies}")
    return "On-policy rollouts: what one policy saw says nothing about what another would have seen.\n\n" + "\n".join(
        lines
    )


def _counts(told: Mapping[str, Any]) -> str:
    left = told["left_out"]
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in left.items())
    filters = ", ".join(f"{name} {plain(value)}" for name, value in told["filters"].items()) or "none"
    limit = "" if told["limit"] is None else f" It ends after the first {told['limit']:,} samples."
    return f"{told['written']:,} rows; left out: {reasons or 'none'}. Filters: {filters}.{limit}"


def _run(run: OpenRun) -> dict[str, Any]:
    return {
        "run_ids": {run_id: record.get("identity_sha256") for run_id, record in run.origin.records.items()},
        "location": run.name,
        "steps": [dataclasses.asdict(shard) for shard in run.shards],
    }


def _file(path: Path, folder: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.relative_to(folder).as_posix(), "bytes": path.stat().st_size, "sha256": digest}
