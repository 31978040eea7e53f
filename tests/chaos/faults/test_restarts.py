"""A service is away while the world goes on: back again it judges by what holds now, not by what it reads first.

Each story ends with evictions that must happen, so that a system that never evicts fails as well.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from tests.chaos.faults.fleet import Fleet, copies_of_each, events, running
from tests.support.brokers import Broker
from tests.support.live import collect
from tests.support.waiting import until

from moorage.cli.api.client import Client
from moorage.cli.api.topics import BEGINNING, Seen, TopicReader
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.budget import EvictionAnswered
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta, to_structured
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONDITIONS,
    EVICTION_ANSWERS,
    EVICTIONS,
    RESOURCES,
    TAINTS,
    TIMER_FIRED,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    ZONES,
    Topic,
)
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneMembered

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

TOPICS = (CONDITIONS, TAINTS, BINDINGS, EVICTIONS, TIMER_FIRED, EVICTION_ANSWERS, ZONE_MEMBERS, ZONE_GRANTS, ZONES)
PODS = 2  # on each node
LATER = {"later": 900, "later-still": 600}
"""Taints that every pod tolerates for many seconds; of the second fewer, so that the deadline moves."""

NOT_READY = "node.kubernetes.io/not-ready"


class TooSlowError(Exception):
    """What was to be tried did not come about, for the machine was too slow."""


class WatchedFleet:
    """A fleet, and all that its topics hold so far."""

    def __init__(self, fleet: Fleet, reader: TopicReader) -> None:
        self.fleet = fleet
        self.seen: list[Seen] = []
        self.safe: set[str] = set()
        """Nodes that nobody has to leave; looked at whenever something is read."""

        self._reader = reader

    async def until(self, holds: Callable[[], bool], seconds: float = 180.0) -> None:
        """Read on until something holds of all that was read."""

        def look(more: list[Seen]) -> bool:
            self.seen += more[len(self.seen) - before :]
            assert not self.evicted(self.safe), "evicted from nodes that nobody has to leave"
            return holds()

        before = len(self.seen)
        if not holds():
            await collect(self._reader, look, seconds)

    async def declare(self, nodes: Iterable[str], tolerations: Sequence[dict[str, Any]], **labels: str) -> None:
        """Declare nodes with their pods, and wait until these are bound."""
        nodes = list(nodes)
        text = yaml.dump_all([one for node in nodes for one in documents(node, tolerations, labels)])
        await self.fleet.moorage("apply", "-f", "-", text=text)
        wanted = set(nodes)

        def bound() -> bool:
            there = [one.event for one in self.seen if isinstance(one.event, WorkloadBound)]
            return len({one.workload.key for one in there if one.target.name in wanted}) == PODS * len(wanted)

        await self.until(lambda: bound() and wanted <= self.members().keys())

    async def report(self, nodes: Iterable[str], status: ConditionStatus) -> None:
        """Say of nodes whether they are ready, as their probe does, and wait until it counts."""
        nodes = list(nodes)
        await self.send(nodes, status)
        await self.until(lambda: all(self.status(node) is status for node in nodes))

    async def send(self, nodes: Iterable[str], status: ConditionStatus) -> None:
        """Say of nodes whether they are ready, as their probe does. When this returns, it is accepted."""
        nodes, now = list(nodes), datetime.now(UTC)
        written = []
        for node in nodes:
            target = TargetRef(kind=TargetKind.NODE, name=node)
            event = ConditionReported(target=target, type="Ready", status=status, observed_time=now, source="kubelet")
            meta = Meta(id=f"{node}-{now.isoformat()}", source="kubelet", type=event.event_type, time=now)
            written.append(to_structured(meta, event))

        def send() -> None:
            with Client(self.fleet.server) as client:
                client.report(written)

        await asyncio.to_thread(send)

    def status(self, node: str) -> ConditionStatus | None:
        """Of its condition Ready, as it was accepted last."""
        found = [
            one.event.status
            for one in self.seen
            if isinstance(one.event, ConditionChanged) and one.event.target.name == node
        ]
        return found[-1] if found else None

    def taints(self, node: str) -> frozenset[tuple[str, str]]:
        """Key and effect of each of a node's taints, as they were written last."""
        sets = self.taint_sets(node)
        return sets[-1] if sets else frozenset()

    def taint_sets(self, node: str) -> list[frozenset[tuple[str, str]]]:
        """All sets of taints that a node ever had."""
        return [
            frozenset((taint.key, str(taint.effect)) for taint in one.event.taints)
            for one in self.seen
            if isinstance(one.event, TargetTainted) and one.event.target.name == node
        ]

    def members(self) -> dict[str, ZoneMembered]:
        """Each node as its zone sees it last."""
        return {one.event.target.name: one.event for one in self.seen if isinstance(one.event, ZoneMembered)}

    def granted(self, nodes: Iterable[str]) -> set[str]:
        """Those of some nodes that were ever granted the taint that evicts."""
        found = [one.event for one in self.seen if isinstance(one.event, NoExecuteGranted)]
        return {one.target.name for one in found if one.granted} & set(nodes)

    def fired(self) -> int:
        """How many timers fired."""
        return sum(one.topic is TIMER_FIRED for one in self.seen)

    def count(self, state: EvictionState, nodes: Iterable[str]) -> int:
        """How many pods of nodes came to a state."""
        nodes = set(nodes)
        return len({one.workload.key for one in events(self.seen, state) if one.target.name in nodes})

    def evicted(self, nodes: Iterable[str]) -> dict[str, int]:
        """How many pods had to leave some nodes; each was told once."""
        told = [one for one in events(self.seen, EvictionState.REQUESTED) if one.target.name in nodes]
        assert len({one.workload.key for one in told}) == len(told), "decided twice"
        return Counter(one.target.name for one in told)

    def held_for(self, service: str, nodes: Sequence[str]) -> bool:
        """Whether all pods of nodes are held because a service has not read all that was accepted."""
        found = [one for one in events(self.seen, EvictionState.HELD) if one.message.startswith(f"{service} ")]
        return len({one.workload.key for one in found if one.target.name in nodes}) == PODS * len(nodes)

    async def until_completed(self, nodes: Sequence[str], seconds: float = 180.0) -> None:
        """All the pods of some nodes are gone."""
        await self.until(lambda: self.count(EvictionState.COMPLETED, nodes) == PODS * len(nodes), seconds)

    async def until_decided(self, nodes: Sequence[str], key: str = "later") -> None:
        """What was written about nodes before now is decided on: one more taint, which all tolerate long, is followed.

        It comes after the others through the same partitions. The key is one of `LATER`.
        """
        before = len(self.seen)
        await self.fleet.moorage("taint", "node", *nodes, f"{key}=1:NoExecute")

        def scheduled() -> bool:
            found = events(self.seen[before:], EvictionState.SCHEDULED)
            return len({one.workload.key for one in found if one.taints[0].key == key}) == PODS * len(nodes)

        await self.until(scheduled)


