"""Networks of a user's own, importable as `tests.torch_networks:NAME`. Imports torch."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class MeanColour(nn.Module):
    """Scores are the mean red, green and blue, each times its weight. Works in place, as people do."""

    def __init__(self, colours: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(colours))

    def forward(self, frames: Tensor) -> Tensor:
        assert frames.dtype == torch.float32
        frames.mul_(self.weight.view(1, -1, 1, 1))
        return frames.mean(dim=(2, 3))


class NotAModule:
    pass


class Mute(nn.Module):
    """Its scores are no numbers, unless it sees nothing but black."""

    def forward(self, frames: Tensor) -> Tensor:
        return torch.log(-frames.amax(dim=(2, 3)))
