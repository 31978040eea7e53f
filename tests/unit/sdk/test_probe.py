"""A probe: what it sends, when it repeats, and what it does when Moorage does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.waiting import until

from moorage_schemas.condition import ConditionStatus
from moorage_sdk import Probe, Refusal, TransportError
from moorage_sdk.backoff import Backoff
from moorage_sdk.outbox import Report

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class FakeSender:
    """Keeps what it is given. It fails as often as it is told to."""

    def __init__(self) -> None:
        self.sent: list[Report] = []
        self.batches: list[int] = []
        self.fails = 0
        self.refuses: dict[str, str] = {}
        self.is_open = False

    async def start(self) -> None:
        self.is_open = True

    async def send(self, reports: Sequence[Report]) -> list[Refusal]:
        if self.fails:
            self.fails -= 1
            raise TransportError("does not answer", 0.001)
        self.sent += reports
        self.batches.append(len(reports))
        return [
            Refusal(one.meta.id, self.refuses[one.event.target.name], "no", one.subject)
            for one in reports
            if one.event.target.name in self.refuses
        ]

    async def stop(self) -> None:
        self.is_open = False


@pytest.fixture
def sender() -> FakeSender:
    return FakeSender()


async def test_reports_are_sent_together_and_before_the_end(sender: FakeSender) -> None:
    async with Probe("probe/x", sender=sender, heartbeat=0) as probe:
        for number in range(1200):
            await probe.report(f"Node/n{number}", "Ready", number % 2 == 0)
    assert [one.event.status for one in sender.sent[:2]] == [ConditionStatus.TRUE, ConditionStatus.FALSE]
    assert sender.batches == [500, 500, 200]
    assert not sender.is_open


async def test_times_of_a_condition_increase_although_the_clock_does_not(sender: FakeSender) -> None:
    times = iter([NOW, NOW, NOW - timedelta(seconds=5), NOW])
    async with Probe("probe/x", sender=sender, heartbeat=0, clock=lambda: next(times)) as probe:
        for target in ("Node/a", "Node/a", "Node/a", "Node/b"):
            await probe.report(target, "Ready", "True")
        with pytest.raises(ValueError, match=r"observed_time: invalid value .*Z: must be after"):
            await probe.report("Node/a", "Ready", "True", observed_time=NOW)
    assert [(one.event.observed_time - NOW) // timedelta(microseconds=1) for one in sender.sent] == [0, 1, 2, 0]
    assert len({one.meta.id for one in sender.sent}) == 4


async def test_the_id_follows_from_the_observation(sender: FakeSender) -> None:
    async def identity() -> str:
        async with Probe("probe/x", sender=sender, heartbeat=0) as probe:
            return await probe.report("Node/a", "Ready", "True", observed_time=NOW)

    assert await identity() == await identity()


async def test_what_cannot_be_sent_waits(sender: FakeSender) -> None:
    sender.fails = 3
    async with Probe("probe/x", sender=sender, heartbeat=0, buffer=2) as probe:
        for status in ("True", "False", "Unknown"):
            await probe.report("Node/a", "Ready", status)
            await probe.report("Node/b", "Ready", status)
        assert (probe.waiting, probe.dropped) == (2, 4)
        await probe.flush()
    assert [one.event.status for one in sender.sent] == [ConditionStatus.UNKNOWN] * 2


async def test_the_last_state_is_repeated(sender: FakeSender) -> None:
    async with Probe("probe/x", sender=sender, heartbeat=0.02) as probe:
        await probe.report("Node/a", "Ready", "True")
        await probe.report("Node/a", "Ready", "False", reason="Stopped")
        await probe.report("Node/b", "Ready", "True")
        await until(lambda: len(sender.sent) > 8)
        probe.forget("Node/b", "Ready")
        await probe.flush()
        before = len(sender.sent)
        await until(lambda: len(sender.sent) > before + 2)
    later = sender.sent[3:]
    assert {one.event.reason for one in later if one.event.target.name == "a"} == {"Stopped"}
    assert [one for one in sender.sent[before + 1 :] if one.event.target.name == "b"] == []
    times = [one.event.observed_time for one in sender.sent if one.event.target.name == "a"]
    assert times == sorted(set(times))


async def test_a_heartbeat_does_not_pile_up(sender: FakeSender) -> None:
    sender.fails = 10**9
    async with Probe("probe/x", sender=sender, heartbeat=0.01, closing=0.01) as probe:
        await probe.report("Node/a", "Ready", "True")
        for _ in range(20):
            probe._beat(asyncio.get_running_loop().time() + 1000)
        assert probe.waiting == 1


async def test_refusals_are_told_and_an_unknown_target_is_tried_seldom(sender: FakeSender) -> None:
    told: list[Refusal] = []
    sender.refuses = {"gone": "UnknownTarget"}
    async with Probe("probe/x", sender=sender, heartbeat=0, on_refusal=told.append) as probe:
        identity = await probe.report("Node/gone", "Ready", "True")
        await probe.report("Node/a", "Ready", "True")
        await probe.flush()
        assert [(one.id, one.reason, one.subject) for one in told] == [(identity, "UnknownTarget", "Node/gone Ready")]
        for beat in range(1, 7):
            probe._beat(asyncio.get_running_loop().time() + 1000 * beat)
            await probe.flush()
    assert [one.event.target.name for one in sender.sent].count("gone") == 2
    assert [one.event.target.name for one in sender.sent].count("a") == 7


@pytest.mark.parametrize(
    ("wrong", "field"), [({"target": "n1"}, "Kind/name"), ({"status": "Perhaps"}, "Perhaps"), ({"type": "a b"}, "type")]
)
async def test_a_wrong_report_is_an_error_at_once(sender: FakeSender, wrong: dict[str, str], field: str) -> None:
    async with Probe("probe/x", sender=sender) as probe:
        given = {"target": "Node/a", "type": "Ready", "status": "True", **wrong}
        with pytest.raises(ValueError, match=field):
            await probe.report(given["target"], given["type"], given["status"])
        assert probe.waiting == 0


def test_pauses_grow_to_a_limit() -> None:
    backoff = Backoff(first=1, most=8)
    pauses = [backoff.failed() for _ in range(40)]
    longest = [1.0, 2.0, 4.0] + [8.0] * 37
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True))
    assert backoff.failed(at_least=60) == 60
    backoff.succeeded()
    assert backoff.failed() <= 1
