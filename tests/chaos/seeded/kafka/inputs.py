"""What the gateway, probes and deployers write, by doubles that are told in one line each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from tests.chaos.seeded.kafka.cluster import Cluster, short_name
from tests.chaos.seeded.kafka.consumer import SimConsumer
from tests.chaos.seeded.kafka.loop import Process
from tests.chaos.seeded.kafka.producer import SimProducer
from tests.support.declared import DeclaredObjects

from moorage.runtime.settings.moorage_configuration import spec_of
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.base import Model
from moorage_schemas.condition import EVICTED, FAILED, HEALTHY, REFUSED, ConditionReported, ConditionStatus
from moorage_schemas.configuration import ConfigurationChanged
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import leave_key
from moorage_schemas.leave_request import LeaveRequested, Requester, RequesterKind
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import resource_key, resource_partition_key
from moorage_schemas.resources.configuration import CONFIGURATION_NAME
from moorage_schemas.times import format_time
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONFIGURATION,
    EVICTION_REQUESTS,
    EVICTIONS,
    RESOURCES,
    Topic,
    partition_of,
)

Document = dict[str, Any]

OCM = "cluster.open-cluster-management.io"
APIS = {
    "Pod": "v1",
    "Node": "v1",
    "ConfigMap": "v1",
    "Job": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "Cluster": "cluster.karmada.io/v1alpha1",
    "ClusterTaintPolicy": "policy.karmada.io/v1alpha1",
    "PropagationPolicy": "policy.karmada.io/v1alpha1",
    "ClusterPropagationPolicy": "policy.karmada.io/v1alpha1",
    "ManagedCluster": f"{OCM}/v1",
    "ManagedClusterSet": f"{OCM}/v1beta2",
    "ManagedClusterSetBinding": f"{OCM}/v1beta2",
    "Placement": f"{OCM}/v1beta1",
    "AddOnPlacementScore": f"{OCM}/v1alpha1",
    "ManagedClusterAddOn": "addon.open-cluster-management.io/v1alpha1",
    "Lease": "coordination.k8s.io/v1",
    "DedicatedNodes": "moorage.io/v1alpha1",
    "EvictionBudget": "moorage.io/v1alpha1",
    "EvictionPause": "moorage.io/v1alpha1",
    "TaintPolicy": "moorage.io/v1alpha1",
}
CLUSTER_SCOPED = frozenset(
    {
        "Node",
        "Cluster",
        "ClusterTaintPolicy",
        "ClusterPropagationPolicy",
        "ManagedCluster",
        "ManagedClusterSet",
        "DedicatedNodes",
        "EvictionBudget",
        "EvictionPause",
        "TaintPolicy",
    }
)
TEMPLATE: Document = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}


@dataclass(frozen=True, slots=True)
class _Write:
    topic: Topic
    key: str
    partition_key: str
    event: Model | None
    done: asyncio.Future[int]


class Writer:
    """Writes records one transaction each, in order, as the gateway does, and reports by themselves.

    What is acknowledged is noted in the cluster, for the history. It takes the process's word for the time.
    """

    def __init__(self, cluster: Cluster, process: Process, settings: Settings, *, name: str = "gateway") -> None:
        self.process = process
        self.acknowledged = 0
        self._cluster = cluster
        self._settings = settings
        self._name = name
        self._queue: asyncio.Queue[_Write] = asyncio.Queue()
        self._count = 0
        self._busy = 0
        self._producer: SimProducer | None = None
        self._reports: SimProducer | None = None
        process.spawn(self._run(), name=f"{name}-writer")

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be written."""
        return not self._busy

    def write(self, topic: Topic, key: str, event: Model | None, *, partition_key: str = "") -> asyncio.Future[int]:
        """Ask for a record to be written; the future has its offset when it is acknowledged."""
        done: asyncio.Future[int] = self._cluster.loop.create_future()
        self._busy += 1
        self._queue.put_nowait(_Write(topic, key, partition_key or key, event, done))
        return done

    async def _run(self) -> None:
        while True:
            wanted = await self._queue.get()
            offset = await self._until_taken(wanted)
            name, partition = wanted.topic.name(self._settings.topic_prefix), self._partition(wanted)
            self._cluster.acknowledge(name, partition, offset)
            self.acknowledged += 1
            self._busy -= 1
            if not wanted.done.done():
                wanted.done.set_result(offset)

    async def _until_taken(self, wanted: _Write) -> int:
        while True:
            try:
                return await (self._report(wanted) if wanted.topic is CONDITION_REPORTS else self._commit(wanted))
            except (KafkaError, AssertionError):
                # It is not known whether it was written; a person looks, and does it again.
                for producer in (self._producer, self._reports):
                    if producer is not None:
                        producer.gone = True
                self._producer = self._reports = None
                await asyncio.sleep(0.5)

    def _partition(self, wanted: _Write) -> int:
        return partition_of(wanted.partition_key, self._settings.partitions)

    async def _commit(self, wanted: _Write) -> int:
        if self._producer is None:
            id_ = f"{self._settings.topic_prefix}.{self._name}"
            producer = SimProducer(self._cluster, self.process, transactional_id=id_, transaction_timeout_ms=12_000)
            await producer.start()
            self._producer = producer
        producer = self._producer
        await producer.begin_transaction()
        sent = await self._send(producer, wanted)
        found = await sent
        await producer.commit_transaction()
        return int(found.offset)

    async def _report(self, wanted: _Write) -> int:
        if self._reports is None:
            producer = SimProducer(self._cluster, self.process)
            await producer.start()
            self._reports = producer
        return int((await (await self._send(self._reports, wanted))).offset)

    async def _send(self, producer: SimProducer, wanted: _Write) -> asyncio.Future[Any]:
        self._count += 1
        meta = Meta(
            id=event_id(self._name, self._count),
            source=f"moorage/{self._name}" if wanted.topic is not CONDITION_REPORTS else "probe",
            type=wanted.topic.event_type,
            time=self.process.clock.now(),
            subject=wanted.key,
        )
        return await producer.send(
            wanted.topic.name(self._settings.topic_prefix),
            None if wanted.event is None else wanted.event.model_dump_json().encode(),
            wanted.key.encode(),
            self._partition(wanted),
            headers=to_headers(meta),
        )


