"""The torch dataset: what each rank and worker gets, pass by pass, and that a broken pass goes on where it was."""

from __future__ import annotations

import itertools
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollouts.errors import UsageError
from rollouts.evidence.committed_run import CommittedRun
from rollouts.loading.order import Even
from rollouts.readers import DamagedFrame, torch_dataset
from tests.row_runs import Key, Shard, answering, keys_of, place, planes, row_run

torch = pytest.importorskip("torch", reason="torch is an extra")
from rollouts.loading.torch_rows import TorchRows, given_in_turns  # noqa: E402
from tests.loaders import one_pass, one_pass_in_parts  # noqa: E402

pytestmark = pytest.mark.slow
KEY = ("episode_id", "tick")
SIZES = (10, 7, 1)
MATRIX = [*itertools.product((1, 2, 4), (0, 1, 2, 5))]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CommittedRun:
    return row_run(tmp_path_factory.mktemp("rows"), SIZES)


def of_rank(run: CommittedRun, rank: int, world: int, **settings: Any) -> TorchRows:
    return torch_dataset(place(run), KEY, rank=rank, world_size=world, **settings)


def ranks(run: CommittedRun, world: int, **settings: Any) -> list[TorchRows]:
    return [of_rank(run, rank, world, **settings) for rank in range(world)]


def keys(items: list[list[Any]]) -> list[Key]:
    """Of rows, worker by worker."""
    return [(item["episode_id"], item["tick"]) for of_worker in items for item in of_worker]


def batch_keys(items: list[Any]) -> list[Key]:
    return [key for item in items for key in zip(item["episode_id"], item["tick"].tolist(), strict=True)]


@pytest.mark.parametrize(("world", "workers"), MATRIX)
def test_none_gives_each_row_exactly_once_a_pass(run: CommittedRun, world: int, workers: int) -> None:
    datasets, again = ranks(run, world), ranks(run, world)
    passes = [[keys(one_pass(dataset, workers)) for dataset in datasets] for _ in range(2)]
    rows = keys_of(run, SIZES)
    for of_pass in passes:
        assert sorted(key for of_rank in of_pass for key in of_rank) == rows
    assert passes[0] != passes[1]
    assert [keys(one_pass(dataset, workers)) for dataset in again] == passes[0]
    assert [len(of_rank) for of_rank in passes[0]] == [dataset.rows_on_rank() for dataset in datasets]


@pytest.mark.parametrize(("world", "workers"), MATRIX)
@pytest.mark.parametrize("even", ["drop", "repeat"])
def test_every_rank_has_equally_many_batches(run: CommittedRun, world: int, workers: int, even: Even) -> None:
    """18 rows: two are left out of a world of 4, or two are given twice; other worlds divide them."""
    datasets = ranks(run, world, even=even, batch_size=4)
    orders = set()
    for _ in range(2):
        passes = [one_pass(dataset, workers) for dataset in datasets]
        assert len({tuple(len(items) for items in of_rank) for of_rank in passes}) == 1
        sizes = {tuple(len(item["tick"]) for items in of_rank for item in items) for of_rank in passes}
        assert len(sizes) == 1
        given = [key for of_rank in passes for items in of_rank for key in batch_keys(items)]
        times = Counter(given)
        assert len(given) == {1: 18, 2: 18, 4: 16 if even == "drop" else 20}[world]
        assert 18 - len(times) == (2 if even == "drop" and world == 4 else 0)
        assert max(times.values()) == (2 if even == "repeat" and world == 4 else 1)
        orders.add(tuple(given))
    assert len(orders) == 2


def test_more_ranks_than_rows(run: CommittedRun) -> None:
    with pytest.raises(UsageError, match=r"^even 'drop' leaves none of 18 rows to 19 ranks: "):
        of_rank(run, 0, 19, even="drop")
    assert [len(one_pass(dataset)[0]) for dataset in ranks(run, 19, even="repeat")] == [1] * 19
    assert sum(len(one_pass(dataset)[0]) for dataset in ranks(run, 19)) == 18


@pytest.mark.parametrize(("world", "workers"), MATRIX)
def test_a_pass_that_was_broken_off_goes_on_with_exactly_the_rest(run: CommittedRun, world: int, workers: int) -> None:
    """Each worker stops after another number of rows of the second pass; the third pass is whole again."""
    stops = [n % 3 for n in range(workers or 1)]
    for rank in range(world):
        whole = of_rank(run, rank, world)
        one_pass(whole, workers)
        second, third = one_pass(whole, workers), one_pass(whole, workers)
        broken = of_rank(run, rank, world)
        one_pass(broken, workers)
        first_part = one_pass_in_parts(broken, workers, stops)
        states = [json.loads(json.dumps(state)) for _, state in first_part]
        fresh = of_rank(run, rank, world)
        rest = one_pass_in_parts(fresh, workers, None, states)
        assert [a + b for (a, _), (b, _) in zip(first_part, rest, strict=True)] == second
        assert one_pass(fresh, workers) == third


