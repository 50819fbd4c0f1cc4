"""Word of a request just before it is sent, to whoever keeps the books: what was sent counts, whatever becomes of it.

    with notice_to(note):               # note(tries, spent) is awaited before each request of the calls made in here
        reply = await call(request)

A context variable, so that it passes through whatever lies between (graders, a blocking call's thread); each task and
thread has its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rollouts.calls.limits import Spending

Note = Callable[[int, Spending], Awaitable[None]]
_NOTE: ContextVar[Note | None] = ContextVar("note", default=None)


@contextmanager
def notice_to(note: Note) -> Iterator[None]:
    """`note` is told of every request of the calls that begin in here; what it raises keeps the request back."""
    token = _NOTE.set(note)
    try:
        yield
    finally:
        _NOTE.reset(token)


async def give_notice(tries: int, spent: Spending) -> None:
    """A call is about to send its request for the `tries`-th time, and will have `spent` so much, if this one costs as
    much as is estimated. Errors: what the note raises."""
    note = _NOTE.get()
    if note is not None:
        await note(tries, spent)
