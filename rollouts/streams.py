"""Seeded random streams that no placement, rubric or policy can change, so that runs pair."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np


def _entropy(*parts: object) -> int:
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def stream(run_seed: int, name: str, scenario: str, seed: int, index: int) -> np.random.Generator:
    """The generator of stream `name` for one episode: SeedSequence over run seed, name and episode digest."""
    sequence = np.random.SeedSequence([run_seed, _entropy(name), _entropy(scenario, seed, index)])
    return np.random.Generator(np.random.PCG64(sequence))


def substream(rng: np.random.Generator, name: str) -> np.random.Generator:
    """A further generator for the episode that `rng` belongs to; `rng` keeps its state, and its children theirs."""
    seed = rng.bit_generator.seed_seq
    if not isinstance(seed, np.random.SeedSequence):
        raise TypeError(f"a generator with a SeedSequence is needed, not one with a {type(seed).__name__}")
    entropy = seed.entropy if isinstance(seed.entropy, Sequence) else [seed.entropy or 0]
    sequence = np.random.SeedSequence([*entropy, _entropy(name)], spawn_key=seed.spawn_key)
    return np.random.Generator(np.random.PCG64(sequence))
