"""Records of people, probes, agents and deployers for services on a virtual clock, with one line for each."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

from tests.support.declared import DeclaredObjects
from tests.support.worlds.flow import START, Flow, Record

from moorage.apiserver.kinds.kind import named
from moorage.runtime.service import Service
from moorage.runtime.settings.moorage_configuration import spec_of
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, placement, taint_manager, timer
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.configuration import ConfigurationChanged
from moorage_schemas.keys import binding_key, leave_key
from moorage_schemas.leave_request import LeaveRequested, Requester, RequesterKind
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import PodMetadata, PodOrder, resource_key, resource_partition_key
from moorage_schemas.resources.configuration import CONFIGURATION_NAME
from moorage_schemas.taint import Toleration
from moorage_schemas.times import format_time
from moorage_schemas.topics import (
    BINDINGS,
    CONDITION_REPORTS,
    CONFIGURATION,
    EVICTION_REQUESTS,
    FLEET,
    RESOURCES,
)

PARTITIONS = 3
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
"""The template of pods that request nothing."""

WITNESS = "witness"
"""A node that tests declare and do not change. If all nodes were down, no taint that evicts would be added."""


def lifted(**changes: Any) -> Settings:
    """Settings with which a node that is not ready gets the evicting taint at once, and sources never fall silent."""
    return Settings(
        **{
            "node_monitor_grace_period": 0,
            "node_eviction_rate": math.inf,
            "secondary_node_eviction_rate": math.inf,
            "large_cluster_size_threshold": 0,
            "node_monitor_period": 0,
            **changes,
        }
    )


def every_service(settings: Settings) -> list[Service[Any]]:
    """The services that decide."""
    modules = (condition_ingest, taint_manager, governor, eviction, timer, placement)
    return [module.service(settings) for module in modules]


def flow_of(
    services: Sequence[Service[Any]],
    *,
    partitions: int = PARTITIONS,
    seed: int | None = None,
    start: datetime = START,
) -> Flow:
    """Services on topics in memory. A seed determines the order in which they run."""
    rng = None if seed is None else random.Random(seed)  # noqa: S311 - the random choices must be repeatable
    return Flow(services, partitions=partitions, rng=rng, start=start)


def node(name: str) -> TargetRef:
    """The reference to a node."""
    return TargetRef(kind=TargetKind.NODE, name=name)


def pod(name: str) -> WorkloadRef:
    """The reference to a pod."""
    return WorkloadRef(kind="Pod", namespace="default", name=name)


def tolerate(key: str, seconds: int | None = None, *, value: str = "", effect: str = "NoExecute") -> Toleration:
    """A toleration of one key, forever or for some seconds."""
    return Toleration(
        key=key,
        operator="Equal" if value else "Exists",
        value=value,
        effect=effect,
        toleration_seconds=seconds,
    )


class World:
    """A flow, and the records that are written to it from outside.

    Objects are written as by the gateway: with a uid and a creation time for each life, a version that increases with
    each change, and the taint edits beside the object. A subclass is about one kind of target, and adds what that kind
    needs.
    """

    kind: ClassVar[TargetKind] = TargetKind.NODE
    """The kind of target that a plain name refers to."""

    effect: ClassVar[str] = "NoExecute"
    """The default effect of a taint."""

    def __init__(self, flow: Flow, cluster: str = "") -> None:
        self.flow = flow
        self.within = cluster
        """The cluster that everything is in; empty for the home fleet."""

        self._declared = DeclaredObjects()
        self.objects = self._declared.objects
        """The declared objects, by record key."""

        self._lives: dict[str, int] = {}
        self._began: dict[str, datetime] = {}
        self._bindings: dict[str, int] = {}
        self._configurations = 0

    # Requests to leave.

    def request_leave(
        self,
        bound: WorkloadBound,
        name: str = "drain",
        *,
        deadline: datetime | None = None,
        kind: RequesterKind = RequesterKind.EVICTION_REQUEST,
        uid: str | None = None,
        generation: int | None = None,
        message: str = "",
    ) -> Record:
        """Request that a workload leaves a target, by default as it is bound there."""
        requester = Requester(kind=kind, name=name)
        event = LeaveRequested(
            workload=bound.workload,
            workload_uid=bound.uid if uid is None else uid,
            target=bound.target,
            generation=bound.generation if generation is None else generation,
            requester=requester,
            message=message,
            deadline=deadline,
            requested_time=self.flow.now,
        )
        key = leave_key(bound.workload, bound.target, requester.key)
        return self.flow.produce(EVICTION_REQUESTS, key, event, partition_key=bound.target.key)

    def withdraw_leave(
        self, bound: WorkloadBound, name: str = "drain", *, kind: RequesterKind = RequesterKind.EVICTION_REQUEST
    ) -> Record:
        """Withdraw a request to leave."""
        key = leave_key(bound.workload, bound.target, f"{kind.value}/{name}")
        return self.flow.produce(EVICTION_REQUESTS, key, None, partition_key=bound.target.key)

    # Objects.

    def configure(self, settings: Settings) -> Record:
        """Write a configuration that decides as these settings do, like the gateway."""
        self._configurations += 1
        event = ConfigurationChanged(uid="uid-cluster", generation=self._configurations, spec=spec_of(settings))
        return self.flow.produce(CONFIGURATION, CONFIGURATION_NAME, event, partition_key=FLEET)

    def declare(
        self,
        kind: str,
        name: str,
        spec: Mapping[str, Any] | None = None,
        *,
        namespace: str = "default",
        uid: str = "",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **parts: Any,
    ) -> Record:
        """Declare or change an object.

        Args:
            kind: a kind that Moorage serves.
            name: its name.
            spec: its `spec`.
            namespace: ignored for cluster-scoped kinds.
            uid: replaces the uid of its present life.
            labels: its labels.
            annotations: its annotations.
            parts: fields in addition to `spec`, such as `status`.
        """
        key = self._key(kind, name, namespace)
        if key not in self.objects:
            self._lives[key] = self._lives.get(key, 0) + 1
            self._began[key] = self.flow.now
        served = named(kind)
        assert served is not None, kind
        metadata: dict[str, Any] = {"name": name, "uid": uid or self._uid(key)}
        metadata |= {"namespace": namespace} if served.namespaced else {}
        metadata["creationTimestamp"] = format_time(self._began[key].replace(microsecond=0))
        metadata |= {"labels": dict(labels or {}), "annotations": dict(annotations or {})}
        self.objects[key] = {
            "apiVersion": served.api_versions[0],
            "kind": kind,
            "metadata": metadata,
            "spec": dict(spec or {}),
            **parts,
        }
        return self.write(key)

    def mark(self, kind: str, name: str, *finalizers: str, namespace: str = "default") -> Record:
        """Delete an object that finalizers hold: it is marked, and stays."""
        key = self._key(kind, name, namespace)
        mark = {"deletionTimestamp": format_time(self.flow.now), "finalizers": list(finalizers)}
        self.objects[key] = {**self.objects[key], "metadata": {**self.objects[key]["metadata"], **mark}}
        return self.write(key)

    def own(self, kind: str, name: str, *owners: Mapping[str, Any], namespace: str = "default") -> Record:
        """Write that an object belongs to others."""
        key = self._key(kind, name, namespace)
        metadata = {**self.objects[key]["metadata"], "ownerReferences": list(owners)}
        self.objects[key] = {**self.objects[key], "metadata": metadata}
        return self.write(key)

    def delete(self, kind: str, name: str, *, namespace: str = "default") -> Record:
        """Delete an object if it exists. A later object with the same name is a different one."""
        key = self._key(kind, name, namespace)
        self.objects.pop(key, None)
        self._declared.versions.pop(key, None)
        self._declared.wishes.pop(key, None)
        return self.flow.produce(RESOURCES, key, None, partition_key=resource_partition_key(key))

    def write(self, key: str) -> Record:
        """Write a declared object again, with its taint edits."""
        return self._write_with(key)

    def order(self, key: str, *orders: PodOrder) -> Record:
        """Write a declared controller again, with orders about its pods."""
        return self._write_with(key, pods=orders)

    def change_pods(self, key: str, *metadata: PodMetadata) -> Record:
        """Write a declared controller again, with changed metadata of its pods."""
        return self._write_with(key, pod_metadata=metadata)

    def _write_with(self, key: str, **fields: Any) -> Record:
        event = self._declared.next(key).model_copy(update={"cluster": self.within, **fields})
        return self.flow.produce(RESOURCES, key, event, partition_key=resource_partition_key(key))

    # Targets. Each is given by its name, or by `Kind/name` if it is not of the world's own kind.

    def ref(self, name: str) -> TargetRef:
        """The reference to a target."""
        found = TargetRef.parse(name) if "/" in name else TargetRef(kind=self.kind, name=name)
        return found if found.cluster else TargetRef(kind=found.kind, name=found.name, cluster=self.within)

    def uid(self, name: str) -> str:
        """The present or the last uid of a target."""
        return self._uid(self._target_key(name))

    def target(self, name: str, *, uid: str = "", **spec: Any) -> Record:
        """Declare a target or change its spec."""
        ref = self.ref(name)
        return self.declare(ref.kind, ref.name, spec, uid=uid)

    def delete_target(self, name: str) -> Record:
        """Delete a target."""
        ref = self.ref(name)
        return self.delete(ref.kind, ref.name)

    def node(
        self,
        name: str,
        *,
        zone: str = "",
        labels: Mapping[str, str] | None = None,
        allocatable: Mapping[str, str] | None = None,
        **spec: Any,
    ) -> Record:
        """Declare a node, or change its zone, labels, resources and spec."""
        given = dict(labels or {}) | ({"topology.kubernetes.io/zone": zone} if zone else {})
        status: dict[str, Any] = {"status": {"allocatable": dict(allocatable)}} if allocatable is not None else {}
        return self.declare("Node", name, spec, labels=given, **status)

    def taint(
        self, name: str, key: str = "bad", effect: str = "", value: str = "", *, time: datetime | None = None
    ) -> Record:
        """Put a taint on a target, like a person."""
        return self._edit(name, key, effect, value, present=True, time=time)

    def untaint(self, name: str, key: str = "bad", effect: str = "") -> Record:
        """Remove a taint from a target, like a person."""
        return self._edit(name, key, effect, "", present=False, time=None)

    def report(
        self,
        name: str,
        condition: str = "Ready",
        status: str = "False",
        *,
        source: str = "probe",
        at: datetime | None = None,
        id: str = "",  # noqa: A002 - the CloudEvents attribute's own name
        partition_key: str | None = None,
        workload: WorkloadRef | None = None,
        binding: WorkloadBound | None = None,
        reason: str = "Test",
        message: str = "",
    ) -> Record:
        """Report a condition of a target, or of a workload there.

        Args:
            name: the target.
            condition: its type.
            status: True, False or Unknown.
            source: the name of the probe, agent or deployer.
            at: when it was observed. None means now.
            id: the id of the event. If empty, it is generated.
            partition_key: replaces the target's.
            workload: the subject of the condition, if it is not the target.
            binding: the binding that a deployer names, whose workload is the subject.
            reason: the reason that it gives.
            message: the message that it gives.
        """
        target = self.ref(name)
        event = ConditionReported(
            target=target,
            type=condition,
            status=ConditionStatus(status),
            reason=reason,
            message=message,
            observed_time=at or self.flow.now,
            workload=workload if binding is None else binding.workload,
            workload_uid=binding.uid if binding is not None else "",
            binding_generation=binding.generation if binding is not None else 0,
        )
        return self.flow.produce(
            CONDITION_REPORTS, target.key, event, id=id, source=source, partition_key=partition_key or target.key
        )

    # Bindings, if placement is not running.

    def bind(self, workload: str, name: str, tolerations: Sequence[Toleration] = (), *, revision: int = 1) -> Record:
        """Bind a pod to a target, like placement. A revision above one changes the present binding."""
        key = binding_key(pod(workload), self.ref(name))
        if revision == 1:
            self._bindings[key] = self._bindings.get(key, 0) + 1
        event = WorkloadBound(
            workload=pod(workload),
            uid=f"uid-{workload}",
            owner=pod(workload),
            target=self.ref(name),
            generation=self._bindings[key],
            revision=revision,
            tolerations=tuple(tolerations),
            bound_time=self.flow.now,
        )
        return self.flow.produce(BINDINGS, key, event, partition_key=self.ref(name).key)

    def unbind(self, workload: str, name: str) -> Record:
        """End a binding."""
        key = binding_key(pod(workload), self.ref(name))
        return self.flow.produce(BINDINGS, key, None, partition_key=self.ref(name).key)

    # Time.

    def run(self) -> Self:
        """Run the services until they are at rest, and check the records."""
        self.flow.run()
        self.check()
        return self

    def advance(self, seconds: float) -> Self:
        """Let time pass, and check the records."""
        self.flow.advance(seconds)
        self.check()
        return self

    def check(self) -> None:
        """Check the invariants of the topics. Subclasses define them."""

    def _edit(self, name: str, key: str, effect: str, value: str, *, present: bool, time: datetime | None) -> Record:
        where, effect = self._target_key(name), effect or self.effect
        time = time or self.flow.now
        self._declared.edit_taint(where, key, effect, value, present=present, time=time, actor="tester")
        return self.write(where)

    def _key(self, kind: str, name: str, namespace: str) -> str:
        served = named(kind)
        assert served is not None, kind
        return resource_key(kind, namespace if served.namespaced else "", name, self.within)

    def _target_key(self, name: str) -> str:
        ref = self.ref(name)
        return resource_key(ref.kind, "", ref.name, ref.cluster)

    def _uid(self, key: str) -> str:
        return f"uid-{key.rpartition('/')[2]}-{self._lives[key]}"
