"""A deployer: what it does about decisions, what it reports, and what a kill at any point leaves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Self

import pytest
from tests.support.waiting import until

from moorage_schemas.condition import EVICTED, HEALTHY
from moorage_schemas.eviction import Acknowledgement, Escalation, EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, eviction_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_sdk import Connection, Deployer, Probe, Refusal, RefusedError, Remove, Running, SdkError, TransportError
from moorage_sdk.outbox import Report
from moorage_sdk.sources import Decision, Item, Present, Reset
from moorage_sdk.targets import Targets

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = WorkloadRef.parse("Pod/shop/web")
OTHER = WorkloadRef.parse("Pod/shop/other")
NODE = TargetRef.parse("Node/n1")
KEY = binding_key(POD, NODE)


def bound(uid: str = "a", generation: int = 1, **more: Any) -> Decision:
    given = {"workload": POD, "owner": POD, "target": NODE, "bound_time": NOW, "uid": uid, "generation": generation}
    event = WorkloadBound.model_validate({**given, **more})
    return Decision("bindings", binding_key(event.workload, event.target), event)


def evicted(state: EvictionState, revision: int = 1, uid: str = "a", **more: Any) -> Decision:
    given = {"workload": POD, "owner": POD, "target": NODE, "decided_time": NOW, "workload_uid": uid}
    event = EvictionDecided.model_validate({**given, "generation": 1, "state": state, "revision": revision, **more})
    return Decision("evictions", eviction_key(POD, NODE, event.generation), event)


def ended(key: str = KEY) -> Decision:
    return Decision("bindings", key, None)


class FakeSource:
    """Decisions that a test gives. An error that is given is raised, and the next call goes on after it."""

    def __init__(self, *items: Item | Exception) -> None:
        self.items: asyncio.Queue[Item | Exception] = asyncio.Queue()
        self.give(*items)
        self.is_stopped = False

    def give(self, *items: Item | Exception) -> None:
        for item in items:
            self.items.put_nowait(item)

    async def read(self) -> AsyncIterator[Item]:
        while True:
            item = await self.items.get()
            if isinstance(item, Exception):
                raise item
            yield item

    async def stop(self) -> None:
        self.is_stopped = True


class FakeSender:
    def __init__(self) -> None:
        self.sent: list[Report] = []

    async def start(self) -> None: ...

    async def send(self, reports: Sequence[Report]) -> list[Refusal]:
        self.sent += reports
        return []

    async def stop(self) -> None: ...


class Stage:
    """A deployer with a platform that survives it, and a record of what was done."""

    def __init__(self, *items: Item | Exception, running: Sequence[Running] = (), heartbeat: float = 0) -> None:
        self.runs = {(one.key, one.uid): one for one in running}
        self.did: list[str] = []
        self.fails: list[Exception] = []
        self.sender = FakeSender()
        self.source = FakeSource(*items)
        self.probe = Probe("deployer/x", sender=self.sender, heartbeat=heartbeat)
        self.deployer = Deployer("deployer/x", decisions=self.source, probe=self.probe, heartbeat=heartbeat)
        deployer = self.deployer

        @deployer.inventory
        async def inventory() -> list[Running]:
            return list(self.runs.values())

        @deployer.on_placement
        async def place(event: WorkloadBound) -> None:
            self._fail()
            one = Running.of(event)
            self.runs[one.key, one.uid] = one
            self.did.append(f"place {event.uid}{event.generation}")

        @deployer.on_eviction
        async def remove(removal: Remove) -> None:
            self._fail()
            self.runs.pop((removal.running.key, removal.running.uid), None)
            self.did.append(f"remove {removal.running.uid}{removal.running.generation} {removal.reason}")

        @deployer.on_schedule
        async def schedule(event: EvictionDecided) -> None:
            self._fail()
            self.did.append(f"schedule {event.state.value}")

        @deployer.on_cancel
        async def cancel(_: EvictionDecided) -> None:
            self.did.append("cancel")

    def _fail(self) -> None:
        if self.fails:
            raise self.fails.pop(0)

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self.deployer.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def until(self, *did: str) -> None:
        try:
            await until(lambda: self.did == list(did))
        except TimeoutError:
            assert self.did == list(did)

    @property
    def outcomes(self) -> list[str]:
        """What was reported of evictions."""
        told = [one.event for one in self.sender.sent if one.event.type == EVICTED]
        return [
            f"{one.status} {one.workload_uid}{one.binding_generation} {one.reason} {one.message}".rstrip()
            for one in told
        ]

    @property
    def healthy(self) -> list[str]:
        return [f"{one.event.workload}|{one.event.target}" for one in self.sender.sent if one.event.type == HEALTHY]


async def test_handlers_that_are_not_async_run_in_threads_and_are_counted() -> None:
    sender, source = FakeSender(), FakeSource(Reset(), bound("a"), Present())
    probe = Probe("deployer/x", sender=sender, heartbeat=0)
    deployer = Deployer("deployer/x", decisions=source, probe=probe, heartbeat=0)
    did: list[str] = []

    def note(what: str) -> None:
        assert threading.current_thread() is not threading.main_thread()
        did.append(what)

    @deployer.inventory
    def inventory() -> list[Running]:
        note("inventory")
        return []

    @deployer.on_placement
    def place(event: WorkloadBound) -> None:
        note(f"place {event.uid}")
        if did.count("place a") == 1:
            raise RuntimeError("the first time")

    @deployer.on_eviction
    def remove(removal: Remove) -> None:
        note(f"remove {removal.running.uid}")

    @deployer.health
    def health(running: Running) -> bool:
        note(f"health {running.uid}")
        return False

    task = asyncio.create_task(deployer.run())
    await until(lambda: [one.event.status.value for one in sender.sent] == ["False"])
    source.give(ended())
    await until(lambda: did[-1] == "remove a")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert did == ["inventory", "place a", "place a", "health a", "remove a"]
    assert deployer.counts.failures == {"on_placement": 1}
    assert deployer.counts.decisions == {"bindings": 2}


async def test_nothing_is_done_before_the_present_is_reached() -> None:
    history = [bound("a"), evicted(EvictionState.REQUESTED), ended(), bound("b", 2)]
    async with Stage(Reset(), *history) as stage:
        await until(stage.source.items.empty)
        assert stage.did == []
        stage.source.give(Present())
        await stage.until("place b2")
        await until(lambda: stage.healthy == [KEY])
    assert stage.source.is_stopped


async def test_a_start_adopts_what_runs_and_removes_what_has_ended() -> None:
    gone = Running(WorkloadRef.parse("Pod/shop/gone"), NODE, "g", 3)
    old = Running(POD, NODE, "old", 9)
    kept = Running(WorkloadRef.parse("Pod/shop/kept"), NODE, "k", 1)
    history = [bound("a", 2), bound("k", workload=kept.workload, owner=kept.workload)]
    async with Stage(Reset(), *history, Present(), running=[gone, old, kept]) as stage:
        await until(lambda: len(stage.did) == 3)
        assert sorted(stage.did) == ["place a2", "remove g3 BindingEnded", "remove old9 Replaced"]
        assert stage.did.index("remove old9 Replaced") < stage.did.index("place a2")
        await until(lambda: set(stage.healthy) == {KEY, kept.key})


async def test_two_lives_of_a_name_that_run_at_once_become_one() -> None:
    both = [Running(POD, NODE, "old", 1), Running(POD, NODE, "a", 1)]
    async with Stage(Reset(), bound("a"), Present(), running=both) as stage:
        await stage.until("remove old1 Replaced")
        assert [uid for _, uid in stage.runs] == ["a"]


async def test_evictions_are_announced_cancelled_and_carried_out() -> None:
    async with Stage(Reset(), bound(), Present()) as stage:
        stage.source.give(evicted(EvictionState.SCHEDULED, 1, deadline=NOW))
        await stage.until("place a1", "schedule Scheduled")
        stage.source.give(evicted(EvictionState.CANCELLED, 2, reason="TaintRemoved"))
        await stage.until("place a1", "schedule Scheduled", "cancel")
        stage.source.give(evicted(EvictionState.REQUESTED, 3, reason="UntoleratedTaint"))
        await stage.until("place a1", "schedule Scheduled", "cancel", "remove a1 UntoleratedTaint")
        stage.source.give(ended(), evicted(EvictionState.COMPLETED, 4), bound("b", 2))
        await until(lambda: stage.did[4:] == ["place b2"])


async def test_work_that_leaves_gracefully_runs_until_its_binding_ends() -> None:
    gracefully = evicted(EvictionState.REQUESTED, purge_mode="Gracefully")
    async with Stage(Reset(), gracefully, bound(), Present()) as stage:
        await stage.until("place a1")
        stage.source.give(ended())
        await stage.until("place a1", "remove a1 BindingEnded")


async def test_a_handler_that_fails_is_called_again_unless_the_decision_has_changed() -> None:
    async with Stage(Reset(), bound(), Present()) as stage:
        stage.fails = [OSError("no"), OSError("no")]
        await stage.until("place a1")
    async with Stage(Reset(), Present()) as stage:
        stage.fails = [OSError("no")] * 100
        stage.source.give(bound())
        await until(lambda: len(stage.fails) < 100)
        stage.source.give(ended())
        await until(lambda: stage.deployer._tasks == {})
        assert stage.did == []


async def test_what_is_refused_is_tried_again_only_when_the_decision_changes() -> None:
    async with Stage(Reset(), bound(replicas=1), Present()) as stage:
        stage.fails = [RefusedError("too big")]
        await until(lambda: not stage.fails)
        stage.source.give(evicted(EvictionState.SCHEDULED, deadline=NOW))
        await until(stage.source.items.empty)
        assert stage.did == []
        stage.source.give(bound(revision=2))
        await stage.until("place a1", "schedule Scheduled")


async def test_what_has_to_leave_is_not_reported_any_more() -> None:
    async with Stage(Reset(), bound(), Present(), heartbeat=0.02) as stage:
        await until(lambda: len(stage.healthy) > 3)
        stage.fails = [OSError("it does not stop")] * 10**6
        stage.source.give(evicted(EvictionState.REQUESTED))
        await until(lambda: len(stage.fails) < 10**6)
        await stage.probe.flush()
        before = len(stage.healthy)
        await until(lambda: len(stage.fails) < 10**6 - 2)
        assert len(stage.healthy) == before


async def test_a_new_beginning_keeps_what_runs_and_acts_at_its_end() -> None:
    async with Stage(Reset(), bound(), Present()) as stage:
        await stage.until("place a1")
        stage.source.give(TransportError("gone", 0.0), Reset())
        await until(stage.source.items.empty)
        stage.source.give(bound("b", 2))
        await until(stage.source.items.empty)
        assert stage.did == ["place a1"]
        stage.source.give(Present())
        await stage.until("place a1", "remove a1 Replaced", "place b2")


MINE: dict[str, Any] = {"deployer": "deployer/x", "reason": "UntoleratedTaint"}
SAID: dict[str, Any] = {"source": "deployer/x", "time": NOW}


async def test_what_is_removed_is_acknowledged_until_the_decisions_show_it() -> None:
    async with Stage(Reset(), bound(), Present(), heartbeat=0.02) as stage:
        await until(lambda: stage.healthy != [])
        assert {(one.event.workload_uid, one.event.binding_generation) for one in stage.sender.sent} == {("a", 1)}
        stage.source.give(evicted(EvictionState.REQUESTED, **MINE))
        await until(lambda: len(stage.outcomes) > 2)
        assert set(stage.outcomes) == {"True a1"}
        assert stage.did == ["place a1", "remove a1 UntoleratedTaint"]
        stage.source.give(evicted(EvictionState.REQUESTED, 2, **MINE, acknowledged=Acknowledgement(**SAID)))
        await until(lambda: stage.deployer._acknowledged == {})
        await stage.probe.flush()
        told = len(stage.outcomes)
        stage.source.give(bound("b", 2))
        await until(lambda: "place b2" in stage.did)
        await until(lambda: [one.event.workload_uid for one in stage.sender.sent[-3:]] == ["b"] * 3)
        assert len(stage.outcomes) == told


async def test_what_an_earlier_process_has_removed_is_acknowledged() -> None:
    async with Stage(Reset(), bound(), evicted(EvictionState.REQUESTED, **MINE), Present()) as stage:
        await until(lambda: stage.outcomes == ["True a1"])
        assert stage.did == []


@pytest.mark.parametrize(
    "eviction",
    [
        evicted(EvictionState.REQUESTED, deployer="deployer/another"),
        evicted(EvictionState.REQUESTED),
        evicted(EvictionState.SCHEDULED, deadline=NOW),
        evicted(EvictionState.REQUESTED, deployer="deployer/x", purge_mode="Gracefully"),
        evicted(EvictionState.REQUESTED, 2, deployer="deployer/x", acknowledged=Acknowledgement(**SAID)),
        evicted(EvictionState.COMPLETED, 2, deployer="deployer/x"),
    ],
)
async def test_only_what_waits_for_this_deployer_is_acknowledged(eviction: Decision) -> None:
    async with Stage(Reset(), bound(), eviction, bound("c", workload=OTHER, owner=OTHER), Present()) as stage:
        await until(lambda: "place c1" in stage.did)
        await until(lambda: stage.deployer._tasks == {})
        await stage.probe.flush()
        assert stage.outcomes == []


async def test_what_it_has_removed_itself_is_acknowledged_under_its_new_name() -> None:
    old = evicted(EvictionState.REQUESTED, deployer="deployer/former")
    async with Stage(Reset(), bound(), old, Present(), running=[Running(POD, NODE, "a", 1)]) as stage:
        await until(lambda: stage.outcomes == ["True a1"])


async def test_a_removal_that_fails_is_escalated_and_done_when_it_succeeds_later() -> None:
    async with Stage(Reset(), bound(), Present()) as stage:
        await stage.until("place a1")
        stage.fails = [OSError("busy"), OSError("busy"), OSError("busy"), OSError("busy")]
        stage.source.give(evicted(EvictionState.REQUESTED, **MINE))
        await until(lambda: stage.outcomes == ["False a1 Failed OSError: busy"])
        escalated = Escalation(reason="Failed", message="OSError: busy", **SAID)
        stage.source.give(evicted(EvictionState.REQUESTED, 2, **MINE, escalated=escalated))
        await until(lambda: stage.outcomes == ["False a1 Failed OSError: busy", "True a1"])
        assert stage.did == ["place a1", "remove a1 UntoleratedTaint"]


async def test_the_record_of_a_failure_does_not_hasten_the_next_attempt() -> None:
    async with Stage(Reset(), bound(), Present()) as stage:
        await stage.until("place a1")
        stage.fails = [OSError("busy")] * 1000
        stage.source.give(evicted(EvictionState.REQUESTED, **MINE))
        await until(lambda: len(stage.fails) < 1000)
        tried = len(stage.fails)
        for revision in range(2, 200):
            escalated = Escalation(reason="Failed", message=str(revision), **SAID)
            stage.source.give(evicted(EvictionState.REQUESTED, revision, **MINE, escalated=escalated))
        await until(stage.source.items.empty)
        assert tried - len(stage.fails) <= 2


async def test_a_refusal_is_escalated_once_and_its_record_does_not_repeat_it() -> None:
    async with Stage(Reset(), bound(), Present()) as stage:
        await stage.until("place a1")
        stage.fails = [RefusedError("the only copy")] * 2
        stage.source.give(evicted(EvictionState.REQUESTED, **MINE))
        await until(lambda: stage.outcomes == ["False a1 Refused the only copy"])
        escalated = Escalation(reason="Refused", message="the only copy", **SAID)
        stage.source.give(evicted(EvictionState.REQUESTED, 2, **MINE, escalated=escalated))
        stage.source.give(bound("c", workload=OTHER, owner=OTHER))
        await until(stage.source.items.empty)
        await until(lambda: len(stage.fails) == 0)  # the placement of the other workload takes the second one
        assert stage.did == ["place a1"]
        stage.source.give(ended(), evicted(EvictionState.COMPLETED, 3, **MINE))
        await stage.until("place a1", "remove a1 UntoleratedTaint")


async def test_health_is_what_the_handler_says() -> None:
    stage = Stage(Reset(), bound(), Present(), heartbeat=0.02)
    answers = iter(["False", "Unknown"])

    @stage.deployer.health
    async def health(_: Running) -> str:
        return next(answers, "True")

    async with stage:
        await until(lambda: {one.event.status for one in stage.sender.sent} == {"False", "Unknown", "True"})


@pytest.mark.parametrize("missing", ["inventory", "on_placement", "on_eviction"])
async def test_a_deployer_needs_its_handlers(missing: str) -> None:
    deployer = Deployer("deployer/x", decisions=FakeSource(), probe=Probe("x", sender=FakeSender()))
    for name in {"inventory", "on_placement", "on_eviction"} - {missing}:
        getattr(deployer, name)(test_health_is_what_the_handler_says)
    with pytest.raises(SdkError, match=f"no handler {missing}"):
        await deployer.run()


def test_targets_are_patterns() -> None:
    targets = Targets(["Node/rack7-*", "Cluster/paris"])
    assert [one in targets for one in ("Node/rack7-a", "Node/rack8-a", "Cluster/paris")] == [True, False, True]
    assert "Node/x" in Targets(None)
    with pytest.raises(ValueError, match="Kind/name"):
        Targets(["n1"])


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"transport": "kafka"}, "bootstrap_servers: required"),
        ({"token": "t", "token_file": __file__}, "token_file: only one"),
        ({"token_file": "/nowhere"}, "must be a file that can be read"),
        ({"kafka_security_protocol": "SASL_SSL"}, "kafka_sasl_mechanism: invalid value ''"),
        ({"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_sasl_mechanism": "SCRAM-SHA-512"}, "kafka_username"),
        (
            {
                "kafka_security_protocol": "SASL_PLAINTEXT",
                "kafka_sasl_mechanism": "PLAIN",
                "kafka_username": "u",
                "kafka_password": "p",
            },
            "PLAIN only with",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(given: dict[str, str], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Connection.model_validate(given)


def test_no_secret_is_shown() -> None:
    connection = Connection.model_validate({"token": "geheim", "kafka_password": "geheim"})
    assert "geheim" not in repr(connection)
    assert connection.bearer() == "geheim"
