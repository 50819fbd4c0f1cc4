"""Fits a network to what a teacher did: supervised learning in its plainest form, the same for frames and for words."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import torch
from torch import Tensor, nn


def fit(network: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], steps: int) -> float:
    """Train in place on `steps` batches: what was seen (n, …), and the numbers of the teacher's actions (n,) int64.

    In one thread, for the rest of the process too: sums are then made in one order, so that the same batches give the
    same network however many cores there are; and networks this small gain little from more. Returns the mean loss of
    the last tenth of the steps.
    """
    torch.set_num_threads(1)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-3, total_steps=steps)
    losses: list[float] = []
    network.train()
    for seen, done in islice(batches, steps):
        loss = nn.functional.cross_entropy(network(seen), done)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    network.eval()
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)
