"""What the folder may not be in which a run is started: one that hides our packages, or a copy that Ray deletes."""

from __future__ import annotations

from pathlib import Path

from rollouts.config import RunConfig
from rollouts.errors import UsageError
from rollouts.importing import refuse_shadows
from rollouts.settings import flag

_COPIES = "working_dir_files"
"""Ray unpacks the working dirs of jobs into folders of this one, and deletes them when they are not used any more."""


def check_workers_see_ours(config: RunConfig) -> None:
    """Ray's workers look into the driver's current folder first. Errors: `UsageError`."""
    if config.pool == "ray":
        refuse_shadows([Path.cwd()])


def check_out_lasts(config: RunConfig) -> None:
    """Errors: `UsageError` where the results of a job would lie in its copy of the working dir."""
    if "://" not in config.out and _COPIES in (place := Path(config.out).absolute()).parts:
        raise UsageError(
            f'{flag("out")} "{config.out}" is {place}, in the copy of the working dir that Ray made for this job and '
            "will delete: give an absolute path that all nodes share, or a URI such as s3://bucket/runs"
        )
