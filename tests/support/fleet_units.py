"""The units of a fleet: the records that one node, workload, cluster and so on has in each topic.

Records have the headers that services write, and become the bytes of a producer's batches, which aiokafka parses again.
`fill` folds them into a state as a process does that restores it.
"""

from __future__ import annotations

import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from aiokafka import TopicPartition
from aiokafka.consumer.fetcher import PartitionRecords
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from moorage.apiserver.storage.derivation import Derivation
from moorage.apiserver.storage.object_log import LoggedRecord
from moorage.apiserver.storage.store import Store
from moorage.apiserver.storage.tables import READ
from moorage.decide.conditions.heartbeats import timer_id
from moorage.insight.copy import run
from moorage.insight.explain.grounds import TOPICS as EXPLAINED
from moorage.insight.query.query_tables import QueryTables
from moorage.runtime.service import Input, Service
from moorage.runtime.settings.process_settings import Settings
from moorage.runtime.wire import codec
from moorage.runtime.wire.codec import BEFORE_HEADER, SOURCES_HEADER, before_value, sources_value
from moorage_schemas.base import Model
from moorage_schemas.condition import HEALTHY, ConditionChanged, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, condition_key, eviction_key, workload_condition_key
from moorage_schemas.placement import PlacementState, TargetScore, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Taint, TargetTainted, Toleration
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import (
    BINDINGS,
    CONDITIONS,
    EVICTIONS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    TIMERS,
    WORKLOAD_CONDITIONS,
    ZONE_MEMBERS,
    Topic,
)
from moorage_schemas.zone import ZoneMembered

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
BATCH: Final = 500
REPLICAS: Final = 10
PODS_A_NODE: Final = 50
KUBELET: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
DECIDED_CLUSTERS: Final = 10
"""The number of clusters that an OCM placement selects."""

OCM_CLUSTERS: Final = 1000
"""The number of managed clusters that exist when the memory of OCM placements is measured."""


class UnitRecord(NamedTuple):
    """A record of a unit."""

    topic: Topic
    key: str
    event: Model


Records = Iterator[UnitRecord]


@dataclass(frozen=True, slots=True)
class Unit:
    """A thing of which a fleet has many."""

    name: str
    what: str
    """What one unit consists of."""

    records: Callable[[int], Records]
    """Returns the records of one unit, by its number."""

    context: Callable[[int], Records] = lambda _: iter(())
    """Returns the records that exist before the units, by the number of units."""


def node_ref(number: int) -> TargetRef:
    """A node."""
    return TargetRef(kind=TargetKind.NODE, name=f"node-{number:07}")


def uid(kind: str, number: int) -> str:
    """A uid of the usual length."""
    text = event_id("uid", kind, number)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _condition(target: TargetRef, target_uid: str, kind: str) -> UnitRecord:
    changed = ConditionChanged(
        target=target,
        target_uid=target_uid,
        type=kind,
        status=ConditionStatus.TRUE,
        reason="KubeletReady",
        message="kubelet is posting ready status",
        source="probe/kubelet",
        last_transition_time=NOW,
        last_heartbeat_time=NOW,
        generation=1,
        report_id=event_id("report", target, kind),
        accepted_time=NOW,
        status_since=NOW,
    )
    return UnitRecord(CONDITIONS, condition_key(target, kind), changed)


def _heartbeat_timer(target: TargetRef, target_uid: str) -> UnitRecord:
    identity = timer_id(target, target_uid, ("0", 0), "probe/kubelet")
    timer = SetTimer(
        id=identity,
        target=target,
        owner="condition-ingest",
        generation=1,
        deadline=NOW + timedelta(days=1),
        subject=target.key,
        correlation_id=event_id("report", target),
    )
    return UnitRecord(TIMERS, identity, timer)


def _tainted(target: TargetRef, target_uid: str, *, zone: str = "") -> UnitRecord:
    return UnitRecord(TAINTS, target.key, TargetTainted(target=target, target_uid=target_uid, generation=1, zone=zone))


