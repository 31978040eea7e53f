"""When a producer that has nothing to write must write something."""

from __future__ import annotations

import asyncio

from moorage.runtime.kafka.admin.broker_times import BrokerTimes
from moorage.runtime.kafka.clients.fenced_producer import KeepAlive

DAY = 24 * 3600.0


def interval(times: BrokerTimes, name: str) -> float:
    return KeepAlive(times.ids_kept_ms, transactional_id=name, due=lambda: None)._after


def test_it_writes_once_or_twice_a_day_and_earlier_where_ids_are_kept_for_a_shorter_time() -> None:
    names = [f"moorage.timer.{number}" for number in range(24)]
    daily = [interval(BrokerTimes(), name) for name in names]
    assert max(daily) <= DAY
    assert min(daily) >= DAY / 2
    assert len(set(daily)) == len(names), "not all at once"
    assert all(interval(BrokerTimes(ids_kept_ms=6000), name) <= 2 for name in names)


async def test_it_is_due_once_until_something_is_written() -> None:
    due: asyncio.Queue[None] = asyncio.Queue()
    keeping = KeepAlive(3, transactional_id="a", due=lambda: due.put_nowait(None))
    for _ in range(2):
        keeping.wrote()
        await due.get()
        assert keeping._timer is None
    assert due.empty()


async def test_who_has_written_meanwhile_is_not_due() -> None:
    due: list[None] = []
    keeping = KeepAlive(BrokerTimes().ids_kept_ms, transactional_id="a", due=lambda: due.append(None))
    keeping.wrote()
    keeping._check()
    assert due == []
    keeping._wrote_at -= DAY
    keeping._check()
    assert due == [None]
    keeping.wrote()
    keeping.close()
    assert keeping._timer is None
