"""Who gets which rows of a pass, by counting; no files."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rollouts.loading.order import Even, PassOrder, Place, rank_rows, worker_rows

WORLDS = (1, 2, 4)
WORKERS = (1, 2, 5)


def given(counts: list[int], order: PassOrder, wanted: range) -> list[tuple[int, int]]:
    windows = order.windows(wanted)
    return [(int(p), int(r)) for window in windows for p, r in zip(window.pieces, window.rows, strict=True)]


@pytest.mark.parametrize(("total", "world", "workers"), [*itertools.product((0, 1, 18, 19), WORLDS, WORKERS)])
def test_none_cuts_a_pass_without_gap_or_overlap(total: int, world: int, workers: int) -> None:
    places = [Place(r, world, w, workers) for r in range(world) for w in range(workers)]
    rows = [row for place in places for row in worker_rows(total, "none", place)]
    assert rows == list(range(total))


@pytest.mark.parametrize(("even", "each"), [("drop", 4), ("repeat", 5)])
def test_eighteen_rows_on_four_ranks(even: Even, each: int) -> None:
    """18 = 4 × 4 + 2: two are left out, or two are given twice."""
    rows = [row for rank in range(4) for row in rank_rows(18, even, Place(rank, 4))]
    assert [len(rank_rows(18, even, Place(rank, 4))) for rank in range(4)] == [each] * 4
    assert rows == list(range(4 * each))


@pytest.mark.parametrize(("total", "world", "workers"), [*itertools.product((1, 18), WORLDS, WORKERS)])
@pytest.mark.parametrize("even", ["drop", "repeat"])
def test_the_nth_workers_of_all_ranks_have_equally_many(even: Even, total: int, world: int, workers: int) -> None:
    for worker in range(workers):
        sizes = {len(worker_rows(total, even, Place(rank, world, worker, workers))) for rank in range(world)}
        assert len(sizes) == 1


def test_unshuffled_rows_come_as_they_lie() -> None:
    counts = [3, 1, 2]
    order = PassOrder(np.array(counts), 0, 0, 0)
    assert given(counts, order, range(6)) == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]
    assert given(counts, order, range(2, 5)) == [(0, 2), (1, 0), (2, 0)]


def test_a_stretch_beyond_the_end_goes_on_at_the_beginning() -> None:
    order = PassOrder(np.array([2, 1]), 0, 0, 0)
    assert given([2, 1], order, range(2, 8)) == [(1, 0), (0, 0), (0, 1), (1, 0), (0, 0), (0, 1)]
    assert given([], PassOrder(np.array([], np.int64), 4, 0, 0), range(3)) == []


@pytest.mark.parametrize("mix", [1, 2, 16])
def test_a_shuffled_pass_has_every_row_once_however_it_is_cut(mix: int) -> None:
    counts = [10, 7, 1, 4, 4]
    order = PassOrder(np.array(counts), mix, 5, 0)
    whole = given(counts, order, range(26))
    assert sorted(whole) == [(piece, row) for piece, rows in enumerate(counts) for row in range(rows)]
    cut = [given(counts, order, range(a, b)) for a, b in ((0, 3), (3, 17), (17, 26))]
    assert [row for part in cut for row in part] == whole


def test_passes_and_seeds_differ_and_repeat() -> None:
    counts = [10, 7, 1]
    passes = {
        (seed, epoch): tuple(given(counts, PassOrder(np.array(counts), 16, seed, epoch), range(18)))
        for seed, epoch in itertools.product((0, 1), (0, 1, 2))
    }
    assert len(set(passes.values())) == 6
    assert passes[1, 2] == tuple(given(counts, PassOrder(np.array(counts), 16, 1, 2), range(18)))


def test_rows_are_mixed_within_a_window_alone() -> None:
    """Of pieces of 8 rows, two to a window: the first 16 rows of a pass are those of two pieces, not in order."""
    counts = [8] * 6
    first = given(counts, PassOrder(np.array(counts), 2, 0, 0), range(16))
    assert len({piece for piece, _ in first}) == 2
    assert first != sorted(first)
    assert len({piece for piece, _ in first[:8]}) == 2
