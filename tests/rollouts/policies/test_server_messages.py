"""What goes between askers and a policy server comes out as it went in, and what is no message is one clear error."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import fields

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.errors import BudgetSpent, EngineLost, PolicyError, RolloutsError, RunStopped, TryVoid
from rollouts.policies.base import Question
from rollouts.policies.server_messages import pack_outcome, pack_question, read_outcome, read_question
from rollouts.records import Answer, DepthBands, Frame, Snapshot, Thing

PALETTE = np.arange(768, dtype=np.uint8).reshape(256, 3)
RGB = Frame(np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3))
INDEXED = Frame(np.arange(6, dtype=np.uint8).reshape(2, 3), PALETTE)
FULL = Snapshot(
    7,
    health=100,
    ammo=0,
    kills=2,
    things=(Thing("DoomImp", "monster", 0.25, 0.125), Thing("Clip", "item", 1.0, 0.5)),
    depth=DepthBands(1.0, 2.0, 3.5),
    variables={"ARMOR": 5.0, "POSITION_X": np.float32(0.5)},  # type: ignore[dict-item]
)
ALL_FIELDS = Answer(
    *("left", {"left": 0.75, "right": 0.25}, 0.75, 3.5, True, "policy", "several", "two of them", "exact"),
    *(("right", "left"), 0.9, 0.05, "text", "[]", "raw \udcff", "stop", ("a", "b"), (-0.5, -1.0), 10, 2, "v1"),
)


def question(snapshot: Snapshot, instructions: str | None = None) -> Question:
    return Question(snapshot, "an imp, \udcff bytes and all", ("left", "right"), instructions)


def through(snapshot: Snapshot, instructions: str | None = None) -> Question:
    policy, asker, read = read_question(pack_question("onnx:c", "me", question(snapshot, instructions)))
    assert (policy, asker) == ("onnx:c", "me")
    return read


@pytest.mark.parametrize("snapshot", [Snapshot(0), FULL])
@pytest.mark.parametrize("instructions", [None, "Turn."])
def test_a_question_comes_out_as_it_went_in(snapshot: Snapshot, instructions: str | None) -> None:
    assert through(snapshot, instructions) == question(snapshot, instructions)


@pytest.mark.parametrize("frame", [RGB, INDEXED, Frame(RGB.pixels[::-1])])
def test_a_picture_comes_out_as_it_went_in_and_cannot_be_written_to(frame: Frame) -> None:
    read = through(Snapshot(0, frame=frame)).snapshot.frame
    assert read is not None
    assert np.array_equal(read.pixels, frame.pixels)
    assert np.array_equal(read.rgb(), frame.rgb())
    assert not read.pixels.flags.writeable


def test_every_field_of_an_answer_comes_out_as_it_went_in() -> None:
    assert all(getattr(ALL_FIELDS, field.name) not in (None, {}) for field in fields(Answer)), "a new field: add it"
    for answer in (ALL_FIELDS, Answer(None), Answer("left", asked=False, acted_by="teacher")):
        assert read_outcome(pack_outcome(answer)) == answer


def test_numbers_of_numpy_go_as_numbers() -> None:
    answer = Answer("left", {"left": np.float32(0.5)}, tokens_in=np.int64(3))  # type: ignore[dict-item, arg-type]
    assert read_outcome(pack_outcome(answer)) == Answer("left", {"left": 0.5}, tokens_in=3)


class Refused(RolloutsError):
    """An error of a user's own."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [(PolicyError, PolicyError), (BudgetSpent, BudgetSpent), (EngineLost, TryVoid), (Refused, RolloutsError)],
)
def test_an_error_stays_an_error_of_its_kind(error: type[RolloutsError], kind: type[RolloutsError]) -> None:
    outcome = read_outcome(pack_outcome(error("no luck")))
    assert (type(outcome), str(outcome)) == (kind, "no luck")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer("left", raw_reply=object()), "TypeError: object cannot be sent"),  # type: ignore[arg-type]
        (Answer("left", tokens_in=2**64), "TypeError: int cannot be sent"),
    ],
)
def test_an_answer_that_is_no_plain_data_is_an_error_of_the_policy(answer: Answer, says: str) -> None:
    outcome = read_outcome(pack_outcome(answer))
    assert isinstance(outcome, PolicyError)
    assert says in str(outcome)