def node(number: int) -> Records:
    """A node as a cloud declares it, with the five conditions of its kubelet."""
    target, own = node_ref(number), uid("node", number)
    zone = f"zone-{number % 3}"
    amounts = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "500Gi", "pods": "110"}
    event = ResourceDeclared(
        object={
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": target.name,
                "uid": own,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {
                    "kubernetes.io/hostname": target.name,
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/arch": "amd64",
                    "node.kubernetes.io/instance-type": "m6i.16xlarge",
                    "topology.kubernetes.io/region": "region-1",
                    "topology.kubernetes.io/zone": zone,
                },
            },
            "spec": {"providerID": f"cloud:///{zone}/i-{number:017x}"},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "addresses": [
                    {"type": "InternalIP", "address": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"}
                ],
                "nodeInfo": {
                    "kubeletVersion": "v1.35.0",
                    "osImage": "Linux",
                    "kernelVersion": "6.12.0",
                    "containerRuntimeVersion": "containerd://2.1.0",
                },
            },
        },
        version=1,
    )
    yield UnitRecord(RESOURCES, event.key, event)
    for kind in KUBELET:
        yield _condition(target, own, kind)
    yield _heartbeat_timer(target, own)
    yield _tainted(target, own, zone=f"region-1/{zone}")
    member = ZoneMembered(target=target, target_uid=own, zone=f"region-1/{zone}", generation=1, ready=True, since=NOW)
    yield UnitRecord(ZONE_MEMBERS, target.key, member)


def condition(number: int) -> Records:
    """One more condition of a node."""
    at = number // len(KUBELET)
    yield _condition(node_ref(at), uid("node", at), f"Custom{number % len(KUBELET)}")


def _nodes(count: int) -> Records:
    return itertools.chain.from_iterable(map(node, range(count)))


TOLERATIONS: Final = tuple(
    Toleration(key=f"node.kubernetes.io/{key}", operator="Exists", effect="NoExecute", toleration_seconds=300)
    for key in ("not-ready", "unreachable")
)


def _owner(number: int) -> WorkloadRef:
    return WorkloadRef(kind="Deployment", namespace=f"team-{number % 100}", name=f"app-{number:07}")