class People:
    """What people and probes do, kept as the gateway would keep it: versions, uids, wishes."""

    def __init__(self, writer: Writer, settings: Settings) -> None:
        self._writer = writer
        self._clock = writer.process.clock
        self._settings = settings
        self._configurations = 0
        self._declared = DeclaredObjects()
        self._lives: dict[str, int] = {}
        self._began: dict[str, str] = {}
        self.objects = self._declared.objects
        """What is declared now, by record key."""

        self.leaves: dict[str, str] = {}
        """The targets of the requests to leave that are not withdrawn, by record key."""

    def declare(
        self,
        kind: str,
        name: str,
        spec: Document | None = None,
        *,
        namespace: str = "default",
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        **parts: Any,
    ) -> asyncio.Future[int]:
        """Declare an object, or change it."""
        key = self.key(kind, name, namespace)
        if key not in self.objects:
            self._lives[key] = self._lives.get(key, 0) + 1
            self._began[key] = format_time(self._clock.now().replace(microsecond=0))
            self._declared.wishes[key] = {}
        metadata: Document = {
            "name": name,
            "uid": self.uid(kind, name, namespace),
            "creationTimestamp": self._began[key],
            "labels": labels or {},
        }
        if kind not in CLUSTER_SCOPED:
            metadata["namespace"] = namespace
        if annotations:
            metadata["annotations"] = annotations
        api = APIS.get(kind, "apps/v1")
        self.objects[key] = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec or {}, **parts}
        return self._write(key)

    def delete(self, kind: str, name: str, *, namespace: str = "default") -> asyncio.Future[int]:
        """Delete an object."""
        key = self.key(kind, name, namespace)
        del self.objects[key]
        return self._writer.write(RESOURCES, key, None, partition_key=resource_partition_key(key))

    def key(self, kind: str, name: str, namespace: str = "default") -> str:
        """An object's record key."""
        return resource_key(kind, "" if kind in CLUSTER_SCOPED else namespace, name)

    def uid(self, kind: str, name: str, namespace: str = "default") -> str:
        """The uid that an object has now, or had last."""
        return f"uid-{name}-{self._lives.get(self.key(kind, name, namespace), 0)}"

    def node(self, name: str, *, zone: str = "", cpu: str = "") -> asyncio.Future[int]:
        """Declare a node."""
        labels = {"topology.kubernetes.io/zone": zone} if zone else {}
        status: Document = {"status": {"allocatable": {"cpu": cpu}}} if cpu else {}
        return self.declare("Node", name, labels=labels, **status)

    def pod(self, name: str, tolerations: Sequence[Document] = (), **spec: Any) -> asyncio.Future[int]:
        """Declare a pod."""
        body = {"containers": [{"name": "c"}], **spec}
        if tolerations:
            body["tolerations"] = list(tolerations)
        return self.declare("Pod", name, body)

    def deploy(self, name: str, replicas: int = 1) -> asyncio.Future[int]:
        """Declare a deployment."""
        return self.declare("Deployment", name, {"replicas": replicas, "template": TEMPLATE})

    def taint(
        self, kind: str, name: str, key: str, effect: str = "NoExecute", value: str = "", *, present: bool = True
    ) -> asyncio.Future[int]:
        """Wish a taint on a target, or away from it."""
        where = self.key(kind, name)
        now = self._clock.now()
        self._declared.edit_taint(where, key, effect, value, present=present, time=now, actor="person")
        return self._write(where)

    def untaint(self, kind: str, name: str, key: str, effect: str = "NoExecute") -> asyncio.Future[int]:
        """Wish a taint away."""
        return self.taint(kind, name, key, effect, present=False)

    def report(
        self,
        kind: str,
        name: str,
        condition: str = "Ready",
        status: str = "False",
        *,
        workload: WorkloadRef | None = None,
        binding: tuple[str, int] = ("", 0),
        reason: str = "Test",
        source: str = "",
        ago: timedelta = timedelta(0),
    ) -> asyncio.Future[int]:
        """Report a condition of a target, as a probe does, observed some time ago.

        A deployer reports one of a workload, and names the binding by its uid and generation.
        """
        target = TargetRef(kind=TargetKind(kind), name=name)
        event = ConditionReported(
            target=target,
            type=condition,
            status=ConditionStatus(status),
            reason=reason,
            observed_time=self._clock.now() - ago,
            source=source,
            workload=workload,
            workload_uid=binding[0],
            binding_generation=binding[1],
        )
        return self._writer.write(CONDITION_REPORTS, target.key, event)

    def configure(self, **changes: Any) -> asyncio.Future[int]:
        """Change some settings of the fleet's configuration, by the names that they have in `Settings`.

        The first change makes the configuration, from the settings that the services were started with.
        """
        self._settings = self._settings.model_copy(update=changes)
        self._configurations += 1
        event = ConfigurationChanged(
            uid="uid-configuration", generation=self._configurations, spec=spec_of(self._settings)
        )
        return self._writer.write(CONFIGURATION, CONFIGURATION_NAME, event)

    def request_leave(self, name: str, bound: WorkloadBound, seconds: float | None) -> asyncio.Future[int]:
        """Request that a workload leaves a target, at once or after some seconds."""
        now = self._clock.now()
        requester = Requester(kind=RequesterKind.EVICTION_REQUEST, name=name)
        event = LeaveRequested(
            workload=bound.workload,
            workload_uid=bound.uid,
            target=bound.target,
            generation=bound.generation,
            requester=requester,
            deadline=None if seconds is None else now + timedelta(seconds=seconds),
            requested_time=now,
        )
        key = leave_key(bound.workload, bound.target, requester.key)
        self.leaves[key] = bound.target.key
        return self._writer.write(EVICTION_REQUESTS, key, event, partition_key=bound.target.key)

    def withdraw_leave(self, key: str) -> asyncio.Future[int]:
        """Withdraw a request to leave, by its record key."""
        return self._writer.write(EVICTION_REQUESTS, key, None, partition_key=self.leaves.pop(key))

    def _write(self, key: str) -> asyncio.Future[int]:
        return self._writer.write(RESOURCES, key, self._declared.next(key), partition_key=resource_partition_key(key))


