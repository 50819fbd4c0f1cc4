"""One driver at a time: refused, taken over, noticed."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rollouts.errors import LeaseError
from rollouts.run.lease import Holder, Lease, acquire_lease, read_holder, write_holder
from rollouts.run.run_folder import RunFolder
from rollouts.store.storage import LocalStorage
from tests.shard_doubles import RUN_ID, hold_lease, try_lease

PATH = f"{RUN_ID}/lease.json"
NOW = 1_800_000_000.0
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.shard_doubles"])


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def run_process(target: Callable[[str], None], root: Path) -> int | None:
    process = PROCESSES.Process(target=target, args=(str(root),))
    process.start()
    process.join(30)
    return process.exitcode


def held(tmp_path: Path, clock: Clock | None = None) -> tuple[LocalStorage, Lease]:
    storage = LocalStorage(tmp_path)
    return storage, acquire_lease(storage, RUN_ID, clock or Clock())


def on_file(storage: LocalStorage) -> Holder:
    holder = read_holder(storage, PATH)
    assert holder is not None
    return holder


def from_elsewhere(storage: LocalStorage) -> Holder:
    """Make the holder on file one of another machine."""
    holder = replace(on_file(storage), host="elsewhere", token="0" * 8)
    write_holder(storage, PATH, holder)
    return holder


def take(storage: LocalStorage, now: float, while_waiting: Callable[[float], None] = lambda _: None) -> Lease:
    return acquire_lease(storage, RUN_ID, lambda: now, while_waiting)


def never(_: float) -> None:
    pytest.fail("it waited")


def test_the_lease_names_its_holder(tmp_path: Path) -> None:
    storage, lease = held(tmp_path)
    said = json.loads(storage.read_bytes(PATH))
    assert (said["pid"], said["epoch"], said["heartbeat"], said["released"]) == (os.getpid(), 1, NOW, False)
    assert {"host", "boot", "process_started", "token"} <= said.keys()
    lease.check()


def test_a_second_driver_is_refused_with_the_holders_name(tmp_path: Path) -> None:
    storage, _ = held(tmp_path)
    with pytest.raises(LeaseError, match=rf"in use by process {os.getpid()} on "):
        take(storage, NOW + 1)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    acquire_lease(LocalStorage(tmp_path), RUN_ID)
    assert run_process(try_lease, tmp_path) == 3


def test_a_dead_holder_here_is_replaced_at_once(tmp_path: Path) -> None:
    assert run_process(hold_lease, tmp_path) == -9
    lease = acquire_lease(LocalStorage(tmp_path), RUN_ID, pause=never)
    assert lease.epoch == 2


def test_a_process_that_got_the_dead_ones_id_is_not_the_holder(tmp_path: Path) -> None:
    storage, _ = held(tmp_path)
    write_holder(storage, PATH, replace(on_file(storage), process_started=12.0))
    assert take(storage, NOW + 1, never).epoch == 2


def test_the_same_id_in_another_container_says_nothing(tmp_path: Path) -> None:
    storage, _ = held(tmp_path)
    write_holder(storage, PATH, replace(on_file(storage), boot="same-boot pid:[1]", pid=2**22 + 1))
    with pytest.raises(LeaseError):
        take(storage, NOW + 59)


def test_another_machine_is_waited_for_60_s(tmp_path: Path) -> None:
    storage, _ = held(tmp_path)
    from_elsewhere(storage)
    with pytest.raises(LeaseError, match="on elsewhere"):
        take(storage, NOW + 59)
    waited: list[float] = []
    assert take(storage, NOW + 61, waited.append).epoch == 2
    assert waited == [10.0]


def test_a_machine_whose_clock_is_wrong_but_that_beats_is_alive(tmp_path: Path) -> None:
    storage, _ = held(tmp_path)
    holder = from_elsewhere(storage)

    def beat(_: float) -> None:
        write_holder(storage, PATH, replace(holder, heartbeat=holder.heartbeat + 5))

    with pytest.raises(LeaseError):
        take(storage, NOW + 1_000, beat)
    assert on_file(storage).host == "elsewhere"


def test_who_lost_the_lease_commits_and_writes_nothing_more(tmp_path: Path) -> None:
    clock = Clock()
    storage, first = held(tmp_path, clock)
    from_elsewhere(storage)
    second = take(storage, NOW + 100)
    clock.now += 100
    for attempt in (first.check, first.beat, first.release, first.held().__enter__):
        with pytest.raises(LeaseError, match="lost the lease"):
            attempt()
    second.check()


def test_a_driver_that_lost_the_lease_clears_nothing_of_the_next_ones(tmp_path: Path) -> None:
    clock = Clock()
    storage, first = held(tmp_path, clock)
    from_elsewhere(storage)
    take(storage, NOW + 100)
    staged = f"{RUN_ID}/.staging/part-0000001/e2-x-0/steps.staged"
    storage.write_bytes(staged, b"rows")
    clock.now += 100
    with pytest.raises(LeaseError, match="lost the lease"):
        RunFolder(storage, RUN_ID).finish(first)
    assert storage.read_bytes(staged) == b"rows"


def test_a_released_lease_is_free_and_epochs_grow(tmp_path: Path) -> None:
    storage, first = held(tmp_path)
    first.release()
    second = take(storage, NOW + 1, never)
    assert (first.epoch, second.epoch) == (1, 2)


def test_a_lease_that_is_gone_is_lost(tmp_path: Path) -> None:
    storage, lease = held(tmp_path)
    storage.delete(PATH)
    with pytest.raises(LeaseError, match="its file is gone"):
        lease.check()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"epoch": 3}'])
def test_a_torn_lease_holds_nobody_off(tmp_path: Path, content: bytes) -> None:
    storage = LocalStorage(tmp_path)
    storage.write_bytes(PATH, content)
    assert take(storage, NOW, never).epoch == 1


def test_attempts_never_share_a_name(tmp_path: Path) -> None:
    storage, first = held(tmp_path)
    mine = [first.next_attempt() for _ in range(3)]
    storage.delete(PATH)
    second = take(storage, NOW)
    theirs = [second.next_attempt() for _ in range(3)]
    assert first.epoch == second.epoch
    assert len({*mine, *theirs}) == 6
    assert all(name.startswith("e1-") for name in (*mine, *theirs))


def test_a_heartbeat_is_written_every_5_s(tmp_path: Path) -> None:
    clock = Clock()
    storage, lease = held(tmp_path, clock)
    for passed, said in ((4.9, 0.0), (5.0, 5.0), (9.9, 5.0), (10.1, 10.1)):
        clock.now = NOW + passed
        lease.beat()
        assert on_file(storage).heartbeat == pytest.approx(NOW + said)
