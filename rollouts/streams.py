"""Seeded random streams that no placement, rubric or policy can change, so that runs pair."""

from __future__ import annotations

import hashlib

import numpy as np


def _entropy(*parts: object) -> int:
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def stream(run_seed: int, name: str, scenario: str, seed: int, index: int) -> np.random.Generator:
    """The generator of stream `name` for one episode: SeedSequence over run seed, name and episode digest."""
    sequence = np.random.SeedSequence([run_seed, _entropy(name), _entropy(scenario, seed, index)])
    return np.random.Generator(np.random.PCG64(sequence))
