"""Fits a network to what a teacher did: supervised learning in its plainest form, the same for frames and for words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

BATCH = 128


def fit(network: nn.Module, seen: Tensor, done: Tensor, steps: int, seed: int) -> float:
    """Train in place on what was seen (n, …) and the number of the action that the teacher took then (n,) int64.

    Bytes are made [0, 1] as the `torch` policy makes them. The same arguments on the same machine give the same
    network. Returns the mean loss of the last tenth of the steps.
    """
    drawn = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    losses: list[float] = []
    network.train()
    while len(losses) < steps:
        for chosen in torch.randperm(len(done), generator=drawn).split(BATCH)[: steps - len(losses)]:
            loss = nn.functional.cross_entropy(network(_scaled(seen[chosen])), done[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(float(loss.detach()))
    network.eval()
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)


def agreement(network: nn.Module, seen: Tensor, done: Tensor) -> float:
    """The share of rows in which the network's highest score is the teacher's action."""
    with torch.inference_mode():
        chosen = torch.cat([network(_scaled(part)).argmax(dim=1) for part in seen.split(512)])
    return float((chosen == done).float().mean())


def _scaled(seen: Tensor) -> Tensor:
    return seen.float() / 255 if seen.dtype == torch.uint8 else seen
