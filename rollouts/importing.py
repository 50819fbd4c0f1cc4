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
        found: object = getattr(module, attribute)
    except KeyboardInterrupt:
        raise
    except AttributeError as error:
        if error.name != attribute:
            raise UsageError(_cannot(spec, what, module_name, error, choices)) from error
        raise UsageError(f"{what} {spec!r}: module {module_name!r} has no {attribute!r}; {choices}") from error
    except BaseException as error:  # a module may even call sys.exit
        raise UsageError(_cannot(spec, what, module_name, error, choices)) from error
    return found


EXTRAS = {"torch": "torch", "safetensors": "torch", "onnxruntime": "onnx", "transformers": "transformers"}


def _cannot(spec: str, what: str, module: str, error: BaseException, choices: str) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    advice = f"pip install 'doom-rollouts[{EXTRAS[missing]}]'" if missing in EXTRAS else choices
    return f"{what} {spec!r}: cannot import {module!r} ({describe_error(error)}); {advice}"
