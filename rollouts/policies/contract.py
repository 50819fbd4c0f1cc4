"""What a class of the user's must offer to be a policy, looked at before anybody plays: one line says what lacks."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from rollouts.errors import UsageError
from rollouts.records import PolicyDescription
from rollouts.scrub import describe_error

ANSWERS = {
    "act": ("snapshot", "text", "options", "instructions"),
    "act_batch": ("questions",),
    "predict_choice": ("text", "options", "instructions"),
}
_NO_ANSWERS = frozenset({"str", "int", "float", "bool", "bytes", "dict"})
_MAY_HAVE = {"reset": ("key", "rng"), "close": (), "check_scenario": ("scenario",)}


def check_class(found: Callable[..., Any], spec: str) -> None:
    """Errors: UsageError where it cannot be made without arguments."""
    if not _takes(found, ()):
        raise UsageError(
            f"policy {spec!r}: its constructor must take no arguments, but it is {found.__name__}{_signature(found)}"
        )


def check_policy_object(made: object, spec: str) -> None:
    """Errors: UsageError for a method that is missing, or that cannot be called as it will be, or a `describe()` that
    does not describe."""
    if not any(callable(getattr(made, name, None)) for name in ANSWERS):
        forms = ", ".join(f"{name}({', '.join(arguments)})" for name, arguments in ANSWERS.items())
        raise UsageError(f"policy {spec!r} has none of {forms}: it needs one of them, beside describe()")
    if not callable(getattr(made, "describe", None)):
        raise UsageError(f"policy {spec!r} has no describe(): it must return a rollouts.records.PolicyDescription")
    for name, arguments in (ANSWERS | _MAY_HAVE | {"describe": ()}).items():
        if callable(method := getattr(made, name, None)):
            _check_method(method, name, arguments, spec)
            if name in ANSWERS:
                _check_promise(method, name, spec)
    if callable(getattr(made, "reset", None)) and not callable(getattr(made, "act", None)):
        raise UsageError(f"policy {spec!r} has reset(key, rng), which only one with act(…) is told: add act")
    _check_description(made, spec)


def _check_method(method: Callable[..., Any], name: str, arguments: tuple[str, ...], spec: str) -> None:
    if inspect.iscoroutinefunction(method):
        raise UsageError(f"policy {spec!r}: {name} is async: it must be a plain function")
    if not _takes(method, arguments):
        raise UsageError(
            f"policy {spec!r}: {name} must take ({', '.join(arguments)}), but it is {name}{_signature(method)}"
        )


def _check_promise(method: Callable[..., Any], name: str, spec: str) -> None:
    """What it says that it returns, where it says so: a type, or a type's name."""
    promised = getattr(method, "__annotations__", {}).get("return")
    told = getattr(promised, "__name__", promised)
    if told in _NO_ANSWERS:
        wanted = "one rollouts.records.Answer a question" if name == "act_batch" else "a rollouts.records.Answer"
        raise UsageError(f"policy {spec!r}: {name} is declared to return {told}: it must return {wanted}")


def _check_description(made: Any, spec: str) -> None:
    try:
        who = made.describe()
    except Exception as error:
        raise UsageError(f"policy {spec!r}: describe() raised {describe_error(error)}") from error
    if not isinstance(who, PolicyDescription):
        right = "not a rollouts.records.PolicyDescription"
        raise UsageError(f"policy {spec!r}: describe() returned {type(who).__name__}, {right}")
    if not (isinstance(who.name, str) and who.name):
        raise UsageError(f"policy {spec!r}: describe() gives the name {who.name!r}: must be a text")
    try:
        json.dumps({**who.settings}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"policy {spec!r}: describe() gives settings that are not plain JSON, and they are part of what a run is: "
            f"{describe_error(error)}"
        ) from error


def _takes(function: Callable[..., Any], arguments: tuple[str, ...]) -> bool:
    """Whether it can be called with so many positional arguments; what cannot be told counts as yes."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _signature(function: Callable[..., Any]) -> str:
    """Without types, which can be long."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare))
