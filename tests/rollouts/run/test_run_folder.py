"""A run folder after any fault holds what an undisturbed run leaves: no doubled key, no missing key, nothing torn."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from rollouts.errors import LeaseError, StorageError, TryVoid, UsageError
from rollouts.plan import episode_ids, owed
from rollouts.records import UnitReport
from rollouts.run.lease import read_holder, write_holder
from rollouts.run.run_folder import RunFolder
from rollouts.shards.schemas import EPISODES_EXEMPT, STEPS_EXEMPT
from rollouts.store.storage import LocalStorage, Storage
from tests.shard_doubles import (
    PLAN,
    RUN_ID,
    StepStorage,
    drive,
    drive_until,
    drive_until_each,
    files_below,
    is_broken,
    play,
    stage,
    start,
    unit,
)

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.shard_doubles"])
START_FILES = ["lease.json", "plan/0000000.parquet", "run.json"]
SHARDS = [f"episodes/part-000000{i}.parquet" for i in range(4)] + [f"steps/part-000000{i}.parquet" for i in (0, 1, 3)]
WHOLE = sorted(START_FILES + SHARDS)


def rows(root: Path, table: str, exempt: frozenset[str]) -> list[dict[str, Any]]:
    found = ds.dataset(root / RUN_ID / table, format="parquet").to_table().to_pylist()
    kept = [{name: value for name, value in row.items() if name not in exempt} for row in found]
    return sorted(kept, key=lambda row: (row["episode_id"], row.get("tick", 0)))


def tables(root: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return rows(root, "steps", STEPS_EXEMPT), rows(root, "episodes", EPISODES_EXEMPT)


def folder_in(root: Path) -> RunFolder:
    return RunFolder(LocalStorage(root), RUN_ID)


def orphan(folder: RunFolder) -> None:
    """Make the holder of the lease a dead process."""
    path = folder.path("lease.json")
    holder = read_holder(folder.storage, path)
    assert holder is not None
    write_holder(folder.storage, path, replace(holder, process_started=1.0))


@pytest.fixture
def undisturbed(tmp_path: Path) -> Path:
    drive(LocalStorage(tmp_path / "undisturbed"))
    return tmp_path / "undisturbed"


def test_a_run_leaves_its_shards_and_nothing_private(undisturbed: Path) -> None:
    assert files_below(undisturbed / RUN_ID) == WHOLE
    steps, episodes = tables(undisturbed)
    good = [key for each in PLAN for key in each.keys() if not is_broken(key)]  # noqa: SIM118
    assert {row["episode_id"] for row in steps} == {key.episode_id for key in good}
    assert len({(row["episode_id"], row["tick"]) for row in steps}) == len(steps) == sum(2 + k.seed % 3 for k in good)
    assert [row["episode_id"] for row in episodes] == sorted(i for each in PLAN for i in episode_ids(each))
    assert {row["seed"] for row in episodes if row["status"] == "failed"} == {13, 1313}


def test_a_finished_run_owes_nothing(undisturbed: Path) -> None:
    before = {path: (undisturbed / RUN_ID / path).read_bytes() for path in SHARDS}
    assert drive(LocalStorage(undisturbed)) == 0
    assert {path: (undisturbed / RUN_ID / path).read_bytes() for path in SHARDS} == before


def steps_of_a_run(root: Path) -> dict[str, int]:
    """Each step's name, the first of its kind, and its number."""
    said: list[str] = []
    drive(StepStorage(root, lambda _, name: said.append(name.replace(f"{RUN_ID}/", ""))))
    return {name: step for step, name in reversed(list(enumerate(said)))}


def check_kills(tmp_path: Path, undisturbed: Path, steps: dict[str, int]) -> None:
    """SIGKILL a driver at each step, then the same command again: is all as if nothing had happened?"""
    process = PROCESSES.Process(target=drive_until_each, args=(str(tmp_path), list(steps.values())))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    wanted = tables(undisturbed)
    for name, step in steps.items():
        root = tmp_path / str(step)
        drive(LocalStorage(root))
        assert tables(root) == wanted, name
        assert files_below(root / RUN_ID) == WHOLE, name


