"""`torch:PATH.safetensors`: a network of ours, or `torch:PATH.safetensors@module:Class` with one of the user's.

A class of the user's gets frames as float32 (n, 3, H, W) in [0, 1], or word numbers as int64 (n, length), and returns
scores (n, options). It is named on the command line, never by the checkpoint: a file of data must not choose code.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollouts.errors import UsageError
from rollouts.importing import import_object
from rollouts.policies.base import PolicyContext
from rollouts.policies.checkpoints import check_file, hash_of, need
from rollouts.policies.gpu import torch_device
from rollouts.policies.network import Network, NetworkPolicy
from rollouts.policies.network_card import NetworkCard, find_card
from rollouts.records import PolicyDescription
from rollouts.scrub import describe_error

_FORM = "torch:PATH.safetensors or torch:PATH.safetensors@module:Class"
WITH_CLASS = re.compile(r"(?P<path>.+)@(?P<name>[A-Za-z_][\w.]*:[A-Za-z_]\w*)")


def make_torch_policy(context: PolicyContext) -> NetworkPolicy:
    """Errors: UsageError for a missing package, a file that is none of ours, weights or options that do not fit."""
    if context.argument is None:
        raise UsageError(f"policy 'torch' needs a checkpoint: {_FORM}")
    match = WITH_CLASS.fullmatch(context.argument)
    path, class_name = (Path(match["path"]), match["name"]) if match else (Path(context.argument), None)
    spec = f"torch:{context.argument}"
    torch = need("torch", spec, "torch")
    need("safetensors", spec, "torch")
    check_file(path, ".safetensors", spec)
    card = _card(path, class_name, spec)
    module = _loaded(path, card, class_name, len(card.options or context.scenario.options), spec)
    module = module.eval().to(torch_device(torch, context.gpus, spec))
    who = PolicyDescription(
        name=f"torch:{path.stem}",
        kind="model",
        model=class_name or card.architecture,
        checkpoint_hash=hash_of([path]),
        settings={"card": card.as_json()},
    )
    return NetworkPolicy(Network(card.inputs(), _Scores(torch, module), card.options), who, context.scenario)


class _Scores:
    """Runs a module where its weights are."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self._module = module
        self._device = next((p.device for p in module.parameters()), torch.device("cpu"))

    def __call__(self, seen: NDArray[np.generic]) -> NDArray[np.floating]:
        torch = self._torch
        with torch.inference_mode():
            given = torch.from_numpy(seen).to(self._device)
            if seen.dtype == np.uint8:
                given = given.float() / 255
            scores: NDArray[np.floating] = self._module(given).float().cpu().numpy()
        return scores


def _card(path: Path, class_name: str | None, spec: str) -> NetworkCard:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415  an extra

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise UsageError(f"policy {spec!r}: {path.name!r} is no safetensors file: {describe_error(error)}") from error
    card = find_card(path, metadata, spec)
    if card is None and class_name is not None:
        return NetworkCard()
    if card is None or (card.architecture is None and class_name is None):
        where = f'"{path.with_suffix(".json").name}" beside it'
        raise UsageError(
            f"policy {spec!r}: nothing says what network this is: give an architecture in the file's metadata or in "
            f"{where}, or a class of your own as {_FORM}"
        )
    return card


def _loaded(path: Path, card: NetworkCard, class_name: str | None, options: int, spec: str) -> Any:
    """The module with the file's weights, each in its place and of its shape."""
    from safetensors.torch import load_file  # noqa: PLC0415  an extra

    module = _built(card, class_name, options, spec)
    wanted, found = module.state_dict(), load_file(path)
    missing, strange = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    if missing or strange:
        parts = ((missing, "lacks"), (strange, "has the unknown"))
        told = " and ".join(f"{word} {_few(names)}" for names, word in parts if names)
        raise UsageError(f"policy {spec!r}: the checkpoint {told}: these are weights of another network")
    for name, tensor in wanted.items():
        if tuple(tensor.shape) != tuple(found[name].shape):
            raise UsageError(
                f"policy {spec!r}: {name} is {tuple(found[name].shape)} in the checkpoint, "
                f"{tuple(tensor.shape)} in a network with {options} options"
            )
    module.load_state_dict(found)
    return module


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _built(card: NetworkCard, class_name: str | None, options: int, spec: str) -> Any:
    from torch import nn  # noqa: PLC0415  an extra

    from rollouts.policies.torch_architectures import build  # noqa: PLC0415  imports torch

    try:
        if class_name is None:
            return build(card, options)
        made = _user_class(class_name, spec)(**card.settings)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"policy {spec!r}: the network cannot be built: {describe_error(error)}") from error
    if not isinstance(made, nn.Module):
        raise UsageError(f"policy {spec!r}: {class_name} makes a {type(made).__name__}, not a torch.nn.Module")
    return made


def _user_class(name: str, spec: str) -> Any:
    found = import_object(name, "network", f"name a class as {_FORM}")
    if not callable(found):
        raise UsageError(f"policy {spec!r}: {name} is not a class")
    return found
