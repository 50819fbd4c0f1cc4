"""One-letter codes for options, and what the log-probabilities of a reply's first token say about them. Pure.

The variants of a letter (`A`, ` A`, `▁A`) are one option, so their probabilities are added. Nothing is renormalised:
what fell on the options altogether is `mass`. An option that the endpoint did not list has no probability but an upper
bound: what the listed tokens left over (several variants of one letter may be among what is not listed).
"""

from __future__ import annotations

import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rollouts.calls.chat_records import TokenLogprob
from rollouts.errors import UsageError

CODES = string.ascii_uppercase
_BLANKS = " \t\r\n▁Ġ\u00a0"


@dataclass(frozen=True, slots=True)
class OptionScores:
    """`probabilities`: listed option → its share of all tokens, in the order in which options were given; `bound`: the
    most that each of the others can have, None where there is no other."""

    probabilities: Mapping[str, float]
    mass: float
    bound: float | None

    def best(self) -> str | None:
        """The most probable option; of equals the first."""
        return max(self.probabilities, key=self.probabilities.__getitem__, default=None)

    def draw(self, temperature: float, rng: np.random.Generator) -> str | None:
        """An option drawn with probability proportional to p^(1/temperature); the best one at temperature 0."""
        known = {option: p for option, p in self.probabilities.items() if p > 0}
        if temperature == 0 or not known:
            return self.best()
        logits = np.log(list(known.values())) / temperature
        weights = np.exp(logits - logits.max())
        return list(known)[rng.choice(len(known), p=weights / weights.sum())]


def codes_of(shown: Sequence[str]) -> dict[str, str]:
    """Letter → option, in the order shown. Errors: `UsageError` where there are more options than letters."""
    if len(shown) > len(CODES):
        raise UsageError(f"{len(shown)} options have no one-letter codes, there are {len(CODES)} letters")
    return dict(zip(CODES, shown, strict=False))


def score_options(tokens: Sequence[TokenLogprob], shown: Sequence[str], options: Sequence[str]) -> OptionScores | None:
    """Reads the first token that is more than blanks; None where there is none. `shown` are `options` as lettered."""
    place = next((token for token in tokens if token.token.strip(_BLANKS)), None)
    if place is None:
        return None
    listed = _listed(place)
    letters, found = codes_of(shown), dict[str, float]()
    for token, probability in listed.items():
        option = letters.get(token.strip(_BLANKS))
        if option is not None:
            found[option] = min(1.0, found.get(option, 0.0) + probability)
    mass, rest = min(1.0, math.fsum(found.values())), max(0.0, 1.0 - math.fsum(listed.values()))
    in_order = {option: found[option] for option in options if option in found}
    return OptionScores(in_order, mass, rest if len(in_order) < len(options) else None)


def _listed(place: TokenLogprob) -> dict[str, float]:
    """Token → probability, of all that were reported for a place. What is no number is left out."""
    pairs = dict((*place.top, (place.token, place.logprob)))
    return {token: math.exp(min(0.0, value)) for token, value in pairs.items() if not math.isnan(value)}
