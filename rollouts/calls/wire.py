"""What goes over the wire to an endpoint: under which path, in which form, and how the reply is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from rollouts.calls.call_failures import Failure
from rollouts.calls.chat_reading import read_completion
from rollouts.calls.chat_records import ChatReply, ChatRequest, WireName
from rollouts.calls.choice_wire import build_choice, read_choice
from rollouts.calls.dialect import Body, build_body


@dataclass(frozen=True, slots=True)
class Wire:
    """`path` follows the base URL. `build` makes a body without what is known to be refused; `read` makes a reply, or
    a failure, of the JSON value of a body that came with status 200, its headers and the key (to be scrubbed)."""

    path: str
    build: Callable[[ChatRequest, Collection[str]], Body]
    read: Callable[[object, Mapping[str, str], str | None], ChatReply | Failure]


CHAT = Wire("/chat/completions", build_body, read_completion)
WIRES: Mapping[WireName, Wire] = {"chat": CHAT, "choice": Wire("/systemone", build_choice, read_choice)}
