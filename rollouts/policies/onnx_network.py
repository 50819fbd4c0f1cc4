"""`onnx:PATH.onnx`: a network from an ONNX file, run by onnxruntime.

One input, float32 in [0, 1] or uint8 (n, 3, H, W) for frames, or int64 or int32 (n, length) for words; the first output
is the scores (n, options). Where the file fixes n, decisions are asked one after the other. Weights in files of their
own are refused: they would be no part of the checkpoint's hash.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollouts.errors import UsageError
from rollouts.policies.base import PolicyContext
from rollouts.policies.checkpoints import check_file, hash_of, need
from rollouts.policies.gpu import total_memory_bytes
from rollouts.policies.network import Network, NetworkPolicy
from rollouts.policies.network_card import NetworkCard, find_card
from rollouts.records import PolicyDescription
from rollouts.scrub import describe_error

_DTYPES: dict[str, Any] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}
_CUDA = "CUDAExecutionProvider"


def make_onnx_policy(context: PolicyContext) -> NetworkPolicy:
    """Errors: UsageError for a missing package, a file that is no ONNX, inputs or options that do not fit."""
    if context.argument is None:
        raise UsageError("policy 'onnx' needs a file: onnx:PATH.onnx")
    path, spec = Path(context.argument), f"onnx:{context.argument}"
    ort = need("onnxruntime", spec, "onnx")
    check_file(path, ".onnx", spec)
    session = _session(ort, path, context.gpus or 0.0, spec)
    given = _only_input(session, spec)
    card = _fitting(find_card(path, session.get_modelmeta().custom_metadata_map, spec), given, spec)
    who = PolicyDescription(
        name=f"onnx:{path.stem}",
        kind="model",
        model="onnx",
        checkpoint_hash=hash_of([path]),
        settings={"card": card.as_json()},
    )
    return NetworkPolicy(Network(card.inputs(), _Scores(session, given), card.options), who, context.scenario)


@dataclass(frozen=True)
class _Input:
    """`shape` has None where the file leaves a size open."""

    name: str
    dtype: Any
    shape: tuple[int | None, ...]


class _Scores:
    """Runs a session, on frames as the file wants them: bytes, or numbers from 0 to 1."""

    def __init__(self, session: Any, given: _Input) -> None:
        self._session = session
        self._given = given

    def __call__(self, seen: NDArray[np.generic]) -> NDArray[np.floating]:
        wanted = self._given.dtype
        given = seen.astype(wanted)
        if seen.dtype == np.uint8 and wanted != np.uint8:
            given /= 255
        if self._given.shape[0] is None:
            return self._run(given)
        return np.concatenate([self._run(row[np.newaxis]) for row in given])

    def _run(self, given: NDArray[np.generic]) -> NDArray[np.floating]:
        scores: NDArray[np.floating] = self._session.run(None, {self._given.name: given})[0]
        return scores


def _session(ort: Any, path: Path, gpus: float, spec: str) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4  # errors come as exceptions
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = _providers(ort, gpus, spec)
    try:
        return ort.InferenceSession(path.read_bytes(), options, providers=providers)
    except Exception as error:
        raise UsageError(f"policy {spec!r}: {path.name!r} cannot be loaded: {describe_error(error)}") from error


def _providers(ort: Any, gpus: float, spec: str) -> list[Any]:
    """The CPU, or the part of a GPU that is ours and nothing else: work must not wander off to the CPU unseen."""
    if not gpus:
        return ["CPUExecutionProvider"]
    total = total_memory_bytes()
    if total is None or _CUDA not in ort.get_available_providers():
        raise UsageError(
            f"policy {spec!r} was given {gpus:g} of a GPU, but onnxruntime {ort.__version__} sees none here "
            "(it takes a GPU and pip install onnxruntime-gpu)"
        )
    return [(_CUDA, {"gpu_mem_limit": str(int(total * gpus))} if gpus < 1 else {})]


def _only_input(session: Any, spec: str) -> _Input:
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type not in _DTYPES:
        found = ", ".join(f"{i.name} {i.type} {i.shape}" for i in inputs)
        raise UsageError(f"policy {spec!r}: takes one input of {', '.join(_DTYPES)}; the file has {found}")
    (found,) = inputs
    sizes = tuple(size if isinstance(size, int) else None for size in found.shape)
    if sizes and sizes[0] not in (None, 1):
        raise UsageError(f"policy {spec!r}: the file takes {sizes[0]} decisions at once: leave that open, or make it 1")
    return _Input(found.name, _DTYPES[found.type], sizes)


def _fitting(card: NetworkCard | None, given: _Input, spec: str) -> NetworkCard:
    """The card as the file's own input completes it: by its rank and its fixed sizes."""
    match given.shape:
        case (_, (3 | None), height, width):
            size = None if height is None or width is None else (height, width)
            card = card or NetworkCard(observes="frame")
            fits = card.observes == "frame" and (size is None or card.frame_size in (None, size))
            fitted = replace(card, frame_size=size or card.frame_size)
        case (_, length) if card is not None:
            fits = card.observes == "text" and length in (None, card.length)
            fitted = card
        case _:
            fits, fitted = False, NetworkCard()
    if not fits:
        raise UsageError(
            f"policy {spec!r}: the file's input is {list(given.shape)}: must be (n, 3, height, width) for frames, or "
            "(n, length) with a card that says observes, buckets and length"
        )
    return fitted
