"""Whose rows a folder holds: of one run, or of several that were merged (`rollouts export --format merge`).

A merged set lies on disk as a run does, with `merged.json` in place of `run.json`: the records of its runs. Its
episodes are told apart by (run id, episode id), every row of it counts, and nobody plays or grades it on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rollouts.errors import UsageError
from rollouts.run.run_folder import RunFolder

MERGED = "merged.json"
MERGED_VERSION = 1


@dataclass(frozen=True)
class Origin:
    """`records`: run id → its run.json."""

    records: Mapping[str, Mapping[str, Any]]
    merged: bool = False


def read_origin(folder: RunFolder) -> Origin:
    """Errors: `UsageError` where there is neither, or it cannot be read; `StorageError`."""
    try:
        told = json.loads(folder.storage.read_bytes(folder.path(MERGED)))
    except FileNotFoundError:
        record = folder.read_record()
        return Origin({str(record.get("run_id", folder.run_id)): record})
    except ValueError as error:
        raise UsageError(f"{folder.describe(MERGED)} is not JSON: {error}") from error
    if (version := told.get("merged_version")) != MERGED_VERSION:
        raise UsageError(f"{folder.describe(MERGED)} has merged_version {version}: only {MERGED_VERSION} can be read")
    return Origin(told["runs"], merged=True)


def merged_record(records: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The text of `merged.json`."""
    told = {"merged_version": MERGED_VERSION, "runs": dict(records)}
    return f"{json.dumps(told, indent=1, ensure_ascii=False)}\n".encode("utf-8", "backslashreplace")