def tolerates(key: str, seconds: float) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int(seconds)}


def documents(node: str, tolerations: Sequence[dict[str, Any]], labels: dict[str, str]) -> list[dict[str, Any]]:
    """A node and its pods."""
    every = [*tolerations, *(tolerates(key, seconds) for key, seconds in LATER.items())]
    meta = {"name": node, "labels": {"host": node, **labels}}
    spec = {"nodeSelector": {"host": node}, "containers": [{"name": "c", "image": "c:1"}], "tolerations": every}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}-{node}"}, "spec": spec} for n in range(PODS)
    ]
    return [{"apiVersion": "v1", "kind": "Node", "metadata": meta}, *pods]


@asynccontextmanager
async def world(broker: Broker, prefix: str, folder: Path, **given: str) -> AsyncIterator[WatchedFleet]:
    """One process of each service, with these settings."""
    async with (
        running(broker.bootstrap, prefix, folder, copies_of_each(1), **given) as fleet,
        TopicReader(broker.bootstrap, prefix, TOPICS, BEGINNING) as reader,
    ):
        yield WatchedFleet(fleet, reader)


Story = Callable[[WatchedFleet, str], Coroutine[Any, Any, None]]


async def stand_by_until(time: datetime) -> None:
    """Let time pass: how long a service is away is what is tested, and nothing tells of it."""
    await asyncio.sleep(max(0.0, (time - datetime.now(UTC)).total_seconds()))


