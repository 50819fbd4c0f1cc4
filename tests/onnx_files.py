"""Small ONNX files, made on the spot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper, save


def mean_colour(
    path: Path,
    size: tuple[int | str, int | str] = ("h", "w"),
    batch: int | str = "n",
    weight: tuple[float, ...] = (1.0, 1.0, 1.0),
    metadata: dict[str, str] | None = None,
) -> Path:
    """Frames in [0, 1] to their mean red, green and blue, each times its weight."""
    frames = helper.make_tensor_value_info("frames", TensorProto.FLOAT, [batch, 3, *size])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 3])
    nodes = [
        helper.make_node("GlobalAveragePool", ["frames"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["means"]),
        helper.make_node("Mul", ["means", "weight"], ["scores"]),
    ]
    weights = [numpy_helper.from_array(np.array(weight, np.float32), "weight")]
    return _save(path, helper.make_graph(nodes, "mean colour", [frames], [scores], weights), metadata)


def count_words(path: Path, length: int, metadata: dict[str, str] | None = None) -> Path:
    """Word numbers (n, length) to three scores: how many words there are, 0 and 0."""
    words = helper.make_tensor_value_info("words", TensorProto.INT64, ["n", length])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 3])
    nodes = [
        helper.make_node("Sign", ["words"], ["there"]),
        helper.make_node("Cast", ["there"], ["counted"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["counted", "first"], ["scores"]),
    ]
    first = np.zeros((length, 3), np.float32)
    first[:, 0] = 1
    return _save(
        path,
        helper.make_graph(nodes, "words", [words], [scores], [numpy_helper.from_array(first, "first")]),
        metadata,
    )


def _save(path: Path, graph: object, metadata: dict[str, str] | None) -> Path:
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    if metadata:
        helper.set_model_props(model, metadata)
    save(model, path)
    return path
