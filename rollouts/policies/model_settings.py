"""How a policy that is a model is shown the game and how it answers. Part of a run's identity, by its description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from rollouts.frames import FrameFormat
from rollouts.policies.reply_rules import Wanted

Observe = Literal["text", "frame", "both"]
OBSERVES: tuple[Observe, ...] = get_args(Observe)
ANSWERS: tuple[Wanted, ...] = get_args(Wanted)
OPENAI_COMPATIBLE = "openai-compatible"
DECISION_ENDPOINT = "decision-endpoint"
PROVIDERS = frozenset({OPENAI_COMPATIBLE, DECISION_ENDPOINT})
"""What a policy that asks an endpoint of the user's names as its provider: its kind, never its URL."""
_TOKENS: dict[Wanted, int] = {"letters": 4, "json": 256, "plain": 256}


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """`observe`: the state text, the picture with a status line, or both. `answer`: log-probabilities over one-letter
    codes, a JSON object, or an option's plain name. `shuffle_options`: shown in another order at each decision.

    `history` is the number of earlier exchanges that are sent along, `history_frames` how many of the last of them keep
    their picture. `temperature` is the endpoint's; for `letters` the draw is made here, from the episode's own
    generator. `max_tokens` None: enough for an answer without thinking. `frames`: how the row's picture is stored.
    """

    observe: Observe = "text"
    answer: Wanted = "letters"
    shuffle_options: bool = False
    history: int = 0
    history_frames: int = 0
    temperature: float = 0.0
    max_tokens: int | None = None
    frames: FrameFormat = "png"

    @property
    def reply_tokens(self) -> int:
        """The most that a reply may have."""
        return self.max_tokens or _TOKENS[self.answer]

    @property
    def endpoint_draws(self) -> bool:
        """Whether the endpoint samples: then each request has a seed from the episode's generator."""
        return self.answer != "letters" and self.temperature > 0

    @property
    def sees(self) -> bool:
        """Whether pictures are sent."""
        return self.observe != "text"

    @property
    def picture_format(self) -> FrameFormat:
        """Pictures are sent with the pixels of the row's: the very JPEG, else an RGB PNG (of a palette PNG too)."""
        return "jpeg" if self.frames == "jpeg" else "png-rgb"