def _pod(number: int) -> WorkloadRef:
    owner = _owner(number // REPLICAS)
    return WorkloadRef(kind="Pod", namespace=owner.namespace, name=f"{owner.name}-{number % REPLICAS:05}")


def workload(number: int) -> Records:
    """A pod of a Deployment with ten replicas: a tenth of the Deployment, its decision, its binding and its health."""
    pod, owner, owner_number = _pod(number), _owner(number // REPLICAS), number // REPLICAS
    labels = {"app": owner.name}
    requests = {"cpu": "250m", "memory": "256Mi"}
    if number % REPLICAS == 0:
        deployment = ResourceDeclared(
            object={
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": owner.name, "namespace": owner.namespace, "uid": uid("app", owner_number)},
                "spec": {
                    "replicas": REPLICAS,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {
                            "containers": [{"name": "main", "image": "app:1", "resources": {"requests": requests}}],
                            "priority": 0,
                            "tolerations": [one.model_dump(mode="json", by_alias=True) for one in TOLERATIONS],
                        },
                    },
                },
            },
            version=1,
        )
        yield UnitRecord(RESOURCES, deployment.key, deployment)
    target, own = node_ref(number // PODS_A_NODE), uid("pod", number)
    placed = WorkloadPlaced(
        workload=pod,
        uid=own,
        owner=owner,
        owner_uid=uid("app", owner_number),
        template_hash=f"{owner_number:08x}",
        index=number % REPLICAS,
        generation=1,
        state=PlacementState.PLACED,
        target=target,
        binding_generation=1,
        reason="Scheduled",
        message=f"placed on {target.name}",
        targets_considered=5000,
        scores=tuple(
            TargetScore(target=f"node-{place:07}", total=100 - place, scores={"LeastAllocated": 90, "NodeAffinity": 10})
            for place in range(10)
        ),
        decided_time=NOW,
    )
    yield UnitRecord(PLACEMENTS, pod.key, placed)
    bound = WorkloadBound(
        workload=pod,
        uid=own,
        owner=owner,
        target=target,
        generation=1,
        tolerations=TOLERATIONS,
        labels=labels,
        requests={"cpu": 250, "memory": 268_435_456},
        bound_time=NOW,
    )
    yield UnitRecord(BINDINGS, binding_key(pod, target), bound)
    healthy = WorkloadConditionChanged(
        **_condition(target, uid("node", number // PODS_A_NODE), HEALTHY).event.model_dump(), workload=pod
    )
    yield UnitRecord(WORKLOAD_CONDITIONS, workload_condition_key(pod, target, HEALTHY), healthy)


def eviction(number: int) -> Records:
    """An eviction that is scheduled, with its timer."""
    pod, target, owner = _pod(number), node_ref(number // PODS_A_NODE), _owner(number // REPLICAS)
    key = eviction_key(pod, target, 1)
    decided = EvictionDecided(
        workload=pod,
        workload_uid=uid("pod", number),
        owner=owner,
        target=target,
        generation=1,
        revision=1,
        state=EvictionState.SCHEDULED,
        deadline=NOW + timedelta(seconds=300),
        taints=(Taint(key="node.kubernetes.io/unreachable", effect="NoExecute", time_added=NOW),),
        taint_generation=2,
        reason="TaintNotTolerated",
        message="tolerates node.kubernetes.io/unreachable:NoExecute for 300 s",
        decided_time=NOW,
    )
    yield UnitRecord(EVICTIONS, key, decided)
    timer = SetTimer(
        id=f"evict|{key}",
        target=target,
        owner="eviction",
        generation=1,
        deadline=NOW + timedelta(days=1, milliseconds=number),
        subject=pod.key,
        correlation_id=event_id("report", number),
    )
    yield UnitRecord(TIMERS, timer.id, timer)


def cluster(number: int) -> Records:
    """A Karmada cluster that reports that it is ready."""
    target, own = TargetRef(kind=TargetKind.CLUSTER, name=f"member-{number:06}"), uid("cluster", number)
    event = ResourceDeclared(
        object={
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": target.name, "uid": own, "labels": {"environment": f"e{number % 4}"}},
            "spec": {"provider": "cloud", "region": f"region-{number % 20}", "zones": [f"zone-{number % 3}"]},
            "status": {
                "kubernetesVersion": "v1.35.0",
                "apiEnablements": [
                    {"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}
                ],
                "resourceSummary": {"allocatable": {"cpu": "6400", "memory": "25600Gi", "pods": "11000"}},
            },
        },
        version=1,
    )
    yield UnitRecord(RESOURCES, event.key, event)
    yield _condition(target, own, "Ready")
    yield _heartbeat_timer(target, own)
    yield _tainted(target, own)


def managed_cluster(number: int) -> Records:
    """An OCM managed cluster that reports that it is available."""
    target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=_managed(number))
    amounts = {"cpu": str(8 + number % 57), "memory": f"{32 + number % 129}Gi"}
    labels = {"region": f"r{number % 20}", "environment": ("dev", "test", "stage", "prod")[number // 20 % 4]}
    declared = _declared(
        "v1",
        TargetKind.MANAGED_CLUSTER.value,
        {"name": target.name, "labels": labels},
        spec={"hubAcceptsClient": True},
        status={
            "allocatable": amounts,
            "capacity": amounts,
            "clusterClaims": [{"name": "platform.open-cluster-management.io", "value": "AWS"}],
        },
    )
    yield UnitRecord(RESOURCES, declared.key, declared)
    yield _condition(target, declared.uid, "ManagedClusterConditionAvailable")
    yield _heartbeat_timer(target, declared.uid)
    yield _tainted(target, declared.uid)


def _managed(number: int) -> str:
    return f"cluster-{number:06}"


def _declared(version: str, kind: str, metadata: dict[str, Any], **parts: Any) -> ResourceDeclared:
    """A resource of OCM."""
    head = {"apiVersion": f"cluster.open-cluster-management.io/{version}", "kind": kind}
    return ResourceDeclared(
        object={**head, "metadata": {"uid": f"uid-{metadata['name']}", **metadata}, **parts}, version=1
    )


def ocm_placement(number: int) -> Records:
    """An OCM placement on ten clusters, with its decision."""
    namespace = f"team-{number % 100}"
    selector = {"requiredClusterSelector": {"labelSelector": {"matchLabels": {"environment": "prod"}}}}
    spec = {"numberOfClusters": DECIDED_CLUSTERS, "predicates": [selector]}
    declared = _declared("v1beta1", "Placement", {"name": f"p-{number}", "namespace": namespace}, spec=spec)
    yield UnitRecord(RESOURCES, declared.key, declared)
    owner = WorkloadRef(kind="Placement", namespace=namespace, name=declared.name)
    clusters = tuple(_managed((number * 7 + at) % OCM_CLUSTERS) for at in range(DECIDED_CLUSTERS))
    page = WorkloadPlaced(
        workload=WorkloadRef(kind="PlacementDecision", namespace=namespace, name=f"{declared.name}-decision-1"),
        uid=declared.uid,
        owner=owner,
        owner_uid=declared.uid,
        generation=1,
        state=PlacementState.PLACED,
        clusters=clusters,
        added=clusters,
        reason="Scheduled",
        decided_time=NOW,
    )
    whole = WorkloadPlaced(
        workload=owner,
        uid=declared.uid,
        owner=owner,
        owner_uid=declared.uid,
        generation=1,
        state=PlacementState.PLACED,
        reason="Scheduled",
        message="AllDecisionsScheduled",
        decided_time=NOW,
    )
    for placed in (page, whole):
        yield UnitRecord(PLACEMENTS, placed.workload.key, placed)


def _ocm_context(_: int) -> Records:
    for number in range(100):
        metadata = {"name": "global", "namespace": f"team-{number}"}
        bound = _declared("v1beta2", "ManagedClusterSetBinding", metadata, spec={"clusterSet": "global"})
        yield UnitRecord(RESOURCES, bound.key, bound)
    yield from itertools.chain.from_iterable(map(managed_cluster, range(OCM_CLUSTERS)))


UNITS: Final = (
    Unit("node", "a node: its object, 5 conditions, the timer of its heartbeat, its taints, its zone", node),
    Unit("condition", "one more condition of a node", condition, lambda units: _nodes(units // len(KUBELET))),
    Unit(
        "workload",
        f"a pod of a Deployment with {REPLICAS} replicas: a tenth of the object, its decision, its binding, its health",
        workload,
        lambda units: _nodes(units // PODS_A_NODE),
    ),
    Unit("eviction", "a scheduled eviction, with its timer", eviction),
    Unit("cluster", "a Karmada cluster: its object, a condition, the timer of its heartbeat, its taints", cluster),
    Unit("managed cluster", "the same of an OCM managed cluster", managed_cluster),
    Unit(
        "OCM placement",
        f"an OCM placement on {DECIDED_CLUSTERS} clusters, with its decision",
        ocm_placement,
        _ocm_context,
    ),
)


_SERVICES: Final[tuple[Service[Any], ...]] = tuple(run.services(Settings()))
_WRITERS: Final = {topic.short: one for one in _SERVICES for topic in one.changelogs}


def headers(record: UnitRecord, number: int) -> list[tuple[str, bytes]]:
    """The headers that the topic's writer gives a record; state records carry offsets of all sources."""
    topic = record.topic
    if topic is RESOURCES:
        return to_headers(Meta(event_id(topic.short, record.key), "moorage/gateway", topic.event_type, NOW, record.key))
    meta = Meta(
        id=event_id(topic.short, record.key),
        source=f"moorage/{topic.writer}",
        type=topic.event_type,
        time=NOW,
        subject=record.key,
        correlation_id=event_id("report", record.key),
        causation_id=event_id("cause", record.key),
        traceparent=f"00-{event_id('trace', record.key)}-{event_id('span', record.key)[:16]}-01",
        configuration=1,
    )
    found = to_headers(meta)
    writer = _WRITERS.get(topic.short)
    if writer is not None:
        begin = {source.short: 1_000_000 + number // BATCH * BATCH for source in writer.sources}
        end = {short: offset + BATCH for short, offset in begin.items()}
        found += [(SOURCES_HEADER, sources_value(end)), (BEFORE_HEADER, before_value(begin, end))]
    return found


def batch(records: Iterable[UnitRecord], first: int) -> bytes:
    """The bytes of a transactional producer's batch with these records of one topic. They are not compressed."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 26,
    )
    stamp = round(NOW.timestamp() * 1000)
    for at, record in enumerate(records):
        value = record.event.__pydantic_serializer__.to_json(record.event)
        if (
            builder.append(
                at,
                timestamp=stamp,
                key=record.key.encode(),
                value=value,
                headers=headers(record, first + at),
            )
            is None
        ):
            raise ValueError("the batch is full")
    return bytes(builder.build())


def consumed(topic: Topic, payload: bytes) -> list[Any]:
    """The records of a batch as aiokafka's consumer returns them. The checksum of the batch is checked."""
    place = TopicPartition(topic.name(), 0)
    return list(PartitionRecords(place, MemoryRecords(payload), [], 0, None, None, True, 0))  # noqa: FBT003 - aiokafka's


Fold = Callable[[Topic, list[Any]], None]
"""Folds consumed records of a topic into a table."""


@dataclass(frozen=True, slots=True)
class Place:
    """A state of a process."""

    topics: tuple[Topic, ...]
    make: Callable[[], tuple[object, Fold, Callable[[], object]]]
    """Returns an empty state, the function that folds records into it, and one to call when all are folded in."""


def gateway() -> Place:
    """The tables of the leading gateway, and the objects that it shows."""

    def make() -> tuple[object, Fold, Callable[[], object]]:
        store = Store()
        derivation = Derivation(store)

        def fold(topic: Topic, records: list[Any]) -> None:
            decoded = (codec.decode(topic, record) for record in records)
            derivation.fold([one for one in decoded if isinstance(one, Input)])

        def finish() -> None:
            store.history.begin(sys.maxsize)  # what is kept of changes is bounded, and does not belong to the objects
            derivation.begin()
            while changes := derivation.take():
                for change in changes:
                    record = LoggedRecord(store.version, change.object_id.key, change.value)
                    store.apply([record])

        return (store, derivation), fold, finish

    return Place(READ, make)


def query() -> Place:
    """The tables of the query worker, placement's view included."""

    def make() -> tuple[object, Fold, Callable[[], object]]:
        tables = QueryTables(Settings())

        def fold(topic: Topic, records: list[Any]) -> None:
            for record in records:
                tables.fold(topic, record)

        return tables, fold, lambda: deque(tables.read(), maxlen=0)

    return Place(EXPLAINED, make)


def _chunks(records: Iterable[UnitRecord], topics: tuple[Topic, ...]) -> Iterator[tuple[Topic, bytes]]:
    """Batches of records with their topic. The records of each topic stay in their order."""
    waiting: dict[str, list[UnitRecord]] = {}
    written = dict.fromkeys((topic.short for topic in topics), 0)
    for record in records:
        short = record.topic.short
        if short in written:
            queue = waiting.setdefault(short, [])
            queue.append(record)
            if len(queue) == BATCH:
                yield record.topic, batch(queue, written[short])
                written[short] += len(queue)
                queue.clear()
    for queue in waiting.values():
        if queue:
            yield queue[0].topic, batch(queue, written[queue[0].topic.short])


def fill(fold: Fold, topics: tuple[Topic, ...], records: Iterable[UnitRecord]) -> None:
    """Fold records in."""
    for topic, payload in _chunks(records, topics):
        fold(topic, consumed(topic, payload))