def test_another_seed_gives_another_order_and_no_shuffle_the_order_of_the_shards(run: CommittedRun) -> None:
    orders = [keys(one_pass(torch_dataset(place(run), KEY, seed=seed))) for seed in (0, 1, 0)]
    assert orders[0] == orders[2] != orders[1]
    unshuffled = torch_dataset(place(run), KEY, shuffle=False)
    assert [keys(one_pass(unshuffled, workers)) for workers in (0, 2)] == [keys_of(run, SIZES)] * 2


def test_set_epoch_makes_a_pass_the_one_of_that_number(run: CommittedRun) -> None:
    counted = torch_dataset(place(run), KEY)
    passes = [one_pass(counted) for _ in range(4)]
    told = torch_dataset(place(run), KEY)
    for epoch in (3, 1):
        told.set_epoch(epoch)
        assert one_pass(told) == passes[epoch]
    assert one_pass(told) == passes[2]


def test_a_look_at_the_first_rows_in_this_process_does_not_part_the_workers(run: CommittedRun) -> None:
    """Each pass must be one pass for all workers, whoever read before, with however many workers."""
    dataset = torch_dataset(place(run), KEY)
    next(iter(dataset))
    for workers in (2, 5, 1, 5, 0, 2):
        assert sorted(keys(one_pass(dataset, workers))) == keys_of(run, SIZES)


def test_an_iterator_that_gives_nothing_is_no_pass(run: CommittedRun) -> None:
    dataset, other = torch_dataset(place(run), KEY), torch_dataset(place(run), KEY)
    iter(dataset)
    assert one_pass(dataset) == one_pass(other)


def test_rows_are_dicts_of_python_values_and_an_rgb_tensor(run: CommittedRun) -> None:
    dataset = torch_dataset(place(run), ["tick", "frame", "teacher_action", "confidence", "options"], shuffle=False)
    row = next(iter(dataset))
    assert [*row] == ["tick", "frame", "teacher_action", "confidence", "options"]
    assert (row["tick"], row["teacher_action"], row["confidence"]) == (0, "turn left", 1.0)
    assert row["options"] == ["attack", "turn left", "turn right"]
    assert (row["frame"].dtype, row["frame"].is_contiguous()) == (torch.uint8, True)
    assert np.array_equal(row["frame"].numpy(), planes(0, 0))


def test_batches_hold_tensors_of_numbers_and_lists_of_texts(tmp_path: Path) -> None:
    run = row_run(tmp_path, [Shard(5, decide=answering(["attack"] * 5))])
    columns = ["frame", "tick", "asked", "confidence", "health", "tokens_in", "state"]
    first, second = torch_dataset(place(run), columns, batch_size=3, shuffle=False)
    assert first["frame"].shape == (3, 3, 12, 16)
    assert np.array_equal(second["frame"].numpy(), np.stack([planes(0, 3), planes(0, 4)]))
    assert (first["tick"].dtype, second["tick"].tolist()) == (torch.int64, [3, 4])
    assert (first["asked"].dtype, first["health"].tolist()) == (torch.bool, [100, 99, 98])
    assert first["confidence"].isnan().all()
    assert first["tokens_in"] == [None] * 3
    assert second["state"] == ["Nothing is in view at decision 3.", "Nothing is in view at decision 4."]


def test_batches_hold_the_rows_that_single_rows_would_be(run: CommittedRun) -> None:
    rows = keys(one_pass(torch_dataset(place(run), KEY)))
    batches = one_pass(torch_dataset(place(run), KEY, batch_size=4))[0]
    assert [len(batch["tick"]) for batch in batches] == [4, 4, 4, 4, 2]
    assert batch_keys(batches) == rows


def test_each_frame_stays_with_its_row(run: CommittedRun) -> None:
    unit_of = {unit.keys()[0].episode_id: unit.number for unit in run.plan}
    for item in torch_dataset(place(run), ["episode_id", "tick", "frame"], batch_size=4):
        for episode, tick, frame in zip(item["episode_id"], item["tick"].tolist(), item["frame"], strict=True):
            assert np.array_equal(frame.numpy(), planes(unit_of[episode], tick))


def test_a_transform_is_applied_to_each_item(run: CommittedRun) -> None:
    dataset = torch_dataset(place(run), ["tick"], transform=lambda row: -row["tick"], shuffle=False)
    assert list(dataset)[:3] == [0, -1, -2]


def test_filters_are_counted_before_rows_are_split(tmp_path: Path) -> None:
    """11 wanted rows in the first shard and 5 in the second, 16 in all."""
    actions = ["attack", "turn left"]
    shards = [Shard(22, decide=answering(actions * 11)), Shard(10, decide=answering(actions * 5))]
    run = row_run(tmp_path, shards)
    datasets = ranks(run, 2, even="drop", disagreement="model", batch_size=4)
    assert [dataset.rows_on_rank() for dataset in datasets] == [8, 8]
    assert [[len(batch["tick"]) for batch in dataset] for dataset in datasets] == [[4, 4]] * 2
    assert all(tick % 2 == 0 for dataset in datasets for _, tick in batch_keys(list(dataset)))