NAMED_STEPS = [
    "half of lease.json",
    "after put plan/0000000.parquet",
    "half of run.json",
    "before move steps/part-0000001.parquet",
    "after move steps/part-0000001.parquet",
    "after move episodes/part-0000001.parquet",
]


@pytest.mark.slow
def test_a_driver_killed_between_any_two_files_is_made_good(tmp_path: Path, undisturbed: Path) -> None:
    steps = steps_of_a_run(tmp_path / "counted")
    check_kills(tmp_path, undisturbed, {name: steps[name] for name in NAMED_STEPS})


@pytest.mark.slow
def test_a_driver_killed_at_any_step_is_made_good(tmp_path: Path, undisturbed: Path) -> None:
    """Before, after and in the middle of each operation on the run folder."""
    steps = steps_of_a_run(tmp_path / "counted")
    assert len(steps) > 40
    check_kills(tmp_path, undisturbed, steps)


@pytest.mark.slow
def test_a_driver_killed_again_and_again_gets_there(tmp_path: Path, undisturbed: Path) -> None:
    for kill in range(200):
        process = PROCESSES.Process(target=drive_until, args=(str(tmp_path / "run"), 5 + kill % 11))
        process.start()
        process.join(30)
        if process.exitcode == 0:
            break
    assert process.exitcode == 0
    assert tables(tmp_path / "run") == tables(undisturbed)


def test_a_killed_promotion_is_no_commit(tmp_path: Path) -> None:
    """Steps without episodes: deleted, owed, and played again with another outcome."""
    folder = folder_in(tmp_path)
    start(folder)
    with_steps = stage(folder, PLAN[0], "elsewhere")
    folder.storage.move(
        folder.path(".staging", PLAN[0].part, "elsewhere", "steps.staged"), steps_path(folder, with_steps)
    )
    orphan(folder)
    lease = folder.acquire()
    found = folder.recover(lease)
    assert found.orphans == (steps_path(folder, with_steps),)
    assert owed(PLAN, found.committed) == list(PLAN)
    assert files_below(tmp_path / RUN_ID) == START_FILES


def steps_path(folder: RunFolder, report: UnitReport) -> str:
    assert report.steps is not None
    return folder.path("steps", report.steps.name)


