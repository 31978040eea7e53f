"""The topics that a bridge reads, in memory, and what tests write to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from tests.support.records import T0

from moorage.bridges.engine.target_tables import TargetTables
from moorage.bridges.kubernetes.cluster_tables import DecidedTables
from moorage.runtime.service import Input
from moorage_schemas.base import Model
from moorage_schemas.condition import HEALTHY, ConditionChanged, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, condition_key, eviction_key, workload_condition_key
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import Mirrored, ResourceDeclared, TaintWish
from moorage_schemas.taint import Taint, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    WORKLOAD_CONDITIONS,
    Topic,
)


def target(node: str, cluster: str = "") -> TargetRef:
    return TargetRef(kind=TargetKind.NODE, name=node, cluster=cluster)


def workload(pod: str, cluster: str = "") -> WorkloadRef:
    return WorkloadRef(kind="Pod", namespace="default", name=pod, cluster=cluster)


def a_taint(
    key: str, effect: str = "NoExecute", value: str = "", origin: TaintOrigin = TaintOrigin.POLICY, at: datetime = T0
) -> TaintRecord:
    return TaintRecord(key=key, value=value, effect=effect, time_added=at, origins=(origin,))


class Topics:
    """The last record of each key. Whoever follows is told of each record at once."""

    def __init__(self) -> None:
        self.records: dict[tuple[Topic, str], Input] = {}
        self._readers: list[TargetTables] = []
        self._offset = 0

    def follow(self, tables: TargetTables) -> None:
        """Give tables everything, and what is written from now on."""
        for record in list(self.records.values()):
            if tables.wants(record.topic, record.key):
                tables.apply(record)
        self._readers.append(tables)

    def unfollow(self, tables: TargetTables) -> None:
        if tables in self._readers:
            self._readers.remove(tables)

    def write(self, topic: Topic, key: str, event: Model | None) -> None:
        """Write a record, or a tombstone."""
        self._offset += 1
        meta = Meta(id=f"e{self._offset}", source="test", type=topic.event_type)
        record = Input(topic, 0, self._offset, key, event, meta)
        if event is None:
            self.records.pop((topic, key), None)
        else:
            self.records[(topic, key)] = record
        for tables in tuple(self._readers):
            if tables.wants(topic, key):
                tables.apply(record)

    def event(self, topic: Topic, key: str) -> Any:
        """The last event of a key. None if there is none."""
        record = self.records.get((topic, key))
        return record.event if record is not None else None

    # What the gateway and the services write.

    def declare(
        self,
        found: Mapping[str, Any],
        *,
        source: str = "bridge/home",
        cluster: str = "",
        wishes: Iterable[TaintWish] = (),
        cluster_uid: str = "",
        keeps_taints: bool = False,
    ) -> None:
        """An object of a cluster, as the gateway writes it."""
        spec = dict(found.get("spec") or {})
        foreign = tuple(Taint.model_validate(one) for one in spec.pop("taints", ()))
        metadata = {name: value for name, value in found["metadata"].items() if name != "resourceVersion"}
        event = ResourceDeclared(
            object={**found, "metadata": metadata, "spec": spec},
            version=1,
            wishes=tuple(wishes),
            cluster=cluster,
            mirrored=Mirrored(
                source=source,
                resource_version=found["metadata"].get("resourceVersion", ""),
                cluster_uid=cluster_uid,
                taints=foreign,
                keeps_taints=keeps_taints,
            ),
        )
        self.write(RESOURCES, event.key, event)

    def taint(self, node: str, *taints: TaintRecord, uid: str = "", cluster: str = "") -> None:
        where = target(node, cluster)
        event = TargetTainted(target=where, target_uid=uid, generation=1, taints=taints)
        self.write(TAINTS, where.key, event)

    def condition(
        self,
        node: str | TargetRef,
        kind: str,
        status: str = "True",
        *,
        reason: str = "",
        message: str = "",
        source: str = "probe/disk",
        uid: str = "",
        cluster: str = "",
    ) -> None:
        where = node if isinstance(node, TargetRef) else target(node, cluster)
        event = ConditionChanged(
            target=where,
            target_uid=uid,
            type=kind,
            status=ConditionStatus(status),
            reason=reason,
            message=message,
            source=source,
            last_transition_time=T0,
            last_heartbeat_time=T0,
            generation=1,
        )
        self.write(CONDITIONS, condition_key(where, kind), event)

    def bind(self, pod: str, uid: str, node: str, *, generation: int = 1, cluster: str = "") -> None:
        where, what = target(node, cluster), workload(pod, cluster)
        event = WorkloadBound(workload=what, uid=uid, owner=what, target=where, generation=generation, bound_time=T0)
        self.write(BINDINGS, binding_key(what, where), event)

    def wait_for_room(self, pod: str, uid: str, message: str) -> None:
        what = workload(pod)
        event = WorkloadPlaced(
            workload=what,
            uid=uid,
            owner=what,
            owner_uid=uid,
            generation=1,
            state=PlacementState.PENDING,
            reason="Unschedulable",
            message=message,
            decided_time=T0,
        )
        self.write(PLACEMENTS, what.key, event)

    def evict(
        self,
        pod: str,
        uid: str,
        node: str,
        *,
        state: EvictionState = EvictionState.REQUESTED,
        generation: int = 1,
        cluster: str = "",
    ) -> None:
        where, what = target(node, cluster), workload(pod, cluster)
        event = EvictionDecided(
            workload=what,
            workload_uid=uid,
            owner=what,
            target=where,
            generation=generation,
            revision=1,
            state=state,
            taints=(Taint(key="broken", effect="NoExecute"),),
            decided_time=T0,
            deployer="bridge/home",
        )
        self.write(EVICTIONS, eviction_key(what, where, generation), event)

    def write_end_of_eviction(self, pod: str, node: str) -> None:
        """The tombstone of an eviction that was withdrawn."""
        self.write(EVICTIONS, eviction_key(workload(pod), target(node), 1), None)

    def health(self, pod: str, uid: str, node: str, status: str = "True", *, cluster: str = "") -> None:
        where, what = target(node, cluster), workload(pod, cluster)
        event = WorkloadConditionChanged(
            target=where,
            type=HEALTHY,
            status=ConditionStatus(status),
            source="bridge/home",
            last_transition_time=T0,
            last_heartbeat_time=T0,
            generation=1,
            workload=what,
            workload_uid=uid,
            binding_generation=1,
        )
        self.write(WORKLOAD_CONDITIONS, workload_condition_key(what, where, HEALTHY), event)


class TopicsReader:
    """Stands for the reader of topics in Kafka, in a bridge."""

    def __init__(self, topics: Topics, tables: TargetTables) -> None:
        self._topics = topics
        self._tables = tables
        self.caught_up = asyncio.Event()
        self.sound = True
        self.progress = 1.0
        self.moves = 1
        self.followed: frozenset[Any] = frozenset()

    def start(self) -> None:
        self._topics.follow(self._tables)
        self.caught_up.set()

    async def stop(self) -> None:
        self._topics.unfollow(self._tables)


class NoOffsets:
    """Stands for the client that asks Kafka for offsets."""

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass


def tables(cluster: str = "", touched: Callable[[str, str], None] = lambda _kind, _key: None) -> DecidedTables:
    return DecidedTables(cluster, touched)
