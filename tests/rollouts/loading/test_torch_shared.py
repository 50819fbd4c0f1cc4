"""Tensors in shared memory that are made ahead: each its own, whatever size is asked for next."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")


def test_each_tensor_is_shared_of_its_shape_and_nobody_elses() -> None:
    from rollouts.loading.torch_shared import SharedTensors

    tensors = SharedTensors()
    made = [tensors.empty(shape).fill_(n) for n, shape in enumerate([(2, 3, 50, 60), (2, 3, 50, 60), (1, 3, 50, 60)])]
    assert [tuple(tensor.shape) for tensor in made] == [(2, 3, 50, 60), (2, 3, 50, 60), (1, 3, 50, 60)]
    assert all(tensor.is_shared() and tensor.dtype == torch.uint8 for tensor in made)
    assert [set(tensor.flatten().tolist()) for tensor in made] == [{0}, {1}, {2}]