def test_a_damaged_frame_is_told_with_its_shard_and_row(tmp_path: Path) -> None:
    run = row_run(tmp_path, [3, Shard(5, frame=lambda unit, tick: b"\x89PNG no" if tick == 3 else _whole(unit, tick))])
    told = r"made/steps/part-0000001\.parquet, row 3: the frame cannot be decoded: "
    for settings in ({}, {"batch_size": 2}, {"shuffle": False, "batch_size": 8}):
        with pytest.raises(DamagedFrame, match=told):
            list(torch_dataset(place(run), ["frame"], **settings))
    assert len(list(torch_dataset(place(run), ["state"]))) == 8


def _whole(unit: int, tick: int) -> bytes | None:
    return Shard(1).frame(unit, tick)


def test_a_run_without_frames_is_told(tmp_path: Path) -> None:
    run = row_run(tmp_path, [Shard(2, frame=lambda unit, tick: None)])
    with pytest.raises(UsageError, match=r"part-0000000\.parquet, row [01] has no frame"):
        next(iter(torch_dataset(place(run))))


def test_a_position_of_another_reading_is_refused(run: CommittedRun, tmp_path: Path) -> None:
    state = torch_dataset(place(run), KEY, seed=1).state_dict()
    with pytest.raises(UsageError, match=r"^the stored position is of another reading: seed 1, now 2$"):
        torch_dataset(place(run), KEY, seed=2).load_state_dict(state)
    grown = row_run(tmp_path, (*SIZES, 2))
    with pytest.raises(UsageError, match=r"another reading: rows 18, now 20$"):
        torch_dataset(place(grown), KEY, seed=1).load_state_dict(state)
    filtered = torch_dataset(place(run), KEY, seed=1, policy="oracle")
    filtered.load_state_dict(state)
    resumed = torch_dataset(place(run), KEY, seed=1)
    resumed.load_state_dict(state)
    with pytest.raises(UsageError, match=r"^the stored position is of workers \[0\] of 1, and this is worker 0 of 2$"):
        one_pass(resumed, 2)


def test_a_position_at_the_end_of_a_pass_is_the_beginning_of_the_next(run: CommittedRun) -> None:
    dataset, other = torch_dataset(place(run), KEY), torch_dataset(place(run), KEY)
    one_pass(dataset)
    other.load_state_dict(dataset.state_dict())
    assert one_pass(other) == one_pass(dataset)


def test_set_epoch_of_the_resumed_pass_keeps_its_position(run: CommittedRun) -> None:
    """As in `for epoch in range(stored, n): dataset.set_epoch(epoch)`."""
    whole, broken, resumed = (torch_dataset(place(run), KEY) for _ in range(3))
    passes = [one_pass(whole)[0] for _ in range(3)]
    broken.set_epoch(1)
    taken = list(itertools.islice(broken, 5))
    resumed.load_state_dict(broken.state_dict())
    resumed.set_epoch(1)
    assert taken + one_pass(resumed)[0] == passes[1]
    resumed.set_epoch(2)
    assert one_pass(resumed)[0] == passes[2]
    resumed.set_epoch(1)
    assert one_pass(resumed)[0] == passes[1]


@pytest.mark.parametrize(
    ("items", "total", "given"),
    [
        ([3, 3], 0, [0, 0]),
        ([3, 3], 3, [2, 1]),
        ([1, 4, 2], 5, [1, 2, 2]),
        ([1, 4, 2], 6, [1, 3, 2]),
        ([1, 4, 2], 99, [1, 4, 2]),
        ([0, 2], 1, [0, 1]),
    ],
)
def test_workers_take_turns_as_long_as_they_have_items(items: list[int], total: int, given: list[int]) -> None:
    assert given_in_turns(items, total) == given


def test_a_copy_by_pickle_reads_the_same(run: CommittedRun) -> None:
    dataset = torch_dataset(place(run), KEY, disagreement=None)
    assert one_pass(pickle.loads(pickle.dumps(dataset)), 2) == one_pass(dataset, 2)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"rank": 2, "world_size": 2}, r"^rank 2 of a world of 2: give 0 to world_size - 1$"),
        ({"rank": 0}, r"^rank 0 and world_size None: give both, or neither$"),
        ({"batch_size": 0}, r"^batch_size 0: give a number from 1"),
        ({"even": "pad"}, r"^even 'pad': give 'none', 'drop' or 'repeat'$"),
        ({"seed": -1}, r"^seed -1: give a number from 0$"),
        ({"disagreement": "model"}, r"^there is no row to train on: "),
    ],
)
def test_what_cannot_be_meant_is_told_in_a_line(run: CommittedRun, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        torch_dataset(place(run), KEY, **settings)


def test_the_rank_is_what_the_launcher_says(run: CommittedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    told = torch_dataset(place(run), KEY)
    assert one_pass(told) == one_pass(of_rank(run, 1, 2))
