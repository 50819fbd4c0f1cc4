"""A network that reads the state text learns what the teacher does: behaviour cloning on the text rows of a run.

    rollouts run --scenario defend_the_center --policy oracle --seeds 1000:1020 --frames none --run-id teacher
    python -m examples.words runs/teacher --save words.safetensors      # extra `train`
    rollouts run --scenario defend_the_center --policy torch:words.safetensors --frames none

The last command plays with it on seeds that it has not seen; its table says how often network and teacher agree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from examples.fitting import fit
from rollouts.errors import RolloutsError, UsageError
from rollouts.policies.network_card import NetworkCard
from rollouts.policies.network_inputs import Words
from rollouts.policies.torch_architectures import build, save_network
from rollouts.readers import torch_dataset
from rollouts.scenarios.registry import SCENARIOS

_COLUMNS = "state", "teacher_action"


def learn(run: str, scenario: str, path: Path, steps: int = 600, seed: int = 0) -> float:
    """Train on the rows of a scenario in a run, and write the checkpoint; returns the loss in the end.

    Errors: `RolloutsError` where there is no such run or row.
    """
    card = NetworkCard("tokens", "text", SCENARIOS[scenario].options)
    torch.manual_seed(seed)
    network = build(card, len(card.options or ()))
    loss = fit(network, _batches(run, scenario, card, seed), steps)
    save_network(network, card, path)
    return loss


def _batches(run: str, scenario: str, card: NetworkCard, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pass after pass, each in another order, without end."""
    rows = torch_dataset(run, _COLUMNS, batch_size=64, seed=seed, scenario=scenario)
    words, options = Words(card.buckets, card.length), card.options or ()
    loader = DataLoader(rows, batch_size=None)
    while True:
        for batch in loader:
            done = [options.index(action) for action in batch["teacher_action"]]
            yield torch.from_numpy(words.numbers(batch["state"])), torch.tensor(done)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the folder of a run, or its id")
    taught = [name for name, scenario in SCENARIOS.items() if scenario.teacher is not None]
    parser.add_argument("--scenario", choices=taught, default="defend_the_center")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path, default=Path("words.safetensors"))
    asked = parser.parse_args(arguments)
    if asked.steps < 1:
        parser.error(f"--steps {asked.steps}: must be 1 or above")
    if not asked.save.absolute().parent.is_dir():
        parser.error(f"--save {asked.save}: there is no folder {asked.save.absolute().parent}")
    try:
        loss = learn(asked.run, asked.scenario, asked.save, asked.steps, asked.seed)
    except RolloutsError as error:
        print(f"words: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    print(f"{asked.save}: loss {loss:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
