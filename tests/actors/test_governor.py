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


def one_at_a_time(governor: Any, linger_s: float = 30.0) -> Any:
    from actors.governor import OneAtATime

    return OneAtATime(governor, linger_s)


def comes_to(governor: Any, spent: Spending) -> bool:
    """Nobody waits for a settlement to arrive."""
    over = time.monotonic() + 30
    while status(governor).spent != spent and time.monotonic() < over:
        time.sleep(0.05)
    return bool(status(governor).spent == spent)


async def call(limiter: Any, outcome: Outcome = ANSWERED) -> int:
    """A request; the number of its permit."""
    permit = await limiter.acquire(ORDER)
    await limiter.settle(permit, outcome)
    return int(permit.number)


def test_a_permit_is_kept_between_calls_and_all_that_it_came_to_is_told() -> None:
    governor = start(Limits(in_flight=4))

    async def main() -> list[int]:
        limiter = one_at_a_time(governor)
        numbers = [await call(limiter) for _ in range(16)]
        return [*numbers, await call(limiter, Outcome("failed"))]

    assert asyncio.run(main()) == [1] * 8 + [2] * 8 + [3]
    assert comes_to(governor, Spending(calls=17))
    assert status(governor).in_flight == 0


def test_what_is_counted_is_asked_for_each_time() -> None:
    for limits in (Limits(budget=Budget(calls=3)), Limits(requests_per_minute=1000), Limits(tokens_per_minute=10**6)):
        governor = start(limits)

        async def main(governor: Any = governor) -> list[int]:
            limiter = one_at_a_time(governor)
            return [await call(limiter) for _ in range(3)]

        assert asyncio.run(main()) == [1, 2, 3]


def test_a_spent_budget_is_seen_by_who_keeps_permits() -> None:
    governor = start(Limits(budget=Budget(calls=2)))

    async def main() -> None:
        limiter = one_at_a_time(governor)
        for _ in range(3):
            await call(limiter)

    with pytest.raises(BudgetSpent):
        asyncio.run(main())


def test_who_waits_gets_the_next_turn_of_who_keeps_one() -> None:
    """The other's request comes while the first permit is kept: it is through before the first has had nine calls."""
    governor = start(Limits(in_flight=1))

    async def main() -> tuple[list[int], int]:
        mine, other = one_at_a_time(governor), handle_of(governor)
        numbers = [await call(mine)]
        waits = asyncio.ensure_future(call(other))
        while status(governor).waiting == 0:
            await asyncio.sleep(0.01)
        numbers += [await call(mine) for _ in range(8)]
        return numbers, await waits

    numbers, others = asyncio.run(main())
    assert (numbers, others) == ([1] * 8 + [3], 2)


def test_a_permit_without_a_request_is_given_back() -> None:
    governor = start(Limits(in_flight=1))

    async def main() -> None:
        await call(one_at_a_time(governor, linger_s=0.05))
        async with asyncio.timeout(60):
            assert await call(handle_of(governor)) == 2

    asyncio.run(main())
    assert comes_to(governor, Spending(calls=2))
