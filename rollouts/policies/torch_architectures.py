"""Our two small networks, and how a checkpoint of one is written. Imports torch: import it late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from rollouts.policies.network_card import KEY, NetworkCard


class Conv(nn.Module):  # type: ignore[misc]
    """Frames (n, 3, H, W) in [0, 1], of any size, to scores (n, options).

    Each convolution halves the picture; what the last one gives is averaged to `grid` (rows, columns). A grid as fine
    as that keeps where things are: with three convolutions (ceil(H / 8), ceil(W / 8)).
    """

    def __init__(
        self,
        options: int,
        widths: Sequence[int] = (16, 32, 32),
        hidden: int = 128,
        grid: Sequence[int] = (4, 6),
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, width in zip((3, *widths), widths, strict=False):
            layers += [nn.Conv2d(before, width, 3, stride=2, padding=1), nn.ReLU()]
        self.eye = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(tuple(grid)), nn.Flatten())
        cells = grid[0] * grid[1]
        self.head = nn.Sequential(nn.Linear(widths[-1] * cells, hidden), nn.ReLU(), nn.Linear(hidden, options))

    def forward(self, frames: Tensor) -> Tensor:
        return self.head(self.eye(frames))


class Tokens(nn.Module):  # type: ignore[misc]
    """Word numbers (n, length), 0 for none, to scores (n, options): the strongest traces of three words in a row."""

    def __init__(self, options: int, buckets: int, width: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding(buckets, width, padding_idx=0)
        self.threes = nn.Conv1d(width, width, 3, padding=1)
        self.head = nn.Linear(width, options)

    def forward(self, words: Tensor) -> Tensor:
        traces = torch.relu(self.threes(self.words(words).transpose(1, 2)))
        return self.head(traces.amax(dim=2))


def build(card: NetworkCard, options: int) -> nn.Module:
    """The card's own architecture, with random weights. Errors: TypeError, ValueError for settings that it has not."""
    assert card.architecture is not None, "a card without architecture needs a class"
    if card.architecture == "tokens":
        return Tokens(options, card.buckets, **card.settings)
    return Conv(options, **card.settings)


def save_network(network: nn.Module, card: NetworkCard, path: Path) -> None:
    """Write weights and card as one safetensors file, ready for `--policy torch:PATH`."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in network.state_dict().items()}
    save_file(weights, path, metadata={KEY: card.as_json()})