def named(name: str, **counts: int) -> list[list[str]]:
    """Names of nodes: so many of each kind."""
    return [[f"{name}-{kind}{number}" for number in range(count)] for kind, count in counts.items()]


WITH_ZONES = {
    "MOORAGE_NODE_MONITOR_PERIOD": "5s",
    "MOORAGE_NODE_EVICTION_RATE": "inf",
    "MOORAGE_NODE_MONITOR_GRACE_PERIOD": "0",
}


async def lifted_while_eviction_is_away(it: WatchedFleet, name: str) -> None:
    """Taints are lifted, then timers fire."""
    patience = timedelta(seconds=10)
    lifted, kept = named(name, lifted=10, kept=2)
    every = [*lifted, *kept]
    it.safe.update(lifted)
    await it.declare(every, [tolerates("maint", patience.total_seconds())])
    fired = it.fired()
    await it.fleet.moorage("taint", "node", *every, "maint=1:NoExecute")
    await it.until(lambda: it.count(EvictionState.SCHEDULED, every) == PODS * len(every))
    await it.fleet.take_away("eviction")
    await it.fleet.moorage("taint", "node", *lifted, "maint-")
    await it.until(lambda: not any(it.taints(node) for node in lifted))
    if it.fired() > fired:
        raise TooSlowError("the deadlines came before the taints were lifted")
    await it.until(lambda: it.fired() == fired + PODS * len(every))
    await it.fleet.bring_back("eviction")
    await it.until_completed(kept)
    await it.until(lambda: it.count(EvictionState.CANCELLED, lifted) == PODS * len(lifted))
    await it.until_decided(lifted)
    assert it.evicted(every) == dict.fromkeys(kept, PODS)


async def healed_while_the_taint_manager_is_away(it: WatchedFleet, name: str) -> None:
    """Nodes are granted the taint that evicts, and are ready again."""
    healed, ill, well = named(name, healed=6, ill=1, well=7)
    lost = [*healed, *ill]
    it.safe.update(healed, well)
    await it.declare([*lost, *well], [tolerates(NOT_READY, 1)])
    await it.report(lost, ConditionStatus.FALSE)
    await it.until(lambda: all(it.members()[node].incident for node in lost))
    await it.fleet.take_away("taint-manager")
    await it.until(lambda: it.granted(lost) == set(lost))
    await it.report(healed, ConditionStatus.TRUE)
    await it.fleet.bring_back("taint-manager")
    await it.until_completed(ill)
    await it.until(lambda: not any(it.taints(node) for node in healed))
    await it.until_decided(healed)
    assert it.evicted([*lost, *well]) == dict.fromkeys(ill, PODS)


async def all_lost_while_the_governor_is_away(it: WatchedFleet, name: str) -> None:
    """One node waits, then every node is not ready."""
    first, rest = named(name, first=1, rest=7)
    every = [*first, *rest]
    wait = timedelta(seconds=5)
    it.safe.update(every)
    await it.declare(every, [tolerates(NOT_READY, 0)])
    await it.report(first, ConditionStatus.FALSE)
    await it.until(lambda: bool(it.members()[first[0]].incident))
    await it.fleet.take_away("governor")
    if it.granted(every):
        raise TooSlowError("the governor has granted before it was killed")
    await it.report(rest, ConditionStatus.FALSE)
    await it.until(lambda: all(it.members()[node].incident for node in every))
    await stand_by_until(it.members()[first[0]].since + wait + timedelta(seconds=1))
    before = len(it.seen)
    await it.fleet.bring_back("governor")
    await it.until(lambda: any(isinstance(o.event, ZoneChanged) and o.event.stopped for o in it.seen[before:]))
    await it.until_decided(rest)
    assert not it.granted(every)
    # Now it is one node's trouble again.
    it.safe.difference_update(first)
    await it.report(rest, ConditionStatus.TRUE)
    await it.until_completed(first)
    await it.until_decided(rest, "later-still")
    assert it.evicted(every) == {first[0]: PODS}
    await it.fleet.moorage("delete", "node", *every)


