"""The card of a checkpoint: what the network sees and scores, how it is built. JSON, beside the weights or in them.

    {"architecture": "conv", "options": ["attack", "turn left", "turn right"], "frame_size": [84, 84]}
    {"architecture": "conv", "crop": [90, 180, 0, 320], "frame_size": [45, 160]}
    {"architecture": "tokens", "options": ["attack", "turn left", "turn right"], "buckets": 4096, "length": 64}
    {"observes": "frame", "options": [...], "settings": {"width": 32}}             # for a class of one's own

A frame is cut to `crop` (top, bottom, left, right, in its own pixels), then made `frame_size` (height, width).
`options` are in the order of the network's scores; without them the scenario's order counts. `settings` are keyword
arguments of the architecture.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollouts.errors import UsageError
from rollouts.policies.network_inputs import Crop, Frames, Inputs, Observes, Words
from rollouts.settings import unknown

KEY = "doom_rollouts"
ARCHITECTURES: Mapping[str, Observes] = {"conv": "frame", "tokens": "text"}
_KEYS = ("architecture", "observes", "options", "frame_size", "crop", "buckets", "length", "settings")


@dataclass(frozen=True)
class NetworkCard:
    """`architecture` is one of ours, or None. `frame_size`, `crop`: see `Frames`; `buckets`, `length`: see `Words`."""

    architecture: str | None = None
    observes: Observes = "frame"
    options: tuple[str, ...] | None = None
    frame_size: tuple[int, int] | None = None
    crop: Crop | None = None
    buckets: int = 4096
    length: int = 64
    settings: Mapping[str, Any] = field(default_factory=dict)

    def inputs(self) -> Inputs:
        return Frames(self.frame_size, self.crop) if self.observes == "frame" else Words(self.buckets, self.length)

    def as_json(self) -> str:
        options = None if self.options is None else list(self.options)
        size, crop = (None if numbers is None else list(numbers) for numbers in (self.frame_size, self.crop))
        told = {
            **{"architecture": self.architecture, "observes": self.observes, "options": options, "frame_size": size},
            **{"crop": crop, "buckets": self.buckets, "length": self.length, "settings": dict(self.settings)},
        }
        return json.dumps({key: value for key, value in told.items() if value is not None})


def find_card(checkpoint: Path, metadata: Mapping[str, str], policy: str) -> NetworkCard | None:
    """The card in the checkpoint's own metadata (key `doom_rollouts`), else in `<stem>.json` beside it, else None.

    Errors: UsageError for a card that is wrong.
    """
    beside = checkpoint.with_suffix(".json")
    if KEY in metadata:
        return read_card(metadata[KEY], f"policy {policy!r}: the card in {checkpoint.name!r}")
    if not beside.exists():
        return None
    try:
        text = beside.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f'policy {policy!r}: "{beside.absolute()}" cannot be read: {error}') from error
    return read_card(text, f'policy {policy!r}: the card "{beside.name}"')


def read_card(text: str, where: str) -> NetworkCard:
    """A card, checked whole. Errors: UsageError that says `where`, what and which values there are."""
    try:
        values = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where} is no JSON: {error}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{where} must be a JSON object, not {type(values).__name__}")
    for key in values:
        if key not in _KEYS:
            raise unknown(f"{where}: key", key, _KEYS)
    return _Reader(values, where).card()


@dataclass(frozen=True)
class _Reader:
    values: Mapping[str, Any]
    where: str

    def card(self) -> NetworkCard:
        architecture = self.values.get("architecture")
        if architecture is not None and architecture not in ARCHITECTURES:
            raise unknown(f"{self.where}: architecture", str(architecture), tuple(ARCHITECTURES))
        settings = self.values.get("settings", {})
        if not isinstance(settings, dict):
            self._wrong("settings", "a JSON object")
        return NetworkCard(
            architecture=architecture,
            observes=self._observes(architecture),
            options=self._options(),
            frame_size=self._frame_size(),
            crop=self._crop(),
            buckets=self._whole("buckets", 4096, least=2),
            length=self._whole("length", 64, least=1),
            settings=settings,
        )

    def _observes(self, architecture: str | None) -> Observes:
        implied: Observes = ARCHITECTURES[architecture] if architecture else "frame"
        given = self.values.get("observes", implied)
        if given not in ("frame", "text"):
            raise unknown(f"{self.where}: observes", str(given), ("frame", "text"))
        if architecture and given != implied:
            raise UsageError(f'{self.where}: architecture "{architecture}" observes "{implied}", not "{given}"')
        return "text" if given == "text" else "frame"

    def _options(self) -> tuple[str, ...] | None:
        given = self.values.get("options")
        if given is None:
            return None
        if not isinstance(given, list) or not given or not all(isinstance(name, str) for name in given):
            self._wrong("options", "a list of action names")
        if len(set(given)) != len(given):
            self._wrong("options", "without repetition")
        return tuple(given)

    def _frame_size(self) -> tuple[int, int] | None:
        given = self.values.get("frame_size")
        if given is None:
            return None
        if not (isinstance(given, list) and len(given) == 2 and all(_is_whole(side, 1, 10_000) for side in given)):
            self._wrong("frame_size", "[height, width] in pixels")
        return given[0], given[1]

    def _crop(self) -> Crop | None:
        given = self.values.get("crop")
        if given is None:
            return None
        if not (isinstance(given, list) and len(given) == 4 and all(_is_whole(edge, 0, 10_000) for edge in given)):
            self._wrong("crop", "[top, bottom, left, right] in pixels")
        top, bottom, left, right = given
        if top >= bottom or left >= right:
            self._wrong("crop", "[top, bottom, left, right] with top above bottom and left before right")
        return top, bottom, left, right

    def _whole(self, key: str, default: int, least: int) -> int:
        given = self.values.get(key, default)
        if not _is_whole(given, least, 2**31 - 1):
            self._wrong(key, f"a whole number from {least}")
        return int(given)

    def _wrong(self, key: str, right: str) -> None:
        raise UsageError(f"{self.where}: {key} is {json.dumps(self.values[key])}: must be {right}")


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
