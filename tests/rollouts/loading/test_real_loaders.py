"""The torch dataset under torch's own loader and torch's own ranks: processes that are forked and spawned."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rollouts.evidence.committed_run import CommittedRun
from rollouts.readers import torch_dataset
from tests.row_runs import Key, keys_of, place, row_run, run_script

torch = pytest.importorskip("torch", reason="torch is an extra")
from torch.utils.data import DataLoader  # noqa: E402

from rollouts.loading.torch_rows import TorchRows  # noqa: E402

pytestmark = pytest.mark.slow
SIZES = (10, 7, 1)
KEY = ("episode_id", "tick")
NewDataset = Callable[..., TorchRows]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CommittedRun:
    return row_run(tmp_path_factory.mktemp("rows"), SIZES)


@pytest.fixture(scope="module")
def run_place(run: CommittedRun) -> str:
    return place(run)


def loader(dataset: TorchRows, **settings: Any) -> DataLoader[Any]:
    return DataLoader(dataset, **{"batch_size": None, "num_workers": 2, "multiprocessing_context": "fork", **settings})


def keys(batches: Any) -> list[Key]:
    return [key for b in batches for key in zip(b["episode_id"], b["tick"].tolist(), strict=True)]


@pytest.mark.parametrize(("start", "persistent"), [("fork", False), ("fork", True), ("spawn", True)])
def test_each_pass_of_a_loader_has_each_row_once_in_another_order(
    run: CommittedRun, start: str, persistent: bool
) -> None:
    """A look at the first row in this process comes before; that is a pass too."""
    dataset = torch_dataset(place(run), KEY, batch_size=4)
    next(iter(dataset))
    two = loader(dataset, multiprocessing_context=start, persistent_workers=persistent)
    passes = [keys(two) for _ in range(2)]
    assert [sorted(of_pass) for of_pass in passes] == [keys_of(run, SIZES)] * 2
    assert passes[0] != passes[1]
    dataset.set_epoch(1)
    assert keys(two) == passes[0]


def test_rows_that_the_loader_collates(run_place: str) -> None:
    batches = list(loader(torch_dataset(run_place, ["frame", "tick", "state"]), batch_size=4))
    assert sum(len(batch["tick"]) for batch in batches) == 18
    assert {batch["frame"].shape[1:] for batch in batches} == {(3, 12, 16)}


@pytest.mark.parametrize("batches", [1, 4])
def test_a_plain_loader_goes_on_where_it_was_left(run_place: str, batches: int) -> None:
    """The pass that is broken off is the second one."""
    whole, broken, resumed = (torch_dataset(run_place, KEY, batch_size=4) for _ in range(3))
    passes = [[*loader(whole)] for _ in range(3)]
    list(loader(broken))
    taken = [batch for batch, _ in zip(loader(broken), range(batches), strict=False)]
    state = json.loads(json.dumps(broken.state_after(batches, num_workers=2)))
    resumed.load_state_dict(state)
    rest = list(loader(resumed))
    assert keys(taken) == keys(passes[1][:batches])
    assert sorted(keys(rest)) == sorted(keys(passes[1][batches:]))
    assert keys(loader(resumed)) == keys(passes[2])


def first_worker_is_late(number: int) -> None:
    if number == 0:
        time.sleep(0.3)


def test_workers_agree_on_the_pass_where_all_passes_have_one_seed(run: CommittedRun, run_place: str) -> None:
    """A program that seeds torch before each pass, for the sake of repeatable training."""
    dataset = torch_dataset(run_place, KEY, batch_size=4)
    passes = []
    for _ in range(3):
        torch.manual_seed(0)
        passes.append(keys(loader(dataset, worker_init_fn=first_worker_is_late)))
    assert [sorted(of_pass) for of_pass in passes] == [keys_of(run, SIZES)] * 3
    assert passes[0] != passes[1] != passes[2]


def test_a_pass_that_was_resumed_is_resumed_again(run: CommittedRun, run_place: str) -> None:
    """Its workers do not stand where an undisturbed pass has them; nothing is taken before the last resumption."""
    given, state = [], None
    for batches in (1, 1, 0, 99):
        dataset = torch_dataset(run_place, KEY, batch_size=4)
        if state is not None:
            dataset.load_state_dict(state)
        if batches:
            given += keys(itertools.islice(loader(dataset), batches))
        state = dataset.state_after(batches, num_workers=2)
    assert sorted(given) == keys_of(run, SIZES)


READ_THEN_LOAD = """
import time
from torch.utils.data import DataLoader
from rollouts.readers import iter_batches, torch_dataset

if __name__ == "__main__":
    began = time.monotonic()
    batches = iter_batches(PLACE)
    assert next(batches)["tick"][0].as_py() == 0
    dataset = torch_dataset(PLACE, ["frame", "tick"], shuffle=False)
    assert next(iter(dataset))["tick"] == 0
    settings = {"multiprocessing_context": START, "persistent_workers": START == "spawn"}
    loader = DataLoader(dataset, batch_size=1, num_workers=2, **settings)
    assert sum(len(batch["frame"]) for batch in loader) == 18
    for number, row in enumerate(loader):
        if number == 2:
            break
    assert time.monotonic() - began < 60
    print("read")
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_parent_that_has_read_may_load_with_workers_and_leave_early(run_place: str, start: str) -> None:
    """Row 0 in the parent, all rows by two workers, three rows of another pass, and out: in 60 s (the import of torch
    apart), exit code 0."""
    done = run_script(READ_THEN_LOAD.replace("PLACE", repr(run_place)).replace("START", repr(start)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "read\n", "")


RANK = """
import os, torch, torch.distributed as dist
from rollouts.readers import torch_dataset

dist.init_process_group("gloo", init_method="file://" + os.environ["MEET"], rank=int(os.environ["RANK"]), world_size=2)
dataset = torch_dataset(os.environ["RUN"], ["tick", "seed"], batch_size=4, even="drop")
batches, total = 0, 0
for batch in dataset:
    rows = torch.tensor(len(batch["tick"]))
    dist.all_reduce(rows)
    batches, total = batches + 1, total + int(rows)
print(batches, total)
dist.destroy_process_group()
"""


def test_uneven_shards_do_not_make_ranks_wait(tmp_path: Path) -> None:
    """11 rows in one shard and 6 in the other, batches of 4, an all-reduce a batch: one row is left out, 8 are given to
    each rank."""
    told_to_all = {"MEET": str(tmp_path / "meet"), "RUN": place(row_run(tmp_path / "runs", (11, 6)))}
    with ThreadPoolExecutor(2) as ranks:
        done = list(
            ranks.map(lambda rank: run_script(RANK, **told_to_all, RANK=str(rank), GLOO_SOCKET_IFNAME="lo"), range(2))
        )
    assert [(one.returncode, one.stdout.strip()) for one in done] == [(0, "2 16")] * 2, done