async def short_while_the_taint_manager_is_away(it: WatchedFleet, name: str) -> None:
    """A condition holds for a shorter time than it must."""
    short, long, well = named(name, short=6, long=1, well=7)
    hold = timedelta(seconds=5)
    it.safe.update(short, well)
    await it.declare([*short, *long, *well], [tolerates(NOT_READY, 0)])
    began = datetime.now(UTC)
    await it.report([*short, *long], ConditionStatus.FALSE)
    await it.until(lambda: all(it.taint_sets(node) for node in (*short, *long)))  # it notes what it holds
    await it.fleet.take_away("taint-manager")
    await it.report(short, ConditionStatus.TRUE)
    if datetime.now(UTC) > began + hold:
        raise TooSlowError("the condition has held for long enough")
    await stand_by_until(began + 2 * hold)
    await it.fleet.bring_back("taint-manager")
    await it.until_completed(long)
    await it.until_decided(short)
    assert it.evicted([*short, *long, *well]) == dict.fromkeys(long, PODS)
    for node in short:
        assert all(found <= {("later", "NoExecute")} for found in it.taint_sets(node))


async def wished_and_unwished_while_the_taint_manager_is_away(it: WatchedFleet, name: str) -> None:
    """A taint comes and goes; when it is written, its toleration would be over."""
    patience = timedelta(seconds=4)
    lifted, kept = named(name, lifted=4, kept=1)
    it.safe.update(lifted)
    await it.declare([*lifted, *kept], [tolerates("maint", patience.total_seconds())])
    await it.fleet.take_away("taint-manager")
    await it.fleet.moorage("taint", "node", *lifted, *kept, "maint=1:NoExecute")
    wished = datetime.now(UTC)
    await it.fleet.moorage("taint", "node", *lifted, "maint-")
    await stand_by_until(wished + patience + timedelta(seconds=1))
    await it.fleet.bring_back("taint-manager")
    await it.until_completed(kept)
    await it.until_decided(lifted)
    assert it.evicted([*lifted, *kept]) == dict.fromkeys(kept, PODS)


async def answer_lost_while_eviction_is_away(it: WatchedFleet, name: str) -> None:
    """The leave to go expires unread; the budget that it counted for is used to the full."""
    nodes, others = named(name, paused=2, others=1)
    budget = {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "EvictionBudget",
        "metadata": {"name": "slow"},
        "spec": {"maxConcurrent": PODS * len(nodes), "per": "Fleet"},
    }
    await it.declare([*nodes, *others], [])
    await it.fleet.moorage("apply", "-f", "-", text=yaml.dump(budget))
    await it.fleet.moorage("pause", "evictions")
    await it.fleet.moorage("taint", "node", *nodes, "maint=1:NoExecute")

    def held() -> bool:
        found = [one for one in events(it.seen, EvictionState.HELD) if one.held_by and one.target.name in nodes]
        return len({one.workload.key for one in found}) == PODS * len(nodes)

    await it.until(held)
    await it.fleet.take_away("eviction")
    before = len(it.seen)
    await it.fleet.moorage("resume", "evictions")

    def let_go() -> bool:
        answers = [one.event for one in it.seen[before:] if isinstance(one.event, EvictionAnswered)]
        return len({one.workload.key for one in answers if one.granted}) == PODS * len(nodes)

    await it.until(let_go)
    await expire(it.fleet.settings, EVICTION_ANSWERS)
    assert not it.evicted(nodes)
    await it.fleet.bring_back("eviction")
    await it.until_completed(nodes)
    # The budget is as free as it was.
    await it.fleet.moorage("taint", "node", *others, "maint=1:NoExecute")
    await it.until_completed(others)
    assert it.evicted([*nodes, *others]) == dict.fromkeys([*nodes, *others], PODS)


