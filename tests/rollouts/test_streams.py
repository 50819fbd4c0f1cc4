"""Random streams: same names, same numbers; anything else, others."""

from __future__ import annotations

import hashlib

import numpy as np

from rollouts.streams import stream


def _draw(*args: int | str) -> list[int]:
    return stream(*args).integers(1_000_000, size=5).tolist()  # type: ignore[arg-type]


def test_a_stream_is_a_function_of_its_names() -> None:
    base = (0, "policy", "defend_the_center", 7, 1)
    assert _draw(*base) == _draw(*base)
    others = [
        (1, "policy", "defend_the_center", 7, 1),
        (0, "shuffle", "defend_the_center", 7, 1),
        (0, "policy", "health_gathering", 7, 1),
        (0, "policy", "defend_the_center", 71, 1),
        (0, "policy", "defend_the_center", 7, 11),
    ]
    assert len({tuple(_draw(*names)) for names in [base, *others]}) == 6


def test_python_hash_seed_plays_no_part() -> None:
    # SeedSequence([0, sha256("policy")[:16], sha256("s\0" "1\0" "0")[:16]]), worked out with numpy and hashlib alone.
    def number(text: str) -> int:
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")

    sequence = np.random.SeedSequence([0, number("policy"), number("s\x001\x000")])
    expected = np.random.Generator(np.random.PCG64(sequence))
    assert expected.integers(1_000_000, size=5).tolist() == _draw(0, "policy", "s", 1, 0)
