"""scipy, where it is wanted and not before: it comes with an extra, and playing does not need it."""

from __future__ import annotations

import importlib
from typing import Any

from rollouts.errors import UsageError


def scipy_stats() -> Any:
    """The module `scipy.stats`. Errors: `UsageError` with what to install."""
    try:
        return importlib.import_module("scipy.stats")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"intervals and tests are computed by scipy, and {error.name} is not installed: "
            "pip install 'doom-rollouts[report]'"
        ) from error