async def longer_while_placement_is_away(it: WatchedFleet, name: str) -> None:
    """Pods are to tolerate their taint for longer, and nobody has told eviction when it comes due."""
    patience = timedelta(seconds=12)
    saved, kept = named(name, saved=3, kept=1)
    it.safe.update(saved)
    await it.declare([*saved, *kept], [tolerates("maint", patience.total_seconds())])
    await it.fleet.moorage("taint", "node", *saved, *kept, "maint=1:NoExecute")
    await it.until(lambda: it.count(EvictionState.SCHEDULED, [*saved, *kept]) == PODS * len([*saved, *kept]))
    await until_committed(it.fleet.settings, "placement", RESOURCES)
    await it.fleet.take_away("placement")
    longer = [one for node in saved for one in documents(node, [tolerates("maint", 3600)], {})]
    await it.fleet.moorage("apply", "-f", "-", text=yaml.dump_all(longer))
    if it.evicted(kept):
        raise TooSlowError("the deadlines came before the tolerations")
    await it.until(lambda: it.count(EvictionState.REQUESTED, kept) == PODS * len(kept))
    await it.until(lambda: it.held_for("placement", saved))
    await it.fleet.bring_back("placement")
    await it.until_completed(kept)
    await it.until_decided(saved)
    assert it.evicted([*saved, *kept]) == dict.fromkeys(kept, PODS)


async def ready_while_condition_ingest_is_away(it: WatchedFleet, name: str) -> None:
    """Nodes are ready again before their pods have to go, and the reports are accepted, but not read."""
    saved, ill, well = named(name, saved=3, ill=1, well=6)
    it.safe.update(saved, well)
    await it.declare([*saved, *ill, *well], [tolerates(NOT_READY, 12)])
    await it.report([*saved, *ill], ConditionStatus.FALSE)
    await it.until(lambda: it.count(EvictionState.SCHEDULED, [*saved, *ill]) == PODS * len([*saved, *ill]))
    await until_committed(it.fleet.settings, "condition-ingest", CONDITION_REPORTS)
    await it.fleet.take_away("condition-ingest")
    await it.send(saved, ConditionStatus.TRUE)
    if it.evicted(ill):
        raise TooSlowError("the deadlines came before the reports")
    await it.until(lambda: it.count(EvictionState.REQUESTED, ill) == PODS * len(ill))
    await it.until(lambda: it.held_for("condition-ingest", saved))
    await it.fleet.bring_back("condition-ingest")
    await it.until_completed(ill)
    await it.until(lambda: not any(it.taints(node) for node in saved))
    await it.until_decided(saved)
    assert it.evicted([*saved, *ill, *well]) == dict.fromkeys(ill, PODS)


async def until_committed(settings: Settings, service: str, topic: Topic) -> None:
    """Wait until a service has committed that it has read a topic: killed before that, it seems to be behind."""
    tps = [TopicPartition(topic.name(settings.topic_prefix), number) for number in range(settings.partitions)]
    offsets = Offsets(settings, name="test")
    await offsets.start()

    async def so() -> bool:
        committed = await offsets.committed(f"{settings.topic_prefix}.{service}", tps)
        return all(committed.get(tp, 0) >= end for tp, end in (await offsets.stable(tps)).items())

    try:
        await until(so)
    finally:
        await offsets.stop()


async def expire(settings: Settings, topic: Topic) -> None:
    """Delete what a topic holds, as its retention does in the end."""
    name = topic.name(settings.topic_prefix)
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap_servers)
    await admin.start()
    try:
        [described] = await admin.describe_topics([name])
        parts = [TopicPartition(name, part["partition"]) for part in described["partitions"]]
        # -1 stands for the high watermark.
        await admin.delete_records(dict.fromkeys(parts, RecordsToDelete(before_offset=-1)))
    finally:
        await admin.close()


STORIES: dict[str, tuple[Story, dict[str, str]]] = {
    "lifted": (lifted_while_eviction_is_away, {}),
    "healed": (healed_while_the_taint_manager_is_away, WITH_ZONES),
    "all-lost": (all_lost_while_the_governor_is_away, WITH_ZONES),
    "short": (short_while_the_taint_manager_is_away, {**WITH_ZONES, "MOORAGE_TAINT_ADD_HOLD": "5s"}),
    "wished": (wished_and_unwished_while_the_taint_manager_is_away, {}),
    "answer": (answer_lost_while_eviction_is_away, {}),
    "longer": (longer_while_placement_is_away, {}),
    "ready": (ready_while_condition_ingest_is_away, WITH_ZONES),
}


@pytest.mark.parametrize("which", STORIES)
async def test_back_again(broker: Broker, topic_prefix: str, tmp_path: Path, which: str) -> None:
    story, given = STORIES[which]
    async with world(broker, f"{topic_prefix}{which}", tmp_path, **given) as it:
        await story(it, which)
