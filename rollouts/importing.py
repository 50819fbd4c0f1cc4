"""Imports what a user names as `module:Attribute`, from the installed packages or the current folder."""

from __future__ import annotations

import importlib
import os
import sys

from rollouts.errors import UsageError
from rollouts.scrub import describe_error


def import_object(spec: str, what: str, choices: str) -> object:
    """The object that `module:Attribute` names.

    Raises UsageError: not of that form, no such module or attribute, or the module fails to import.
    """
    module_name, _, attribute = spec.partition(":")
    if not module_name or not attribute:
        raise UsageError(f"unknown {what} {spec!r}; {choices}")
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(
            f"{what} {spec!r}: cannot import {module_name!r} ({describe_error(error)}); {choices}"
        ) from error
    if not hasattr(module, attribute):
        raise UsageError(f"{what} {spec!r}: module {module_name!r} has no {attribute!r}; {choices}")
    found: object = getattr(module, attribute)
    return found
