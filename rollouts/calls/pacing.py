"""How fast: requests in flight that shrink and grow with what the endpoint says, and amounts a minute.

Pure: the time is handed in, in seconds of any clock that never goes back.
"""

from __future__ import annotations

from collections import deque

MINUTE_S = 60.0


class Pace:
    """The window of one lane: halved when the endpoint asks for less, one more after each window of answers.

    Additive increase, multiplicative decrease, once for each round trip: V. Jacobson, "Congestion avoidance and
    control" (SIGCOMM 1988).
    """

    def __init__(self, ceiling: int, pause_s: float, cap_s: float) -> None:
        self.window = float(ceiling)
        self.not_before = float("-inf")
        self._ceiling = ceiling
        self._pause_s = pause_s
        self._cap_s = cap_s
        self._slowed_at = float("-inf")
        self._in_a_row = 0

    def answered(self) -> None:
        self.window = min(float(self._ceiling), self.window + 1 / self.window)
        self._in_a_row = 0

    def throttled(self, granted_at: float, retry_after_s: float | None, now: float) -> None:
        """Slow down and pause. Requests that were out already at the last slow-down tell nothing new."""
        if granted_at >= self._slowed_at:
            self.window = max(1.0, self.window / 2)
            self._slowed_at = now
            self._in_a_row += 1
        pause = self._own_pause_s() if retry_after_s is None else retry_after_s
        self.not_before = max(self.not_before, now + min(pause, self._cap_s))

    def _own_pause_s(self) -> float:
        doublings = min(max(self._in_a_row - 1, 0), 20)
        return self._pause_s * float(2**doublings)


class Taken:
    """An amount that counts for one minute from `at`."""

    __slots__ = ("amount", "at")

    def __init__(self, at: float, amount: int) -> None:
        self.at = at
        self.amount = amount


class MinuteWindow:
    """At most `limit` in any 60 seconds (a sliding window, so never twice the limit around a full minute)."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._taken: deque[Taken] = deque()
        self._total = 0

    def opens_at(self, amount: int, now: float) -> float:
        """The earliest time at which `amount` fits; `now` where it fits at once.

        What is larger than the limit itself fits into an empty minute: it could never go out otherwise.
        """
        if self._limit is None:
            return now
        self._drop_old(now)
        excess = self._total + amount - self._limit
        opens = now
        for taken in self._taken:
            if excess <= 0:
                break
            excess -= taken.amount
            opens = taken.at + MINUTE_S
        return opens

    def take(self, amount: int, now: float) -> Taken:
        taken = Taken(now, amount)
        if self._limit is not None:
            self._taken.append(taken)
            self._total += amount
        return taken

    def correct(self, taken: Taken, amount: int) -> None:
        """The amount turned out to be another (it was an estimate when it was taken)."""
        if taken.at != float("-inf") and self._limit is not None:
            self._total += amount - taken.amount
            taken.amount = amount

    def _drop_old(self, now: float) -> None:
        while self._taken and self._taken[0].at + MINUTE_S <= now:
            old = self._taken.popleft()
            self._total -= old.amount
            old.at = float("-inf")
