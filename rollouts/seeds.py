"""Seeds as people write them: `published`, `0:8`, `1,5,9`, or any mix of ranges and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rollouts.errors import UsageError
from rollouts.settings import one_line

PUBLISHED = "published"
MAX_SEED = 2**32 - 1
MAX_SEEDS = 1_000_000
FORMS = 'must be "published", a range like "0:8" (8 is left out) or a list like "1,5,9"'
_ITEM = re.compile(r"(-?\d{1,20})(?::(-?\d{1,20}))?", re.ASCII)


def parse_seeds(value: object, source: str = "--seeds") -> tuple[int, ...] | None:
    """The seeds in the order given; None stands for the published seeds of each scenario.

    Takes the text forms, one whole number, or a list of them. Raises UsageError when a seed is malformed,
    negative, above 2^32-1 (the engine's seeds are 32-bit) or given twice.
    """
    if value == PUBLISHED:
        return None
    items = value if isinstance(value, list | tuple) else str(value).split(",")
    if isinstance(value, bool) or not items or any(isinstance(item, bool | float) for item in items):
        raise UsageError(f'{source} is "{one_line(str(value))}": {FORMS}')
    ranges = [_range(str(item).strip(), value, source) for item in items]
    if sum(len(r) for r in ranges) > MAX_SEEDS:
        raise UsageError(f'{source} is "{one_line(str(value), 80)}": more than {MAX_SEEDS:,} seeds in one run')
    return _checked([seed for r in ranges for seed in r], value, source)


def _range(item: str, value: object, source: str) -> range:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise UsageError(f'{source} is "{one_line(str(value), 80)}", where "{one_line(item, 40)}" is no seed: {FORMS}')
    start = int(match[1])
    stop = start + 1 if match[2] is None else int(match[2])
    for bound in (start, stop - 1):
        if not 0 <= bound <= MAX_SEED and stop > start:
            raise UsageError(f"{source}: seed {bound} is outside 0 to {MAX_SEED}")
    if stop <= start:
        raise UsageError(f'{source}: the range "{item}" is empty: {FORMS}')
    return range(start, stop)


def _checked(seeds: Iterable[int], value: object, source: str) -> tuple[int, ...]:
    seen: dict[int, None] = {}
    for seed in seeds:
        if seed in seen:
            raise UsageError(f'{source} is "{one_line(str(value), 80)}": seed {seed} is given twice')
        seen[seed] = None
    return tuple(seen)
