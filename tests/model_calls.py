"""Calls to a real endpoint on loopback for policies that are tried without a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rollouts.calls.blocking_call import BlockingCall
from rollouts.calls.chat import ChatClient
from rollouts.calls.chat_records import ChatReply, ChatRequest, WireName
from rollouts.calls.endpoint import CallSettings, Endpoint
from rollouts.calls.limiter import LocalLimiter
from rollouts.calls.limits import Limits
from rollouts.calls.wire import WIRES
from rollouts.policy_calls import MENDABLE
from rollouts.records import EpisodeKey, Frame, Snapshot

SWIFT = CallSettings(time_limit_s=30.0, tries=2, pause_s=0.001, retry_after_cap_s=0.01, mendable=MENDABLE)
OPTIONS = ("attack", "turn left", "turn right")
KEY = EpisodeKey("defend_the_center", "rule", "chat:m", 7, 0)


@dataclass
class Calls:
    """`ModelCalls` on one endpoint; keeps every reply."""

    base_url: str
    settings: CallSettings = SWIFT
    limits: Limits = field(default_factory=Limits)
    replies: list[ChatReply] = field(default_factory=list)

    def open(self, wire: WireName) -> _Call:
        limiter = LocalLimiter(self.limits)
        client = ChatClient(Endpoint(self.base_url), limiter, self.settings, wire=WIRES[wire])
        return _Call(BlockingCall(client), self.base_url, self.replies.append)


@dataclass
class _Call:
    call: BlockingCall
    where: str
    note: Callable[[ChatReply], Any]

    def __call__(self, request: ChatRequest, /) -> ChatReply:
        reply = self.call(request)
        self.note(reply)
        return reply

    def close(self) -> None:
        self.call.close()


def requiring(*names: str) -> CallSettings:
    return replace(SWIFT, required=frozenset(names))


def picture(tick: int) -> Frame:
    """A palette frame that is like no other tick's."""
    palette = np.arange(768, dtype=np.uint8).reshape(256, 3)
    pixels = np.full((24, 32), tick % 256, np.uint8)
    pixels[0, :16] = np.arange(16)
    return Frame(pixels, palette)


def seen(tick: int) -> Snapshot:
    return Snapshot(4 * tick, health=100 - tick % 100, ammo=26, kills=tick, frame=picture(tick))
