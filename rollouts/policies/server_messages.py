"""What goes between askers and a policy server: plain data as MessagePack, so that nothing that is read can be code.

A question is [policy, asker, text, options, instructions, snapshot]; a reply is [None, the answer's fields] or
[the error's name, its text]. A picture goes as its shape and its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import msgpack
import numpy as np

from rollouts.errors import BudgetSpent, PolicyError, RolloutsError, RunStopped, StorageError, TryVoid, UsageError
from rollouts.policies.base import Question
from rollouts.policies.batching import Outcome
from rollouts.records import Answer, DepthBands, Frame, Snapshot, Thing
from rollouts.scrub import describe_error

_ANSWER = tuple(field.name for field in fields(Answer))
_ERRORS = {
    kind.__name__: kind
    for kind in (BudgetSpent, PolicyError, RolloutsError, RunStopped, StorageError, TryVoid, UsageError)
}
_NUMBER = int | float


def pack_question(policy: str, asker: str, question: Question) -> bytes:
    """Errors: TypeError or ValueError where something in it is no plain data."""
    seen = _seen(question.snapshot)
    return _packed((policy, asker, question.text, question.options, question.instructions, seen))


def read_question(message: bytes) -> tuple[str, str, Question]:
    """The policy, the asker and the question. Errors: RunStopped, saying what is wrong with the message."""
    with _readable("a question to the policy server"):
        policy, asker, text, options, instructions, seen = _unpacked(message)
        _check(str, policy=policy, asker=asker, text=text)
        _check(tuple, options=options)
        _check(str, **{f"option {number}": option for number, option in enumerate(options)})
        _check(str | None, instructions=instructions)
        return policy, asker, Question(_snapshot(seen), text, options, instructions)


def pack_outcome(outcome: Outcome) -> bytes:
    """An answer that is no plain data becomes a `PolicyError`; an error goes as the nearest of its kind."""
    if isinstance(outcome, RolloutsError):
        kind = next(kind for kind in type(outcome).__mro__ if kind in _ERRORS.values())
        return _packed((kind.__name__, str(outcome)))
    told = {name: value for name in _ANSWER if (value := getattr(outcome, name)) is not None}
    try:
        return _packed((None, told))
    except (TypeError, ValueError) as error:
        return pack_outcome(PolicyError(describe_error(error)))


def read_outcome(message: bytes) -> Outcome:
    """What types an answer has inside is for the loop to check, as with every policy. Errors: RunStopped where it
    cannot be read."""
    with _readable("a reply of the policy server"):
        error, told = _unpacked(message)
        if error is None:
            return Answer(**{"choice": None, **told})
        _check(str, error=error, text=told)
        return _ERRORS[error](told)


def _seen(snapshot: Snapshot) -> tuple[Any, ...]:
    counters = (snapshot.game_tic, snapshot.health, snapshot.ammo, snapshot.kills)
    things = [(thing.name, thing.kind, thing.cx, thing.size) for thing in snapshot.things]
    bands = snapshot.depth
    depth = None if bands is None else (bands.left, bands.centre, bands.right)
    return (*counters, things, depth, snapshot.variables, _sent(snapshot.frame))


def _snapshot(seen: Any) -> Snapshot:
    tic, health, ammo, kills, things, depth, variables, frame = seen
    _check(int, game_tic=tic)
    _check(_NUMBER | None, health=health, ammo=ammo, kills=kills)
    _check(dict, variables=variables)
    _check(_NUMBER, **variables)
    seen_things = tuple(map(_thing, things))
    return Snapshot(tic, health, ammo, kills, seen_things, _bands(depth), _frame(frame), variables)


def _thing(told: Any) -> Thing:
    name, kind, cx, size = told
    _check(str, name=name, kind=kind)
    _check(_NUMBER, cx=cx, size=size)
    return Thing(name, kind, cx, size)


def _bands(told: Any) -> DepthBands | None:
    if told is None:
        return None
    left, centre, right = told
    _check(_NUMBER, left=left, centre=centre, right=right)
    return DepthBands(left, centre, right)


def _sent(frame: Frame | None) -> tuple[Any, ...] | None:
    if frame is None:
        return None
    palette = None if frame.palette is None else frame.palette.tobytes()
    return frame.pixels.shape, frame.pixels.tobytes(), palette


def _frame(sent: Any) -> Frame | None:
    """Its arrays are views of what was read, and read-only as every frame's are."""
    if sent is None:
        return None
    shape, pixels, palette = sent
    picture = np.frombuffer(pixels, np.uint8).reshape(shape)
    if picture.shape != shape or picture.ndim != (3 if palette is None else 2) or shape[2:] not in {(), (3,)}:
        raise ValueError(f"a frame of {len(pixels)} bytes and shape {shape}")
    return Frame(picture, None if palette is None else np.frombuffer(palette, np.uint8).reshape(256, 3))


def _check(kind: Any, /, **values: Any) -> None:
    """Errors: TypeError naming the first of `values` that is not of this type."""
    for name, value in values.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} is {type(value).__name__}, not {getattr(kind, '__name__', kind)}")


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError) as error:
        raise RunStopped(f"{what} cannot be read: {describe_error(error)}") from error


def _packed(content: tuple[Any, ...]) -> bytes:
    packed: bytes = msgpack.packb(content, default=_plain, unicode_errors="surrogatepass")
    return packed


def _unpacked(message: bytes) -> Any:
    """Lists come as tuples. No length in it can ask for more memory than the message has bytes."""
    return msgpack.unpackb(message, use_list=False, unicode_errors="surrogatepass")


def _plain(value: Any) -> Any:
    """Numbers of numpy and foreign mappings; anything else does not travel. Errors: TypeError."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} cannot be sent between an actor and a policy server: it is no plain data")
