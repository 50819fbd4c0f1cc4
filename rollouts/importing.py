"""Imports what a user names as `module:Attribute`, from the installed packages or the current folder."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

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


OUR_PACKAGES = ("rollouts", "grading", "actors")
OUR_ROOT = Path(__file__).resolve().parents[1]


def refuse_shadows(folders: Iterable[str | Path]) -> None:
    """Errors: `UsageError` where a package or module in one of `folders` has the name of one of ours: there, or on
    workers that look there first, it would be imported in the place of ours. A folder without an `__init__.py` is none.
    """
    for folder in map(Path, folders):
        for name in OUR_PACKAGES:
            for found in (folder / name / "__init__.py", folder / f"{name}.py"):
                if found.is_file() and found.resolve().parents[found.name == "__init__.py"] != OUR_ROOT:
                    theirs = found.parent if found.name == "__init__.py" else found
                    raise UsageError(
                        f"{theirs.absolute()} hides our own package {name!r} from Python: rename it, or work in "
                        "another folder"
                    )


EXTRAS = {"torch": "torch", "safetensors": "torch", "onnxruntime": "onnx", "transformers": "transformers"}


def _cannot(spec: str, what: str, module: str, error: BaseException, choices: str) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    advice = f"pip install 'doom-rollouts[{EXTRAS[missing]}]'" if missing in EXTRAS else choices
    return f"{what} {spec!r}: cannot import {module!r} ({describe_error(error)}); {advice}"
