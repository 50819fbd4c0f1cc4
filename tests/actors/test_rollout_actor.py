"""The actor as the plain class that it is."""

from __future__ import annotations

import os
import threading
import time

import pytest

from actors.rollout_actor import Played, Ready, RolloutActor
from rollouts.errors import StorageError
from rollouts.pools.pool import Failure, Task
from tests.actors.players import MakeFake
from tests.pool_doubles import make_units

UNIT = make_units(1)[0]


def ready_actor(make: MakeFake, most_episodes: int | None = None) -> RolloutActor:
    actor = RolloutActor(hide_gpus=False, most_episodes=most_episodes)
    assert isinstance(actor.prepare(0, "actor-1", make), Ready)
    return actor


def test_plays_and_reports() -> None:
    played = ready_actor(MakeFake()).play(0, Task(UNIT, "e1-0"))
    assert isinstance(played, Played)
    assert (played.report.unit, played.report.attempt, played.spent) == (0, "e1-0", None)


def test_a_fault_comes_back_as_a_value() -> None:
    failure = ready_actor(MakeFake({0: "raise"})).play(0, Task(UNIT, "e1-0"))
    assert failure == Failure("error", "ValueError: bad weights path X")


def test_a_player_that_cannot_be_made_says_why() -> None:
    actor = RolloutActor(hide_gpus=False)
    assert actor.prepare(0, "a", MakeFake(fault=StorageError("disk full"))) == Failure("systemic", "disk full")


def test_a_process_is_spent_after_its_episodes() -> None:
    actor = ready_actor(MakeFake(), most_episodes=2)
    played = [actor.play(0, Task(UNIT, f"e1-{n}")) for n in range(2)]
    assert [p.spent for p in played if isinstance(p, Played)] == [None, "2 episodes"]


def test_a_process_is_spent_above_its_memory() -> None:
    actor = RolloutActor(hide_gpus=False, most_mb=1)
    actor.prepare(0, "a", MakeFake())
    played = actor.play(0, Task(UNIT, "e1-0"))
    assert isinstance(played, Played)
    assert played.spent is not None
    assert played.spent.endswith("MiB of memory")


@pytest.mark.slow
def test_progress_counts_the_present_task_while_it_is_played() -> None:
    actor = ready_actor(MakeFake({1: "slow"}))
    actor.play(0, Task(UNIT, "e1-0"))
    slow = threading.Thread(target=actor.play, args=(0, Task(make_units(2)[1], "e1-1")))
    slow.start()
    time.sleep(0.75)
    assert 1 <= actor.progress(0) <= 10
    slow.join()
    assert actor.progress(0) == 25


def test_gpus_are_hidden_where_none_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    RolloutActor(hide_gpus=True)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