def altered(**changes: object) -> bytes:
    """A question of which some parts are others."""
    parts = msgpack.unpackb(pack_question("p", "me", Question(Snapshot(0, frame=RGB), "t", ("a",), None)))
    names = ("policy", "asker", "text", "options", "instructions", "seen")
    told = dict(zip(names, parts, strict=True))
    told["seen"] = [*told["seen"][:-1], changes.pop("frame", told["seen"][-1])]
    return bytes(msgpack.packb(list((told | changes).values())))


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b"", "incomplete input"),
        (pickle.dumps(("p", "me", None)), "cannot be read"),
        (b"\xdd\xff\xff\xff\xff", "cannot be read"),
        (b"\x91" * 5000, "cannot be read"),
        (altered() + b"more", "extra"),
        (altered()[:-1], "incomplete input"),
        (b"\x92\x01\x02", "not enough values to unpack"),
        (altered(policy=7), "policy is int, not str"),
        (altered(text=b"bytes"), "text is bytes, not str"),
        (altered(options=["a", None]), "option 1 is NoneType, not str"),
        (altered(options="ab"), "options is str, not tuple"),
        (altered(instructions=1), "instructions is int, not str | None"),
        (altered(seen=[0]), "not enough values to unpack"),
        (altered(seen=[0, "1", None, None, [], None, {}, None]), "health is str"),
        (altered(seen=[0, 1, None, None, [], None, {"ARMOR": "much"}, None]), "ARMOR is str"),
        (altered(seen=[0, 1, None, None, [["Imp", "monster", "x", 0.5]], None, {}, None]), "cx is str"),
        (altered(seen=[0, 1, None, None, [], [1, 2], {}, None]), "not enough values to unpack"),
        (altered(frame=[[2, 3, 3], b"\0" * 17, None]), "cannot reshape"),
        (altered(frame=[[2, -1, 3], b"\0" * 18, None]), "a frame of 18 bytes and shape (2, -1, 3)"),
        (altered(frame=[[2, 9], b"\0" * 18, None]), "a frame of 18 bytes and shape (2, 9)"),
        (altered(frame=[[2, 3, 3], b"\0" * 18, b"\0" * 768]), "a frame of 18 bytes and shape (2, 3, 3)"),
        (altered(frame=[[2, 9], b"\0" * 18, b"\0" * 9]), "cannot reshape"),
    ],
)
def test_what_is_no_question_is_one_clear_error(message: bytes, says: str) -> None:
    with pytest.raises(RunStopped, match=r"^a question to the policy server cannot be read: .*") as raised:
        read_question(message)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (b"\x80", "not enough values"),
        (bytes(msgpack.packb(["SystemExit", "0"])), "'SystemExit'"),
        (bytes(msgpack.packb(["TryVoid", 5])), "text is int, not str"),
        (bytes(msgpack.packb([None, {"chosen": "left"}])), "'chosen'"),
        (bytes(msgpack.packb([None, "left"])), "mapping"),
    ],
)
def test_what_is_no_reply_is_one_clear_error(message: bytes, says: str) -> None:
    with pytest.raises(RunStopped, match=r"^a reply of the policy server cannot be read: ") as raised:
        read_outcome(message)
    assert says in str(raised.value)


@given(st.binary(max_size=200))
def test_no_bytes_do_any_harm(message: bytes) -> None:
    with suppress(RunStopped):
        assert isinstance(read_question(message)[2], Question)
    with suppress(RunStopped):
        assert isinstance(read_outcome(message), Answer | RolloutsError)


@given(st.data())
def test_a_question_that_was_damaged_is_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(altered())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with suppress(RunStopped):
        assert isinstance(read_question(bytes(whole))[2], Question)
