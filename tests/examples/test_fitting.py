"""Fitting on numbers whose answer is known."""

from __future__ import annotations

from itertools import repeat

import pytest

torch = pytest.importorskip("torch", reason="torch is an extra (train)")


def signs() -> tuple[object, object]:
    seen = torch.linspace(-10, 10, 64).unsqueeze(1)
    return seen, (seen[:, 0] > 0).long()


def fitted(steps: int) -> tuple[object, float]:
    from examples.fitting import fit

    torch.manual_seed(3)
    network = torch.nn.Linear(1, 2)
    return network, fit(network, repeat(signs()), steps)


def test_it_learns_which_numbers_are_positive() -> None:
    network, loss = fitted(200)
    with torch.inference_mode():
        assert network(torch.tensor([[-2.0], [2.0]])).argmax(dim=1).tolist() == [0, 1]  # type: ignore[operator]
    assert loss < 0.3 < fitted(5)[1]


def test_the_same_again_is_the_same_network() -> None:
    one, other = (fitted(20)[0].state_dict() for _ in range(2))  # type: ignore[attr-defined]
    assert all(torch.equal(one[name], other[name]) for name in one)
