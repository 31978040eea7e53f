"""The clock of a process, measured against the brokers' and corrected."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError
from structlog.testing import capture_logs
from tests.support.virtual_time import virtual_time

from moorage.runtime.kafka.admin.broker_clock import BrokerClock
from moorage.runtime.kafka.clients import clients
from moorage.runtime.process import metrics
from moorage.runtime.process.clock import CorrectedClock
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.clock import ClockMeasured

START = datetime(2026, 1, 1, tzinfo=UTC)


class Machine:
    """A machine, and the broker that it reaches. The broker's clock is right."""

    def __init__(self, ahead: float) -> None:
        self.ahead = ahead
        self.there = [0.01]
        """The seconds that the next requests take to the broker; the last one counts again and again."""

        self.back = 0.01
        self.timestamp_type = 1
        self.error: Exception | None = None
        self.sent: list[ClockMeasured] = []
        self.clock = CorrectedClock(self.wall, self.ticks)

    @staticmethod
    def ticks() -> float:
        return asyncio.get_running_loop().time()

    def true(self) -> datetime:
        return START + timedelta(seconds=self.ticks())

    def wall(self) -> datetime:
        return self.true() + timedelta(seconds=self.ahead)

    @property
    def off(self) -> float:
        """By how many seconds its corrected clock is off."""
        return (self.clock.now() - self.true()).total_seconds()

    async def start(self) -> None:
        """Connect."""

    async def stop(self) -> None:
        """Disconnect."""

    async def send_and_wait(self, topic: str, value: bytes, **options: Any) -> Any:
        assert (topic, options["partition"]) == ("moorage.clocks.v1", 0)
        await asyncio.sleep(self.there.pop(0) if len(self.there) > 1 else self.there[0])
        if self.error is not None:
            raise self.error
        self.sent.append(ClockMeasured.model_validate_json(value))
        appended = round(self.true().timestamp() * 1000)
        await asyncio.sleep(self.back)
        return SimpleNamespace(timestamp=appended, timestamp_type=self.timestamp_type)


@contextmanager
def reached(machine: Machine) -> Iterator[BrokerClock]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clients, "reports_producer", lambda *_, **__: machine)
        yield BrokerClock(Settings(), ["eviction", "timer"], machine.clock)


@virtual_time
async def test_a_clock_that_is_off_by_more_than_a_second_is_corrected_and_reported() -> None:
    for ahead, left in ((600.0, 0.0), (-600.0, 0.0), (1.2, 0.0), (0.9, 0.9), (-0.9, -0.9), (0.0, 0.0)):
        machine = Machine(ahead)
        with reached(machine) as brokers, capture_logs() as logs:
            await brokers.start()
            assert machine.off == pytest.approx(left, abs=0.02), ahead
            assert metrics.CLOCK_OFFSET._value.get() == pytest.approx(ahead, abs=0.02)
            said = [line for line in logs if line["event"] == "clock.off"]
            if abs(ahead) <= 1:
                assert (said, brokers.state) == ([], "")
            else:
                assert [line["log_level"] for line in said] == ["error"]
                assert said[0]["seconds"] == pytest.approx(ahead, abs=0.02)
                assert said[0]["services"] == ("eviction", "timer")
                assert f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} the brokers'" in brokers.state
            await brokers.stop()
            assert machine.off == pytest.approx(ahead), "the machine's clock again"


@virtual_time
async def test_a_step_of_the_machine_s_clock_changes_nothing_and_is_measured_at_once() -> None:
    machine = Machine(0.2)
    with reached(machine) as brokers:
        await brokers.start()
        await asyncio.sleep(5)
        for ahead in (3600.2, -3600.0, 0.2):
            machine.ahead, measured = ahead, len(machine.sent)
            assert abs(machine.off) < 0.3, "until then it counts the time that has passed"
            await asyncio.sleep(2)
            assert len(machine.sent) > measured
            assert abs(machine.off) < 0.3
        machine.ahead, measured = 0.3, len(machine.sent)
        await asyncio.sleep(2)
        assert len(machine.sent) == measured, "a small step waits for its turn"
        await asyncio.sleep(30)
        assert len(machine.sent) == measured + 1
        assert [(one.offset_seconds or 0) > 3000 for one in machine.sent].count(True) >= 1
        assert machine.sent[-1].corrected is False
        await brokers.stop()


@virtual_time
async def test_of_a_slow_answer_and_quick_ones_the_quickest_counts() -> None:
    machine = Machine(0.1)
    machine.there = [3.0, 1.5, 0.02]
    with reached(machine) as brokers, capture_logs() as logs:
        await brokers.start()
        assert len(machine.sent) == 3
        assert machine.off == pytest.approx(0.1, abs=0.02)
        assert [line for line in logs if line["event"] == "clock.off"] == []
        await brokers.stop()


@virtual_time
async def test_an_error_is_logged_for_each_change_and_again_every_ten_minutes() -> None:
    machine = Machine(5.0)
    with reached(machine) as brokers, capture_logs() as logs:
        await brokers.start()
        await asyncio.sleep(650)
        machine.ahead = 8.0
        await asyncio.sleep(60)
        machine.ahead = 0.0
        await asyncio.sleep(60)
        said = [(line["event"], line.get("seconds")) for line in logs if line["event"].startswith("clock.")]
        assert [event for event, _ in said] == ["clock.off"] * 3 + ["clock.right"]
        assert [seconds for _, seconds in said[:-1]] == pytest.approx([5, 5, 8], abs=0.02)
        await brokers.stop()


@virtual_time
async def test_where_the_brokers_cannot_be_measured_the_machine_s_clock_counts() -> None:
    for timestamp_type, error, why in (
        (0, None, "not LogAppendTime"),
        (1, TopicAuthorizationFailedError("moorage.clocks.v1"), "clocks"),
        (1, KafkaConnectionError("away"), "did not answer"),
    ):
        machine = Machine(600)
        machine.timestamp_type, machine.error = timestamp_type, error
        with reached(machine) as brokers, capture_logs() as logs:
            await brokers.start()
            await asyncio.sleep(40)
            assert machine.off == pytest.approx(600)
            (warning,) = [line for line in logs if line["log_level"] == "warning"]
            assert warning["event"] == "clock.not_measured"
            assert why in str(warning)
            machine.timestamp_type, machine.error = 1, None
            await asyncio.sleep(60)
            assert machine.off == pytest.approx(0, abs=0.02), "as soon as they can be"
            await brokers.stop()