class Deployer:
    """Runs what is bound to Karmada clusters: it says that it is healthy some time after it was bound.

    Pods need none of it: placement ends the binding of one that has to go.
    """

    def __init__(
        self, cluster: Cluster, process: Process, settings: Settings, people: People, *, after: float = 1.0
    ) -> None:
        self._cluster = cluster
        self._process = process
        self._settings = settings
        self._people = people
        self._after = after
        process.spawn(self._run(), name="deployer")

    async def _run(self) -> None:
        consumer = SimConsumer(
            self._cluster, self._process, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        topic = BINDINGS.name(self._settings.topic_prefix)
        consumer.assign([TopicPartition(topic, partition) for partition in range(self._settings.partitions)])
        seen: dict[bytes | None, int] = {}
        while True:
            for records in (await consumer.getmany(timeout_ms=60_000)).values():
                for record in records:
                    if record.value is None or not (record.key or b"").startswith(b"ResourceBinding/"):
                        continue
                    bound = WorkloadBound.model_validate_json(record.value)
                    if seen.get(record.key) != bound.generation:
                        seen[record.key] = bound.generation
                        self._cluster.loop.call_later(self._after, self._say, bound)

    def _say(self, bound: WorkloadBound) -> None:
        self._people.report(bound.target.kind, bound.target.name, HEALTHY, "True", workload=bound.workload)


class AcknowledgingDeployer:
    """Runs everything that is bound, and acknowledges evictions: at once or late, twice, after a failure, or never.

    Now and then it also reports about a binding that is not there. Everything that it will not refuse is gone in the
    end.

    Args:
        seed: decides what becomes of each eviction.
    """

    SOURCE = "deployer/double"

    def __init__(
        self, cluster: Cluster, process: Process, settings: Settings, people: People, *, seed: str, after: float = 1.0
    ) -> None:
        self._cluster = cluster
        self._process = process
        self._settings = settings
        self._people = people
        self._seed = seed
        self._after = after
        process.spawn(self._run(), name="deployer")

    async def _run(self) -> None:
        consumer = SimConsumer(
            self._cluster, self._process, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        names = {topic.name(self._settings.topic_prefix): topic for topic in (BINDINGS, EVICTIONS)}
        consumer.assign([TopicPartition(name, number) for name in names for number in range(self._settings.partitions)])
        seen: set[tuple[str, str, int]] = set()
        while True:
            for place, records in (await consumer.getmany(timeout_ms=60_000)).items():
                for record in records:
                    if record.value is None:
                        continue
                    if names[place.topic] is BINDINGS:
                        bound = WorkloadBound.model_validate_json(record.value)
                        if (life := (f"{bound.workload}|{bound.target}", bound.uid, bound.generation)) not in seen:
                            seen.add(life)
                            self._cluster.loop.call_later(self._after, self._runs, bound)
                        continue
                    event = EvictionDecided.model_validate_json(record.value)
                    life = (f"evict {event.workload}|{event.target}", event.workload_uid, event.generation)
                    waits = event.state is EvictionState.REQUESTED and event.deployer and event.acknowledged is None
                    if waits and life not in seen:
                        seen.add(life)
                        self._end(event)

    def _runs(self, bound: WorkloadBound) -> None:
        target, binding = bound.target, (bound.uid, bound.generation)
        self._people.report(
            target.kind, target.name, HEALTHY, "True", workload=bound.workload, binding=binding, source=self.SOURCE
        )

    def _end(self, event: EvictionDecided) -> None:
        """Draw what becomes of an eviction, and report it."""
        rng = Random(f"{self._seed}/{event.workload}|{event.target}|{event.generation}")  # noqa: S311 - as above
        soon = rng.choice([0.0, 0.3, 2.0])
        outcomes = {
            "done": [(soon, "True")],
            "late": [(8.0, "True")],
            "doubled": [(soon, "True"), (soon, "True"), (soon + 3.0, "True")],
            "failed": [(soon, "False"), (soon + 0.2, "False"), (soon + 4.0, "True")],
            "refused": [(soon, "False")],
            "astray": [(soon, "another"), (soon + 4.0, "True")],
            "earlier": [(soon, "earlier"), (soon + 4.0, "True"), (soon + 5.0, "earlier")],
        }
        (what,) = rng.choices(list(outcomes), [6, 2, 2, 3, 1, 2, 2])
        for delay, status in outcomes[what]:
            reason = {"refused": REFUSED, "failed": FAILED}.get(what, "Stopped")
            self._cluster.loop.call_later(delay, self._told, event, status, reason)

    def _told(self, event: EvictionDecided, status: str, reason: str) -> None:
        binding = (event.workload_uid, event.generation)
        if status == "another":
            binding, status = ("uid-of-another", event.generation), "True"
        elif status == "earlier":
            if event.generation == 1:
                return
            binding, status = (event.workload_uid, event.generation - 1), "True"
        self._people.report(
            event.target.kind,
            event.target.name,
            EVICTED,
            status,
            workload=event.workload,
            binding=binding,
            reason=reason,
            source=self.SOURCE,
        )


def tolerate(key: str, seconds: float | None = None, *, effect: str = "NoExecute") -> Document:
    """A toleration of one key, for ever or for some seconds."""
    found: Document = {"key": key, "operator": "Exists", "effect": effect}
    if seconds is not None:
        found["tolerationSeconds"] = int(seconds)
    return found


__all__ = ["AcknowledgingDeployer", "Deployer", "People", "Writer", "short_name", "tolerate"]
