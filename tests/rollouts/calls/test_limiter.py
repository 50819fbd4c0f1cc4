"""The limiter of one process, in real event loops: order, cancellation, several loops and threads."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rollouts.calls.limiter import LocalLimiter
from rollouts.calls.limits import Budget, Limits, Order, Outcome, Permit, Spending
from rollouts.errors import BudgetSpent

A = Order("a")
ANSWERED = Outcome("answered", Spending(1))


async def use(limiter: LocalLimiter, order: Order = A, hold_s: float = 0.0, log: list[str] | None = None) -> None:
    permit = await limiter.acquire(order)
    if log is not None:
        log.append(order.lane)
    await asyncio.sleep(hold_s)
    await limiter.settle(permit, ANSWERED)


def test_all_get_a_turn_and_never_too_many_at_once() -> None:
    limiter = LocalLimiter(Limits(in_flight=16))

    async def main() -> None:
        await asyncio.gather(*(use(limiter, hold_s=0.001) for _ in range(200)))

    asyncio.run(main())
    status = limiter.status()
    assert (status.most_in_flight, status.in_flight, status.waiting) == (16, 0, 0)
    assert status.spent == Spending(200)


def test_lanes_take_turns_by_age() -> None:
    limiter, log = LocalLimiter(Limits(in_flight=1)), list[str]()

    async def main() -> None:
        lanes = ["a", "a", "b", "a", "b"]
        await asyncio.gather(*(use(limiter, Order(lane), log=log) for lane in lanes))

    asyncio.run(main())
    assert log == ["a", "a", "b", "a", "b"]


def test_a_paused_lane_waits_its_time_while_another_goes_on() -> None:
    limiter, log = LocalLimiter(Limits(in_flight=4)), list[str]()

    async def main() -> float:
        await limiter.settle(await limiter.acquire(A), Outcome("throttled", Spending(1), retry_after_s=0.1))
        start = time.monotonic()
        await asyncio.gather(use(limiter, A, log=log), use(limiter, Order("b"), log=log))
        return time.monotonic() - start

    assert 0.1 <= asyncio.run(main()) < 5
    assert log == ["b", "a"]


@pytest.mark.parametrize("hops", [0, 1])  # cancelled before, or after, the permit reached its future
def test_a_cancelled_waiter_leaves_the_line_and_a_cancelled_winner_gives_back(hops: int) -> None:
    limiter = LocalLimiter(Limits(in_flight=1))

    async def main() -> None:
        held = await limiter.acquire(A)
        waiting, winning = (asyncio.create_task(limiter.acquire(A)) for _ in range(2))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert limiter.status().waiting == 1
        await limiter.settle(held, ANSWERED)
        for _ in range(hops):
            await asyncio.sleep(0)
        winning.cancel()
        await asyncio.gather(winning, return_exceptions=True)
        await asyncio.sleep(0)
        await asyncio.wait_for(use(limiter), 10)

    asyncio.run(main())
    assert (limiter.status().in_flight, limiter.status().waiting) == (0, 0)
    assert limiter.status().spent == Spending(2)


def test_everybody_in_line_learns_that_the_budget_is_spent() -> None:
    limiter = LocalLimiter(Limits(in_flight=2, budget=Budget(calls=3)))

    async def main() -> list[BaseException | None]:
        return await asyncio.gather(*(use(limiter, hold_s=0.01) for _ in range(8)), return_exceptions=True)

    results = asyncio.run(main())
    assert sum(result is None for result in results) == 3
    assert sum(isinstance(result, BudgetSpent) for result in results) == 5


def test_two_loops_in_two_threads_share_one_limit() -> None:
    limiter = LocalLimiter(Limits(in_flight=3))

    async def main() -> None:
        await asyncio.gather(*(use(limiter, hold_s=0.002) for _ in range(50)))

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert limiter.status().spent == Spending(100)
    assert limiter.status().most_in_flight == 3


def test_a_loop_that_is_gone_loses_its_place() -> None:
    limiter = LocalLimiter(Limits(in_flight=1))
    dead = asyncio.new_event_loop()
    held = dead.run_until_complete(limiter.acquire(A))
    waiting = dead.create_task(limiter.acquire(A))
    dead.run_until_complete(asyncio.sleep(0))
    dead.close()

    async def main() -> None:
        await limiter.settle(held, ANSWERED)
        await asyncio.wait_for(use(limiter), 10)

    asyncio.run(main())
    assert limiter.status().in_flight == 0
    assert not waiting.done()


def test_forgetting_a_holder_lets_the_next_one_go() -> None:
    limiter = LocalLimiter(Limits(in_flight=1))

    async def main() -> Permit:
        await limiter.acquire(Order("a", holder="dead"))
        lost = asyncio.create_task(limiter.acquire(Order("a", holder="dead")))
        next_one = asyncio.create_task(limiter.acquire(Order("a", holder="alive")))
        await asyncio.sleep(0)
        await limiter.forget("dead")
        permit = await asyncio.wait_for(next_one, 10)
        lost.cancel()
        return permit

    assert asyncio.run(main()).number == 2


def test_a_thousand_waiters_cost_little() -> None:
    limiter = LocalLimiter(Limits(in_flight=16))

    async def main() -> float:
        start = time.perf_counter()
        await asyncio.gather(*(use(limiter) for _ in range(1000)))
        return time.perf_counter() - start

    assert asyncio.run(main()) < 2.0


@pytest.mark.parametrize("lanes", [1, 3])
def test_waiting_is_counted(lanes: int) -> None:
    limiter = LocalLimiter(Limits(in_flight=1))

    async def main() -> int:
        permit = await limiter.acquire(A)
        tasks = [asyncio.create_task(use(limiter, Order(str(lane)))) for lane in range(lanes)]
        await asyncio.sleep(0)
        waiting = limiter.status().waiting
        await limiter.settle(permit, ANSWERED)
        await asyncio.gather(*tasks)
        return waiting

    assert asyncio.run(main()) == lanes
