"""One limiter for a cluster, over real actors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from actors.cluster import Cluster, ClusterSettings
from rollouts.calls.limits import Budget, Limits, Order, Outcome, Permit, Spending
from rollouts.errors import BudgetSpent, RunStopped

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
ORDER = Order("lane", Spending(calls=1), holder="me")
ANSWERED = Outcome("answered", Spending(calls=1))


@pytest.fixture(scope="module", autouse=True)
def cluster(ray_dir: str) -> Iterator[Cluster]:
    cluster = Cluster(ClusterSettings(cpus=2, temp_dir=ray_dir))
    yield cluster
    cluster.close()


def start(limits: Limits) -> Any:
    from actors.governor import start_governor  # after the cluster is up

    return start_governor(limits)


def handle_of(governor: Any, most_waiting: int = 16) -> Any:
    from actors.governor import GovernorHandle

    return GovernorHandle(governor, most_waiting)


def status(governor: Any) -> Any:
    import ray

    return ray.get(governor.status.remote(), timeout=10)


def test_all_actors_together_keep_to_the_limit() -> None:
    """Two handles stand for two actors, each with 40 callers."""
    governor, now, most = start(Limits(in_flight=4)), 0, 0

    async def call(limiter: Any) -> None:
        nonlocal now, most
        permit = await limiter.acquire(ORDER)
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1
        await limiter.settle(permit, ANSWERED)

    async def main() -> None:
        both = (handle_of(governor), handle_of(governor))
        await asyncio.gather(*(call(limiter) for limiter in both for _ in range(40)))

    asyncio.run(main())
    assert most == 4
    assert status(governor).most_in_flight == 4
    assert status(governor).spent == Spending(calls=80)


def test_a_spent_budget_and_a_stop_arrive_as_what_they_are() -> None:
    async def spend() -> None:
        limiter = handle_of(start(Limits(budget=Budget(calls=1))))
        await limiter.settle(await limiter.acquire(ORDER), ANSWERED)
        with pytest.raises(BudgetSpent, match="budget of 1 call is used up"):
            await limiter.acquire(ORDER)

    async def refuse() -> None:
        limiter = handle_of(start(Limits(stop_after=1)))
        await limiter.settle(await limiter.acquire(ORDER), Outcome("fatal", cause="no such model"))
        with pytest.raises(RunStopped, match="no such model"):
            await limiter.acquire(ORDER)

    asyncio.run(spend())
    asyncio.run(refuse())


def test_who_is_cancelled_in_line_takes_no_turn_along() -> None:
    async def main() -> Permit:
        limiter = handle_of(start(Limits(in_flight=1)))
        first = await limiter.acquire(ORDER)
        waiting = [asyncio.ensure_future(limiter.acquire(ORDER)) for _ in range(5)]
        await asyncio.sleep(0.2)
        for waiter in waiting:
            waiter.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await limiter.settle(first, ANSWERED)
        permit: Permit = await asyncio.wait_for(limiter.acquire(ORDER), 5)
        return permit

    assert asyncio.run(main()).lane == "lane"


def test_a_cancelled_caller_gives_back_a_turn_that_it_was_just_given() -> None:
    """The turn is granted at some moment around the cancellation; none is ever lost."""

    async def main() -> None:
        limiter = handle_of(start(Limits(in_flight=1)))
        for n in range(30):
            asked = asyncio.ensure_future(limiter.acquire(ORDER))
            await asyncio.sleep(n * 0.0001)
            asked.cancel()
            done = (await asyncio.gather(asked, return_exceptions=True))[0]
            if isinstance(done, Permit):
                await limiter.settle(done, ANSWERED)
        await asyncio.wait_for(limiter.acquire(ORDER), 5)

    asyncio.run(main())


def test_what_a_dead_holder_had_is_free_again() -> None:
    import ray

    async def main() -> None:
        governor = start(Limits(in_flight=1))
        limiter = handle_of(governor)
        await limiter.acquire(ORDER)
        ray.get(governor.forget.remote("me"), timeout=10)
        await asyncio.wait_for(limiter.acquire(ORDER), 5)

    asyncio.run(main())


def test_thousands_may_wait_and_it_still_answers() -> None:
    """More than an actor's usual thousand calls at once: those who give turns back must get through."""
    governor = start(Limits(in_flight=2))

    async def main() -> None:
        limiter = handle_of(governor, most_waiting=3000)

        async def call() -> None:
            await limiter.settle(await limiter.acquire(ORDER), ANSWERED)

        await asyncio.wait_for(asyncio.gather(*(call() for _ in range(3000))), 60)

    first = asyncio.run(handle_of(governor).acquire(ORDER))
    begun = time.monotonic()
    asyncio.run(main())
    print(f"{3000 / (time.monotonic() - begun):.0f} turns a second")
    over = time.monotonic() + 10
    while status(governor).spent != Spending(calls=3000) and time.monotonic() < over:
        time.sleep(0.05)  # what is settled is told, not waited for
    assert status(governor).spent == Spending(calls=3000)
    assert first.number == 1


def test_a_lost_governor_is_a_stop_in_plain_words() -> None:
    import ray

    governor = start(Limits())

    async def main() -> None:
        limiter = handle_of(governor)
        await limiter.acquire(ORDER)
        ray.kill(governor)
        with pytest.raises(RunStopped, match="governor of model calls is lost"):
            await limiter.acquire(ORDER)

    asyncio.run(main())
