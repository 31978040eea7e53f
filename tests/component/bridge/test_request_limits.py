"""The limits of requests: what is in flight follows the server, and what is sent in a second may be limited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.component.bridge.cluster import client_of, node
from tests.support.kube_api import serve_kube_api
from tests.support.virtual_time import virtual_time
from tests.support.waiting import until

from moorage.bridges.engine.acts import ActQueue
from moorage.bridges.kube.api_error import ApiError
from moorage.bridges.kube.request_limits import FlightLimiter, RequestLimiter


def now() -> float:
    return asyncio.get_running_loop().time()


class Server:
    """A server that works on so many requests at a time, lets so many wait, and refuses the others."""

    def __init__(self, at_a_time: int, *, seconds: float = 0.01, waiting: int = 100_000) -> None:
        self.at_a_time = at_a_time
        self.seconds = seconds
        self.waiting = waiting
        self.present = 0
        self.most = 0
        self.refused = 0
        self.done = 0
        self._free = asyncio.Condition()
        self._busy = 0

    async def answer(self) -> None:
        if self.present >= self.at_a_time + self.waiting:
            self.refused += 1
            raise ApiError(429, "TooManyRequests")
        self.present += 1
        self.most = max(self.most, self.present)
        async with self._free:
            await self._free.wait_for(lambda: self._busy < self.at_a_time)
            self._busy += 1
        await asyncio.sleep(self.seconds)
        async with self._free:
            self._busy -= 1
            self._free.notify()
        self.present -= 1
        self.done += 1


async def ask(limiter: FlightLimiter, server: Server) -> None:
    """Send a request until the server takes it."""
    while True:
        async with limiter.place() as flight:
            try:
                await server.answer()
            except ApiError:
                limiter.refused(flight)
            else:
                limiter.answered(flight, "patch pods")
                return
        await asyncio.sleep(1)


async def flood(limiter: FlightLimiter, server: Server, requests: int) -> float:
    """Send many requests at once. Return the seconds until all are answered."""
    began = now()
    await asyncio.gather(*(ask(limiter, server) for _ in range(requests)))
    return now() - began


@virtual_time
async def test_a_fast_server_gets_as_many_requests_as_the_bound_allows() -> None:
    limiter, server = FlightLimiter(most=64), Server(at_a_time=1000)
    assert limiter.limit == 16
    seconds = await flood(limiter, server, 4000)
    assert (limiter.limit, server.most) == (64, 64)
    assert seconds == pytest.approx(4000 / 64 * 0.01, rel=0.1)
    assert limiter.in_flight == 0


@virtual_time
async def test_a_server_without_load_does_not_raise_the_limit() -> None:
    limiter, server = FlightLimiter(), Server(at_a_time=1000)
    for _ in range(100):
        await flood(limiter, server, 3)
    assert limiter.limit == 16


@virtual_time
async def test_requests_do_not_pile_up_in_a_server_that_answers_later_and_later() -> None:
    limiter, server = FlightLimiter(most=1000), Server(at_a_time=8)
    seconds = await flood(limiter, server, 8000)
    assert seconds == pytest.approx(8000 / 8 * 0.01, rel=0.02), "the server is never idle"
    # An answer takes 0.1 s when 80 requests are there. Beyond that the limit shrinks.
    assert 40 < server.most < 160
    assert limiter.limit < 160


@virtual_time
async def test_refusals_halve_the_limit_once_for_all_that_were_in_flight() -> None:
    limiter = FlightLimiter(most=100)
    gate = asyncio.Event()

    async def refused() -> None:
        async with limiter.place() as flight:
            await gate.wait()
            limiter.refused(flight)

    async with asyncio.TaskGroup() as group:
        for _ in range(16):
            group.create_task(refused())
        await until(lambda: limiter.in_flight == 16)
        gate.set()
    assert limiter.limit == 8


@virtual_time
async def test_a_server_with_a_limit_of_its_own_is_found_and_seldom_refuses() -> None:
    limiter, server = FlightLimiter(most=1000), Server(at_a_time=30, waiting=10)
    seconds = await flood(limiter, server, 6000)
    assert server.done == 6000
    assert server.refused < 6000 * 0.05
    assert seconds < 6000 / 30 * 0.01 * 2
    assert limiter.limit <= 41


@virtual_time
async def test_the_limit_is_at_least_one_and_grows_again() -> None:
    limiter, server = FlightLimiter(), Server(at_a_time=100, waiting=-100)
    for _ in range(10):
        async with limiter.place() as flight:
            with pytest.raises(ApiError):
                await server.answer()
            limiter.refused(flight)
    assert limiter.limit == 1
    server.waiting = 0
    await flood(limiter, server, 400)
    assert limiter.limit > 16


@virtual_time
async def test_a_server_that_has_become_slower_for_good_keeps_some_requests_in_flight() -> None:
    limiter, server = FlightLimiter(), Server(at_a_time=1000)
    await flood(limiter, server, 100)
    server.seconds = 1.0
    asked = asyncio.create_task(flood(limiter, server, 2000))
    await until(lambda: limiter.limit == 4, seconds=60)
    await asked
    assert limiter.limit > 16, "after two minutes that is its usual time"


@virtual_time
async def test_requests_are_served_in_order_and_one_that_completes_an_act_comes_first() -> None:
    limiter, order = FlightLimiter(most=1), list[str]()

    async def ask(*names: str) -> None:
        for name in names:
            async with limiter.place(is_next=name == "delete"):
                order.append(name)
                await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        group.create_task(ask("mark", "delete"))
        for name in ("a", "b"):
            group.create_task(ask(name))
    assert order == ["mark", "delete", "a", "b"]


@virtual_time
async def test_a_request_that_is_given_up_leaves_its_place_to_others() -> None:
    limiter, order = FlightLimiter(most=1), list[int]()

    async def ask(number: int) -> None:
        async with limiter.place():
            order.append(number)
            await asyncio.sleep(1)

    tasks = [asyncio.create_task(ask(number)) for number in range(5)]
    await until(lambda: order == [0])
    for number in (0, 1, 3):
        tasks[number].cancel()
    await asyncio.wait(tasks)
    assert order == [0, 2, 4]
    assert limiter.in_flight == 0


@virtual_time
async def test_a_place_that_was_just_given_to_a_request_that_is_given_up_is_free_again() -> None:
    limiter = FlightLimiter(most=1)

    async def ask() -> None:
        async with limiter.place():
            await asyncio.sleep(0)

    async with limiter.place():
        task = asyncio.create_task(ask())
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert limiter.in_flight == 0
    await ask()


@virtual_time
@pytest.mark.parametrize("status", [429, 503, 504])
async def test_a_busy_server_gets_fewer_requests(status: int) -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.store.create("Node", node("n1"))
        api.fault("GET", "/n1", status=status, times=2, headers={"Retry-After": "7"})
        await client.get("/api/v1/nodes/n1")
        assert client.room == 4
        assert now() >= 14
        await client.close()


@virtual_time
@pytest.mark.parametrize("status", [409, 422, 500])
async def test_other_errors_do_not_lower_the_limit(status: int) -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.fault("GET", "/n1", status=status, times=100)
        try:
            with pytest.raises(ApiError):
                await client.get("/api/v1/nodes/n1")
            assert client.room == 16
        finally:
            await client.close()


@virtual_time
async def test_a_ping_and_a_client_beside_wait_for_nobody() -> None:
    async with serve_kube_api() as api:
        client = client_of(api)
        api.store.create("Node", node("n1"))
        stuck = api.fault("PATCH", "/n1", before=asyncio.Event(), times=1000)
        tasks = [asyncio.create_task(client.request("PATCH", "/api/v1/nodes/n1", body={})) for _ in range(20)]
        await until(lambda: len(api.seen("PATCH", "/n1")) == 16)
        await client.ping()
        await client.beside().get("/api/v1/nodes/n1")
        assert now() < 1
        assert len(api.seen("PATCH", "/n1")) == 16
        assert stuck.before is not None
        stuck.before.set()
        await asyncio.wait(tasks)
        await client.close()


@virtual_time
async def test_a_queue_of_acts_follows_the_limit_and_takes_what_waits_from_the_latest_state() -> None:
    room, state, written = 2, "old", list[str]()
    gates: dict[str, asyncio.Event] = {f"k{number}": asyncio.Event() for number in range(6)}

    async def work(key: str) -> None:
        seen = state
        await gates[key].wait()
        written.append(f"{key} {seen}")

    async def started(queue: ActQueue) -> None:
        nonlocal room, state
        queue.add(*gates)
        await asyncio.sleep(1)
        state, room = "new", 4
        gates["k0"].set()
        await until(lambda: written == ["k0 old"])
        await asyncio.sleep(1)
        for gate in gates.values():
            gate.set()
        await until(lambda: len(written) == 6)

    await beside(ActQueue("test", lambda: room), work, started)
    assert sorted(written) == ["k0 old", "k1 old", *(f"k{number} new" for number in range(2, 6))]


async def beside(
    queue: ActQueue,
    work: Callable[[str], Coroutine[Any, Any, None]],
    test: Callable[[ActQueue], Coroutine[Any, Any, None]],
) -> None:
    task = asyncio.create_task(queue.run(work))
    await test(queue)
    task.cancel()
    await asyncio.wait([task])


@virtual_time
async def test_no_more_than_so_many_requests_a_second() -> None:
    limiter = RequestLimiter(qps=10, burst=20)
    times: list[float] = []

    async def take() -> None:
        await limiter.take()
        times.append(now())

    await asyncio.gather(*(take() for _ in range(50)))
    assert times[:20] == [0.0] * 20
    assert times[20:] == pytest.approx([n / 10 for n in range(1, 31)], abs=0.01)
    await asyncio.sleep(100)
    times.clear()
    await asyncio.gather(*(take() for _ in range(21)))
    assert times[-1] - times[0] == pytest.approx(0.1, abs=0.01), "a pause saves up no more than the burst"


@virtual_time
async def test_those_who_wait_keep_their_order() -> None:
    limiter = RequestLimiter(qps=5, burst=1)
    order: list[int] = []

    async def take(number: int) -> None:
        await limiter.take()
        order.append(number)

    await asyncio.gather(*(take(number) for number in range(20)))
    assert order == list(range(20))
