"""The maximum age of a process's tables."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from moorage.apiserver import server
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.kafka.term import Term
from moorage.apiserver.storage.store import Store
from moorage.runtime.kafka.admin.broker_times import BrokerTimes
from moorage.runtime.kafka.tables.table_age import Instant, TableAge
from moorage.runtime.process.failures import TablesTooOld
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.shown import GatewayLeader

T0 = datetime(2026, 1, 1, tzinfo=UTC)


class Moving:
    """A wall clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return T0 + timedelta(seconds=self.seconds)

    async def sleep_until(self, when: datetime) -> None:
        raise NotImplementedError


class Aged(TableAge):
    """A table age whose other clock is also set by the test."""

    def __init__(self, clock: Moving, kept: float) -> None:
        self.ticks = 0.0
        self.moving = clock
        super().__init__(clock, kept)

    def instant(self) -> Instant:
        return Instant(self.moving.now().timestamp(), self.ticks)


@pytest.mark.parametrize(("wall", "ticks", "over"), [(50, 50, False), (51, 0, True), (0, 51, True), (-999, 51, True)])
def test_either_clock_tells(wall: float, ticks: float, over: bool) -> None:  # noqa: FBT001 - a table's column
    """A machine that sleeps stops one clock. The other one may be changed."""
    age = Aged(Moving(), 100)
    age.moving.seconds, age.ticks = wall, ticks
    assert age.is_expired is over
    if over:
        with pytest.raises(TablesTooOld):
            age.check()
    else:
        age.check()


def test_what_was_read_to_its_end_counts_from_when_the_end_was_asked_for() -> None:
    age = Aged(Moving(), 100)
    age.moving.seconds = age.ticks = 30
    asked = age.instant()
    age.moving.seconds = age.ticks = 45
    age.whole(asked)
    age.moving.seconds = age.ticks = 80
    assert not age.is_expired
    age.moving.seconds = age.ticks = 81
    assert age.is_expired


def test_too_old_stays_too_old() -> None:
    """Records that are read after a stop do not include deletions during the stop."""
    age = Aged(Moving(), 100)
    age.moving.seconds = age.ticks = 60
    age.whole(age.instant())
    assert age.is_expired


def test_a_leading_gateway_that_is_too_old_takes_no_writes() -> None:
    async def story() -> None:
        clock = Moving()
        age = Aged(clock, 100)
        term = Term(
            Settings(bootstrap_servers="localhost:1"),
            3,
            Store(),
            clock,
            Metrics(),
            leader=GatewayLeader(instance="a"),
            times=BrokerTimes(),
            age=age,
        )
        term.obstacle = ""
        writing = asyncio.create_task(term.commit([]))
        await asyncio.sleep(0)
        age.moving.seconds = 51
        with pytest.raises(TablesTooOld):
            await term._write_on()
        await term._end()
        with pytest.raises(StatusError, match="is reading its tables again"):
            await writing

    asyncio.run(story())


def test_a_gateway_that_is_too_old_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    lives = []

    async def life(_settings: Settings, _ready: object, _front: object) -> None:
        lives.append(1)
        if len(lives) == 1:
            raise ExceptionGroup("tasks", [TablesTooOld("stood still")])
        raise OSError("the port is taken")

    monkeypatch.setattr(server, "_serve", life)
    with pytest.raises(OSError, match="taken"):
        asyncio.run(server.serve(Settings()))
    assert len(lives) == 2
