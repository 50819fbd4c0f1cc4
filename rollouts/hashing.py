"""Hashes by which two plays of an episode are compared (xxh3, 128 bits, hex).

trajectory: for each decision the UTF-8 of one line, `<characters of the state>:<state>,<characters of the action>:
<action>,<health>,<ammo>,<kills>,<health after>,<ammo after>,<kills after>` (without the break) and a newline; the
action is the effective one, and a variable that does not exist is `None`. Where none was sent, for the episode ended
while the policy thought, `None` stands in the place of `<characters of the action>:<action>`.
frames: for each frame its shape, its palette where it has one, and its pixels, row by row.
"""

from __future__ import annotations

import xxhash

from rollouts.records import Decision, Frame


class TrajectoryHash:
    """Texts, actions and variables of one episode; independent of frames, time and place."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()

    def add(self, decision: Decision) -> None:
        state, action = decision.state, decision.effective_action
        before, after = decision.snapshot, decision.transition
        sent = None if action is None else f"{len(action)}:{action}"
        line = (
            f"{len(state)}:{state},{sent},{before.health},{before.ammo},{before.kills},"
            f"{after.health_after},{after.ammo_after},{after.kills_after}\n"
        )
        self._hash.update(line.encode("utf-8", "surrogatepass"))

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class FramesHash:
    """Pixels of one episode's frames, whatever file format they are kept in."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_128()
        self._frames = 0

    def add(self, frame: Frame | None) -> None:
        if frame is None:
            return
        self._frames += 1
        self._hash.update(str(frame.pixels.shape).encode())
        if frame.palette is not None:
            self._hash.update(frame.palette.data)
        self._hash.update(frame.pixels.data)

    def hexdigest(self) -> str | None:
        """None when the episode has no frames."""
        return self._hash.hexdigest() if self._frames else None