def test_steps_that_no_commit_named_do_not_survive_a_unit_without_steps(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    lease = start(folder)
    folder.storage.write_bytes(folder.path("steps", "part-0000002.parquet"), b"left by a killed driver")
    assert folder.promote(lease, stage(folder, PLAN[2], lease.next_attempt()))
    assert not folder.storage.exists(folder.path("steps", "part-0000002.parquet"))
    assert folder.survey().committed[2].steps is None


def test_a_zombies_attempt_changes_nothing(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    lease = start(folder)
    zombies = stage(folder, PLAN[0], lease.next_attempt())
    assert folder.promote(lease, stage(folder, PLAN[0], lease.next_attempt()))
    before = {
        path: (tmp_path / RUN_ID / path).read_bytes() for path in files_below(tmp_path / RUN_ID) if "part" in path
    }
    assert not folder.promote(lease, zombies)
    late = stage(folder, PLAN[0], lease.next_attempt())
    assert not folder.promote(lease, late)
    stage(folder, PLAN[0], "e0-00000000-7")
    assert folder.recover(lease).committed.keys() == {0}
    folder.finish(lease)
    after = files_below(tmp_path / RUN_ID)
    assert after == sorted([*START_FILES, "episodes/part-0000000.parquet", "steps/part-0000000.parquet"])
    assert all((tmp_path / RUN_ID / path).read_bytes() == before[path] for path in after if "part-" in path)


class Lockless(LocalStorage):
    """Locks no more than an object store does."""

    exclusive = Storage.exclusive


@pytest.mark.parametrize("kind", [LocalStorage, Lockless])
def test_of_two_attempts_at_once_one_commits(tmp_path: Path, kind: type[LocalStorage]) -> None:
    folder = RunFolder(kind(tmp_path), RUN_ID)
    plan = tuple(unit(number, (20 + number,)) for number in range(20))
    lease = start(folder, plan)
    reports = [stage(folder, of, lease.next_attempt()) for of in plan for _ in range(2)]
    with ThreadPoolExecutor(8) as threads:
        beats = threads.map(lambda _: lease.beat(), range(50))
        done = list(threads.map(lambda report: folder.promote(lease, report), reports))
    assert list(beats) == [None] * 50
    assert sum(done) == 20
    found = folder.survey()
    assert not found.damaged
    assert sorted(found.committed) == list(range(20))
    for commit in found.committed.values():
        assert commit.steps is not None
        assert folder.storage.sha256(folder.path("steps", commit.steps.name)) == commit.steps.sha256


def test_an_attempt_of_another_drivers_time_is_void(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    first = start(folder)
    old = stage(folder, PLAN[0], first.next_attempt())
    first.release()
    second = folder.acquire()
    with pytest.raises(TryVoid, match="another driver's time"):
        folder.promote(second, old)
    assert folder.survey().committed == {}


def test_a_driver_that_lost_its_lease_commits_nothing(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    first = start(folder)
    report = stage(folder, PLAN[0], first.next_attempt())
    orphan(folder)
    folder.acquire()
    with pytest.raises(LeaseError):
        folder.promote(first, report)
    for write in (lambda: folder.grow(first, {}, ()), lambda: folder.recover(first)):
        with pytest.raises(LeaseError):
            write()
    assert folder.survey().committed == {}


@pytest.mark.parametrize("table", ["steps", "episodes"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_staged_files_that_are_not_whole_are_void(tmp_path: Path, table: str, damage: str) -> None:
    folder = folder_in(tmp_path)
    lease = start(folder)
    report = stage(folder, PLAN[0], lease.next_attempt())
    staged = tmp_path / RUN_ID / ".staging" / PLAN[0].part / report.attempt / f"{table}.staged"
    staged.write_bytes(staged.read_bytes()[:-8]) if damage == "cut" else staged.unlink()
    with pytest.raises(TryVoid, match=f"the {table} that attempt {report.attempt} staged for part-0000000"):
        folder.promote(lease, report)
    assert folder.survey().committed == {}
    assert folder.promote(lease, stage(folder, PLAN[0], lease.next_attempt()))


def cut_steps(run: Path) -> Iterator[int]:
    torn = run / "steps/part-0000000.parquet"
    torn.write_bytes(torn.read_bytes()[:-8])
    yield 0


def cut_episodes(run: Path) -> Iterator[int]:
    torn = run / "episodes/part-0000001.parquet"
    torn.write_bytes(torn.read_bytes()[:-8])
    yield 1


def empty_episodes(run: Path) -> Iterator[int]:
    (run / "episodes/part-0000002.parquet").write_bytes(b"")
    yield 2


def lose_steps(run: Path) -> Iterator[int]:
    (run / "steps/part-0000003.parquet").unlink()
    yield 3


def all_of_them(run: Path) -> Iterator[int]:
    for damage in (cut_steps, cut_episodes, empty_episodes, lose_steps):
        yield from damage(run)


@pytest.mark.parametrize("damage", [cut_steps, cut_episodes, empty_episodes, lose_steps, all_of_them])
def test_torn_shards_are_set_aside_and_played_again(tmp_path: Path, undisturbed: Path, damage: Any) -> None:
    wanted = tables(undisturbed)
    torn = set(damage(undisturbed / RUN_ID))
    folder = folder_in(undisturbed)
    assert set(range(4)) - set(folder.survey().committed) == torn
    assert drive(LocalStorage(undisturbed)) == len(torn)
    assert tables(undisturbed) == wanted
    left = [path for path in files_below(undisturbed / RUN_ID) if path not in WHOLE]
    assert left
    assert all(path.startswith(".staging/torn/") and path.endswith(".torn") for path in left)


def test_shards_that_the_plan_does_not_know_are_set_aside(undisturbed: Path) -> None:
    run = undisturbed / RUN_ID
    wanted = tables(undisturbed)
    (run / "steps/part-0000099.parquet").write_bytes(b"")
    (run / "episodes/part-0000099.parquet").write_bytes((run / "episodes/part-0000000.parquet").read_bytes())
    (run / "steps/stray.parquet").write_bytes((run / "steps/part-0000000.parquet").read_bytes())
    damaged = folder_in(undisturbed).survey().damaged
    assert {path.partition("/")[2]: why for path, why in damaged.items()} == {
        "steps/part-0000099.parquet": "no committed unit names it",
        "episodes/part-0000099.parquet": "it is not in the plan",
        "steps/stray.parquet": "no committed unit names it",
    }
    assert drive(LocalStorage(undisturbed)) == 0
    assert tables(undisturbed) == wanted


def test_other_peoples_files_are_left_alone(undisturbed: Path) -> None:
    run = undisturbed / RUN_ID
    (run / "notes.txt").write_text("mine")
    (run / "steps/notes.txt").write_text("mine")
    (run / "grades/x").mkdir(parents=True)
    (run / "grades/x/part-0000000-0.parquet").write_bytes(b"not mine")
    drive(LocalStorage(undisturbed))
    assert set(files_below(run)) == {*WHOLE, "notes.txt", "steps/notes.txt", "grades/x/part-0000000-0.parquet"}


def test_a_run_starts_with_its_record(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    with pytest.raises(UsageError, match="there is no run in"):
        folder.read_record()
    lease = folder.acquire()
    assert not folder.started()
    folder.create(lease, {"run_id": RUN_ID, "名": 1}, PLAN)
    assert folder.started()
    assert folder.read_record() == {"run_id": RUN_ID, "名": 1}
    assert folder.read_plan() == PLAN
    (tmp_path / RUN_ID / "run.json").write_text("{")
    with pytest.raises(UsageError, match=r"run\.json is not JSON"):
        folder.read_record()


def test_shards_without_a_run_are_not_written_over(undisturbed: Path) -> None:
    (undisturbed / RUN_ID / "run.json").unlink()
    folder = folder_in(undisturbed)
    with pytest.raises(UsageError, match=r"holds shards but no run\.json"):
        folder.create(folder.acquire(), {}, PLAN)


def test_a_plan_grows_by_files(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    lease = start(folder)
    more = (unit(4, (21, 22)), unit(5, (23,)))
    folder.grow(lease, {"grown": True}, more)
    folder.grow(lease, {"grown": True}, ())
    assert folder.read_plan() == PLAN + more
    assert sorted(path.name for path in (tmp_path / RUN_ID / "plan").iterdir()) == [
        "0000000.parquet",
        "0000001.parquet",
    ]


def test_a_damaged_plan_is_said(tmp_path: Path) -> None:
    folder = folder_in(tmp_path)
    folder.grow(start(folder), {}, (unit(7),))
    with pytest.raises(StorageError, match=r"plan in .* is damaged"):
        folder.read_plan()


def test_a_node_sees_the_marker_or_another_folder(tmp_path: Path) -> None:
    folder = folder_in(tmp_path / "shared")
    marker = folder.write_marker()
    assert folder.sees_marker(marker)
    assert not folder_in(tmp_path / "local").sees_marker(marker)
    folder.clear_staging()
    assert not folder.sees_marker(marker)


def test_a_workers_local_files_may_be_kept_or_moved(tmp_path: Path) -> None:
    """Staging never reads a file that is not there, and stages no steps where there are none."""
    folder = folder_in(tmp_path / "out")
    lease = start(folder)
    attempt = lease.next_attempt()
    report, steps, episodes = play(PLAN[2], tmp_path, attempt)
    assert steps is None
    folder.stage(PLAN[2], attempt, steps, episodes)
    assert files_below(tmp_path / "out" / RUN_ID / ".staging") == [f"part-0000002/{attempt}/episodes.staged"]
    assert folder.promote(lease, report)
