"""What a run was and what is on file of it, as texts: the report's last section."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rollouts.report.grid import Table
from rollouts.report.reported_run import ReportedRun

_SHARDS_NAMED = 50


def run_facts(run: ReportedRun) -> str:
    """One line under the title."""
    coverage = run.manifest["coverage"]
    decisions = sum(block["n_decisions"] for block in run.manifest["results"])
    more = "".join(f", {coverage[key]:,} {key}" for key in ("failed", "owed") if coverage[key])
    state = f"{run.status.state}{f' ({run.status.cause})' if run.status.cause else ''}"
    done = f"{coverage['completed']:,} of {coverage['planned']:,} episodes completed"
    return f"{state}: {done}{more}; {decisions:,} decisions"


def evidence(run: ReportedRun) -> Iterator[tuple[str, str]]:
    """Name and value."""
    manifest = run.manifest
    yield "run", run.run_id
    yield "where", str(manifest["location"])
    yield "state", run.status.state
    yield "started", str(manifest["started_at"])
    yield "evidence written", str(manifest["written_at"])
    yield "source", _source(manifest["source"])
    yield "engine", f"{manifest['engine']['name']} {manifest['engine']['version']}"
    yield "versions", ", ".join(f"{name} {version or '-'}" for name, version in manifest["versions"].items())
    yield "identity", f"sha256 {manifest['identity_sha256']}"
    yield "check it", f"rollouts verify {manifest['location']}"


def _source(source: Mapping[str, Any]) -> str:
    if not source["revision"]:
        return "outside a checkout"
    return f"{source['revision']}{' with local changes' if source['dirty'] else ''}"


def evidence_tables(run: ReportedRun) -> list[Table]:
    """Who played what, and the tables on file."""
    return [_scenarios(run), _policies(run), _on_file(run)]


def _scenarios(run: ReportedRun) -> Table:
    headings = ("scenario", "metric", "actions", "seeds", "hashes (sha256)", "tics", "step cap")
    return Table("Scenarios", headings, [_scenario(run, name) for name in run.manifest["scenarios"]], 5)


def _scenario(run: ReportedRun, name: str) -> tuple[str, ...]:
    facts = run.manifest["scenarios"][name]
    blocks = [block for block in run.manifest["results"] if block["scenario"] == name]
    published = all(block["seeds_published"] for block in blocks)
    seeds = f"{len(blocks[0]['seeds']):,}{' (the published ones)' if published else ''}" if blocks else "-"
    hashes = [
        f"{key.removesuffix('_sha256')} {value[:12]}…"
        for key, value in facts["provenance"].items()
        if key.endswith("_sha256")
    ]
    metric = facts["metric"]
    cells = (name, f"{metric['name']} ({metric['unit']})", ", ".join(facts["options"]), seeds, ", ".join(hashes) or "-")
    return (*cells, str(facts["tics"]), str(facts["step_cap"]))


def _policies(run: ReportedRun) -> Table:
    headings = ("policy", "kind", "model", "provider", "checkpoint", "note")
    rows = [
        (name, *(str(described.get(key) or "-") for key in ("kind", "model", "provider", "checkpoint_hash", "note")))
        for name, described in run.manifest["policies"].items()
    ]
    return Table("Policies", headings, rows, len(headings))


def _on_file(run: ReportedRun) -> Table:
    rows = [
        (
            name,
            f"{len(table['shards']):,}",
            f"{table['rows']:,}",
            f"{sum(shard['bytes'] for shard in table['shards']):,}",
        )
        for name, table in run.manifest["tables"].items()
    ]
    return Table("Tables on file", ("table", "shards", "rows", "bytes"), rows, 1)


def evidence_details(run: ReportedRun) -> Iterator[tuple[str, str]]:
    """Longer texts, each under a title."""
    manifest = run.manifest
    yield "Configuration", _json(manifest["configuration"])
    yield "Identity", _json(manifest["identity"])
    for scenario, facts in manifest["scenarios"].items():
        for rubric, instructions in facts["instructions"].items():
            yield f"Instructions: {scenario}, {rubric}", instructions
    yield "Shards", "\n".join(_shards(manifest["tables"]))


def _shards(tables: Mapping[str, Any]) -> Iterator[str]:
    for name, table in tables.items():
        for shard in table["shards"][:_SHARDS_NAMED]:
            yield f"{name}/{shard['name']}  {shard['rows']:,} rows  {shard['bytes']:,} bytes  sha256 {shard['sha256']}"
        if (more := len(table["shards"]) - _SHARDS_NAMED) > 0:
            yield f"{name}: {more:,} more in manifest.json"


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)
