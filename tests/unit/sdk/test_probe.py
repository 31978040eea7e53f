"""A probe: what it sends, when it repeats, and what it does when Moorage does not answer."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.support.waiting import until

from moorage_schemas.condition import ConditionStatus
from moorage_sdk import Probe, Refusal, SdkError, TransportError
from moorage_sdk.backoff import Backoff
from moorage_sdk.errors import InvalidValueError
from moorage_sdk.metrics import export
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
        self.error: Exception | None = None

    async def start(self) -> None:
        self.is_open = True

    async def send(self, reports: Sequence[Report]) -> list[Refusal]:
        if self.error is not None:
            raise self.error
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
            await probe.report(f"Node/n{number}", "Ready", str(number % 2 == 0))
    assert [one.event.status for one in sender.sent[:2]] == [ConditionStatus.TRUE, ConditionStatus.FALSE]
    assert sender.batches == [500, 500, 200]
    assert not sender.is_open


async def test_times_of_a_condition_increase_although_the_clock_does_not(sender: FakeSender) -> None:
    times = iter([NOW, NOW, NOW - timedelta(seconds=5), NOW])
    async with Probe("probe/x", sender=sender, heartbeat=0, clock=lambda: next(times)) as probe:
        for target in ("Node/a", "Node/a", "Node/a", "Node/b"):
            await probe.report(target, "Ready", "True")
        with pytest.raises(ValueError, match=r"observed_time: invalid value .*Z': must be after"):
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


async def test_the_same_refusal_is_logged_once(sender: FakeSender, caplog: pytest.LogCaptureFixture) -> None:
    sender.refuses = {"gone": "UnknownTarget"}
    async with Probe("probe/x", sender=sender, heartbeat=0) as probe:
        for _ in range(3):
            await probe.report("Node/gone", "Ready", "True")
            await probe.flush()
        await probe.report("Node/gone", "Full", "True")
        sender.refuses = {"gone": "Forbidden"}
        await probe.report("Node/gone", "Ready", "True")
        await probe.flush()
    assert [record.getMessage() for record in caplog.records] == [
        "a report about Node/gone Ready does not count: UnknownTarget: no",
        "a report about Node/gone Full does not count: Forbidden: no",
        "a report about Node/gone Ready does not count: Forbidden: no",
    ]
    assert (probe.counts.refused["UnknownTarget"], probe.counts.refused["Forbidden"]) == (3, 2)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (
            {"target": "n1"},
            "target: invalid value 'n1': expected Kind/name with the kind Node, Cluster, ManagedCluster",
        ),
        ({"target": "Pod/n1"}, "target: invalid value 'Pod/n1': expected Kind/name"),
        ({"target": None}, "target: invalid value None: expected Kind/name"),
        ({"workload": "web"}, "workload: invalid value 'web': expected Kind/namespace/name"),
        ({"status": "Perhaps"}, "status: invalid value 'Perhaps': expected the text 'True', 'False' or 'Unknown'"),
        ({"status": True}, "status: invalid value True: expected the text 'True'"),
        ({"type": "a b"}, "type: invalid value 'a b': must match pattern"),
        ({"type": "x" * 400}, "type: invalid value 'xxx"),
        ({"reason": "x" * 1025}, "must have at most 1024 characters"),
        ({"observed_time": datetime(2026, 1, 1)}, "observed_time: invalid value"),  # noqa: DTZ001 - that is the mistake
        ({"observed_time": NOW + timedelta(seconds=31)}, "observed_time: .* must not be more than 30 s after"),
        ({"observed_time": 17}, "observed_time: invalid value 17: expected a datetime with a time zone"),
        ({"binding_generation": 3}, "binding_generation: invalid value '3': must be empty in a report"),
        ({"workload": "Pod/a/b", "type": "Evicted"}, "binding_generation: invalid value '0': must name the binding"),
    ],
)
async def test_what_the_gateway_would_refuse_is_an_error_at_once(
    sender: FakeSender, wrong: dict[str, Any], error: str
) -> None:
    async with Probe("probe/x", sender=sender, clock=lambda: NOW) as probe:
        with pytest.raises(InvalidValueError, match=error) as raised:
            await probe.report(**{"target": "Node/a", "type": "Ready", "status": "True", **wrong})
        assert probe.waiting == 0
        assert len(str(raised.value)) < 400
        assert raised.value.__suppress_context__ or raised.value.__context__ is None


@pytest.mark.parametrize("source", ["", "my probe", "probe/ä", "x" * 254, "a\nb"])
def test_sources_of_a_wrong_form(sender: FakeSender, source: str) -> None:
    with pytest.raises(InvalidValueError, match=r"source: invalid value .* without spaces, such as probe/disk"):
        Probe(source, sender=sender)


@pytest.mark.parametrize("given", [{"heartbeat": -1}, {"heartbeat": math.nan}, {"linger": math.inf}, {"buffer": 0}])
def test_arguments_without_a_meaning(sender: FakeSender, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError, match=f"{next(iter(given))}: invalid value"):
        Probe("probe/x", sender=sender, **given)


async def test_a_probe_that_is_not_entered_loses_nothing_silently(sender: FakeSender) -> None:
    probe = Probe("probe/x", sender=sender)
    for _ in range(2):
        with pytest.raises(SdkError, match=r"report: outside of `async with`: expected `async with Probe\('probe/x'\)"):
            await probe.report("Node/a", "Ready", "True")
        async with probe:
            await probe.report("Node/a", "Ready", "True")
            with pytest.raises(SdkError, match="in use: expected one `async with` at a time"):
                await probe.__aenter__()
    assert len(sender.sent) == 2


async def test_an_error_that_is_final_ends_the_use_of_the_probe(sender: FakeSender) -> None:
    sender.error = SdkError("the gateway answers 401: no")

    async def run(*, waits: bool) -> None:
        async with Probe("probe/x", sender=sender) as probe:
            await probe.report("Node/a", "Ready", "True")
            await (asyncio.Event().wait() if waits else probe.flush())

    with pytest.raises(SdkError, match="the gateway answers 401: no"):
        await run(waits=True)
    assert not sender.is_open
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with pytest.raises(SdkError, match="401"):
        await run(waits=False)


async def test_an_error_that_is_final_at_the_end(sender: FakeSender) -> None:
    sender.error = SdkError("the gateway answers 401: no")

    async def run() -> None:
        async with Probe("probe/x", sender=sender) as probe:
            await probe.report("Node/a", "Ready", "True")

    with pytest.raises(SdkError, match="the gateway answers 401: no"):
        await run()
    assert not sender.is_open


async def test_another_cancellation_goes_on(sender: FakeSender) -> None:
    sender.error = SdkError("final")

    async def run() -> None:
        async with Probe("probe/x", sender=sender, linger=0) as probe:
            await probe.report("Node/a", "Ready", "True")
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            task.cancel()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_handlers_of_refusals_may_be_async_or_not(sender: FakeSender) -> None:
    sender.refuses = {"a": "UnknownTarget"}
    threads: list[bool] = []

    async def in_the_loop(_: Refusal) -> None:
        threads.append(threading.current_thread() is threading.main_thread())

    def in_a_thread(_: Refusal) -> None:
        threads.append(threading.current_thread() is threading.main_thread())
        raise RuntimeError("of the handler")

    for handler, failures in ((in_the_loop, {}), (in_a_thread, {"on_refusal": 1})):
        async with Probe("probe/x", sender=sender, on_refusal=handler) as probe:
            await probe.report("Node/a", "Ready", "True")
            await probe.flush()
        assert probe.counts.failures == failures
    assert threads == [True, False]


async def test_metrics(sender: FakeSender) -> None:
    registry = CollectorRegistry()
    sender.refuses = {"gone": "UnknownTarget"}
    async with Probe("probe/x", sender=sender, heartbeat=0) as probe:
        export(probe, registry)
        export(Probe("probe/y", sender=sender), registry)
        await probe.report("Node/a", "Ready", "True")
        await probe.report("Node/gone", "Ready", "True")
        await probe.flush()
        text = generate_latest(registry).decode()
    assert {line for line in text.splitlines() if "probe/x" in line and "last_success" not in line} == {
        'moorage_sdk_reports_queued{source="probe/x"} 0.0',
        'moorage_sdk_reports_sent_total{source="probe/x"} 2.0',
        'moorage_sdk_reports_refused_total{reason="UnknownTarget",source="probe/x"} 1.0',
        'moorage_sdk_reports_dropped_total{source="probe/x"} 0.0',
    }
    found = registry.get_sample_value("moorage_sdk_last_success_timestamp_seconds", {"source": "probe/x"})
    assert found is not None
    assert abs(found - datetime.now(UTC).timestamp()) < 3600


def test_pauses_grow_to_a_limit() -> None:
    backoff = Backoff(first=1, most=8)
    pauses = [backoff.failed() for _ in range(40)]
    longest = [1.0, 2.0, 4.0] + [8.0] * 37
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True))
    assert backoff.failed(at_least=60) == 60
    backoff.succeeded()
    assert backoff.failed() <= 1
