"""The one limiter of a run's calls, of policies and graders alike, where all of it is one process."""

from __future__ import annotations

from typing import Protocol

from rollouts.calls.limiter import LocalLimiter
from rollouts.calls.limits import Limiter, LimiterStatus, Limits


class RunLimiter(Protocol):
    """Begun once, when it is known what earlier starts of the run have spent; whoever begins it again changes nothing.

    Nobody may call a model before.
    """

    def begin(self, limits: Limits) -> None: ...

    def status(self, patience_s: float = 0.0) -> LimiterStatus | None:
        """How the calls stand, as far as is known within `patience_s`; None where it was not begun."""
        ...


class LocalRunLimiter:
    """For this process; called, it gives the limiter."""

    def __init__(self) -> None:
        self._limiter: LocalLimiter | None = None

    def begin(self, limits: Limits) -> None:
        self._limiter = self._limiter or LocalLimiter(limits)

    def status(self, patience_s: float = 0.0) -> LimiterStatus | None:
        """Known at once."""
        del patience_s
        return None if self._limiter is None else self._limiter.status()

    def __call__(self) -> Limiter:
        assert self._limiter is not None, "calls before the run's limits are known"
        return self._limiter
