"""The connections of a consumer's fetches, without a broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v11

from moorage.runtime.kafka.clients.fetch_connections import Fetches, cut_for, cut_when_taken, rest_longer
from moorage.runtime.kafka.clients.fetch_sessions import SessionFetchRequest

ASSIGNMENT = object()
A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Broker:
    """Answers fetches when the test does."""

    def __init__(self) -> None:
        self.fetches = Fetches()
        self.sent: asyncio.Queue[tuple[int, asyncio.Future[Any]]] = asyncio.Queue()
        self.closed: list[int] = []
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    def request(self, **offsets: int) -> SessionFetchRequest:
        partitions = [(int(name[1:]), offset, 1000) for name, offset in offsets.items()]
        return self.fetches.session.request(FetchRequest(2000, 1, 10**6, 1, [("t", partitions)]), ASSIGNMENT)

    def fetch(self, *, connects: bool = True, **offsets: int) -> asyncio.Task[Any]:
        """Send a fetch of `t` from these offsets: `p0=3` for partition 0."""
        request = self.request(**offsets)

        async def send(group: int) -> Any:
            if connects:
                request.build(FetchRequest_v11)
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._waiting[group] = answer
            self.sent.put_nowait((group, answer))
            return await answer

        return asyncio.create_task(self.fetches.send(request, send, self.close))

    def close(self, group: int) -> None:
        self.closed.append(group)
        self._waiting[group].set_exception(KafkaConnectionError("closed"))


def answer(session: int = 5) -> Any:
    return SimpleNamespace(API_VERSION=11, error_code=0, session_id=session, topics=[])


async def test_one_connection_is_used_again_and_again() -> None:
    broker = Broker()
    groups = set()
    for _ in range(3):
        fetching = broker.fetch(p0=1)
        group, waiting = await broker.sent.get()
        groups.add(group)
        found = answer()
        waiting.set_result(found)
        assert await fetching is found
    assert len(groups) == 1
    assert (broker.fetches.session.id, broker.fetches.session.epoch) == (5, 3)


async def test_a_fetch_that_is_cut_answers_nothing_and_the_next_goes_elsewhere() -> None:
    broker = Broker()
    fetching = broker.fetch(p0=1)
    first, late = await broker.sent.get()
    broker.fetches.cut()
    assert (await fetching).topics == []
    fetching = broker.fetch(p0=1, p1=0)
    second, waiting = await broker.sent.get()
    assert second != first
    waiting.set_result(answer(6))
    await fetching
    late.set_result(answer(5))
    again = broker.fetch(p0=1, p1=0)
    await broker.sent.get()
    assert broker.fetches.session.id == 6, "the late answer counts no more"
    again.cancel()


async def test_when_both_wait_the_older_is_closed() -> None:
    broker = Broker()
    groups = []
    for _ in range(4):
        fetching = broker.fetch(p0=1)
        groups.append((await broker.sent.get())[0])
        broker.fetches.cut()
        await fetching
    assert groups == [groups[0], groups[1], groups[0], groups[1]]
    assert groups[0] != groups[1]
    assert broker.closed == groups[:2]


async def test_a_lost_answer_is_raised_and_ends_the_session() -> None:
    broker = Broker()
    fetching = broker.fetch(p0=1)
    _, waiting = await broker.sent.get()
    waiting.set_result(answer())
    await fetching
    fetching = broker.fetch(p0=1)
    _, waiting = await broker.sent.get()
    waiting.set_exception(KafkaConnectionError("gone"))
    with pytest.raises(KafkaConnectionError):
        await fetching
    assert broker.request(p0=1).session == (5, 0)


@pytest.mark.parametrize("connects", [True, False])
async def test_a_cancelled_fetch_that_was_not_sent_never_is(*, connects: bool) -> None:
    broker = Broker()
    fetching = broker.fetch(connects=connects, p0=1)
    _, waiting = await broker.sent.get()
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    await asyncio.sleep(0)
    assert waiting.cancelled() is not connects, "the answer to a fetch that was sent must still be read"
    assert broker.request(p0=1).session == (0, 0)


class State:
    """A partition of a consumer."""

    def __init__(self, position: int | None, *, paused: bool = False) -> None:
        self.position, self.paused = position, paused

    @property
    def has_valid_position(self) -> bool:
        return self.position is not None


@pytest.mark.parametrize(
    ("state", "buffered", "cut"),
    [
        (State(0), False, True),
        (State(None), False, True),
        (State(0, paused=True), False, False),
        (State(0), True, False),
    ],
    ids=["wanted", "without a position", "paused", "its records were not taken"],
)
async def test_a_fetch_is_cut_for_a_partition_that_it_lacks(state: State, *, buffered: bool, cut: bool) -> None:
    broker = Broker()
    fetching = broker.fetch(p0=1)
    _, waiting = await broker.sent.get()
    states = {A: State(1), B: state}
    assignment = SimpleNamespace(tps=set(states), state_value=states.__getitem__)
    fetcher = SimpleNamespace(
        moorage_fetches={7: broker.fetches},
        _subscriptions=SimpleNamespace(subscription=SimpleNamespace(assignment=assignment)),
        _records={B: object()} if buffered else {},
        _select_read_replica=lambda _: 7,
    )
    cut_for(cast("Any", fetcher), [A, TopicPartition("other", 0)])
    await asyncio.sleep(0)
    assert not fetching.done(), "it fetches that one already"
    cut_for(cast("Any", fetcher), [B])
    found = answer()
    if not cut:
        waiting.set_result(found)
    assert (await fetching is found) is not cut


async def test_a_fetch_is_cut_for_a_partition_whose_markers_alone_were_taken() -> None:
    broker = Broker()
    fetching = broker.fetch(p0=1)
    await broker.sent.get()
    states = {A: State(1), B: State(4)}
    assignment = SimpleNamespace(tps=set(states), state_value=states.__getitem__)
    fetcher = SimpleNamespace(
        moorage_fetches={7: broker.fetches},
        _subscriptions=SimpleNamespace(subscription=SimpleNamespace(assignment=assignment)),
        _records={B: object()},
        _select_read_replica=lambda _: 7,
    )

    async def fetched_records(self: Any) -> dict[TopicPartition, list[object]]:
        self._records.clear()
        return {}

    assert await cut_when_taken(fetched_records)(fetcher) == {}
    assert (await fetching).topics == []
    assert Fetcher.fetched_records.moorage_patches == ("fetch connections", "positions"), "so that it never waits"


async def test_a_fetch_is_cut_for_a_partition_that_another_broker_led_before() -> None:
    broker = Broker()
    fetching = broker.fetch(p0=1)
    _, waiting = await broker.sent.get()
    states, leaders = {A: State(1), B: State(4)}, {A: 7, B: 8}
    assignment = SimpleNamespace(tps=set(states), state_value=states.__getitem__)
    cluster = SimpleNamespace(_last_successful_refresh_ms=1)
    fetcher = SimpleNamespace(
        moorage_fetches={7: broker.fetches},
        _client=SimpleNamespace(cluster=cluster),
        _subscriptions=SimpleNamespace(subscription=SimpleNamespace(assignment=assignment)),
        _records={},
        _select_read_replica=leaders.__getitem__,
    )
    choose = rest_longer(lambda _self, _assignment: "chosen")
    assert choose(fetcher, assignment) == "chosen"
    leaders[B] = 7
    assert choose(fetcher, assignment) == "chosen"
    await asyncio.sleep(0)
    assert not fetching.done(), "the metadata are those that were looked at before"
    cluster._last_successful_refresh_ms = 2
    assert choose(fetcher, assignment) == "chosen"
    assert (await fetching).topics == []
    assert not waiting.done()
