"""The hashes against bytes written out by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import xxhash

from rollouts.hashing import FramesHash, TrajectoryHash
from rollouts.records import Answer, Decision, Frame, Snapshot, Transition


def decision(state: str, action: str, snapshot: Snapshot, transition: Transition) -> Decision:
    answer, now = Answer(action), datetime(2024, 1, 1, tzinfo=UTC)
    return Decision(0, state, snapshot, None, answer, action, "policy", transition, False, False, now)


def test_a_trajectory_is_hashed_as_documented() -> None:
    trajectory = TrajectoryHash()
    before = Snapshot(4, health=100, ammo=26)
    trajectory.add(decision("Ammo,\nné", "turn left", before, Transition(0.0, None, health_after=92, ammo_after=0)))
    trajectory.add(decision("", "attack", Snapshot(8, kills=3), Transition(1.0, None, kills_after=4)))
    by_hand = b"8:Ammo,\nn\xc3\xa9,9:turn left,100,26,None,92,0,None\n0:,6:attack,None,None,3,None,None,4\n"
    assert trajectory.hexdigest() == xxhash.xxh3_128_hexdigest(by_hand)


def test_half_a_character_in_a_text_can_be_hashed() -> None:
    trajectory = TrajectoryHash()
    trajectory.add(decision("\ud83d", "stay", Snapshot(0), Transition(0.0, None)))
    by_hand = b"1:\xed\xa0\xbd,4:stay,None,None,None,None,None,None\n"
    assert trajectory.hexdigest() == xxhash.xxh3_128_hexdigest(by_hand)


def test_frames_are_hashed_as_documented() -> None:
    pixels, palette = np.arange(6, dtype=np.uint8).reshape(2, 3), np.zeros((256, 3), np.uint8)
    frames = FramesHash()
    assert frames.hexdigest() is None
    frames.add(None)
    assert frames.hexdigest() is None
    frames.add(Frame(pixels, palette))
    frames.add(Frame(np.full((1, 1, 3), 7, np.uint8)))
    by_hand = b"(2, 3)" + bytes(768) + bytes(range(6)) + b"(1, 1, 3)" + b"\7\7\7"
    assert frames.hexdigest() == xxhash.xxh3_128_hexdigest(by_hand)
