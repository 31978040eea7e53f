"""Every object that looks different after a record is built again, and the last records alone show the same.

Random records of a small fleet are applied one by one. After each of them, all objects are built, and those that have
changed are compared with those that the tables say have changed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.component.gateway.double import NOW, deployment, node, node_ref, pod

from moorage.apiserver.kinds.kind import discovered
from moorage.apiserver.kinds.status.index import ViewIndex
from moorage.apiserver.kinds.status.records import ObjectId, ObjectMap
from moorage.apiserver.storage.store import ObjectBuilder
from moorage.apiserver.storage.tables import READ, Tables
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted
from moorage_schemas.condition import ConditionChanged, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, condition_key, eviction_key, leave_key, workload_condition_key
from moorage_schemas.leave_request import LeaveRequested, Requester, RequesterKind
from moorage_schemas.maintenance import MaintenanceProgressed
from moorage_schemas.placement import PlacedTarget, PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import SET_LABEL
from moorage_schemas.taint import HeldTaint, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.timer import SetTimer
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    CONDITIONS,
    EVICTION_REQUESTS,
    EVICTIONS,
    MAINTENANCES,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    TIMERS,
    WEBHOOK_STATUSES,
    WORKLOAD_CONDITIONS,
    ZONES,
    Topic,
)
from moorage_schemas.webhook_status import WebhookStatusChanged
from moorage_schemas.zone import ZoneChanged, ZoneState

Record = tuple[Topic, str, Model | None]

NODES = ("n1", "n2", "n3")
CLUSTERS = ("c1", "c2", "c3")
SETS = ("s1", "s2")
GUARDS = ("EvictionPause//g1", "EvictionPause//g2", "EvictionBudget//g1", "PodDisruptionBudget/default/g1")
REQUESTS = ("er1", "er2")
MAINTAINED = ("m1", "m2")
POLICIES = ("PropagationPolicy/default/pp1", "ClusterPropagationPolicy//pp1")


class Fleet:
    """Makes random records of a small fleet."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - records of a test
        self._count = 0

    def records(self, count: int) -> Iterator[Record]:
        """Records of all topics in any order, a fifth of them tombstones."""
        makers = {
            RESOURCES: self._resource,
            TAINTS: self._taints,
            CONDITIONS: self._condition,
            PLACEMENTS: self._placement,
            BINDINGS: self._binding,
            EVICTIONS: self._eviction,
            EVICTION_REQUESTS: self._leave,
            WORKLOAD_CONDITIONS: self._report,
            BUDGETS: self._budget,
            MAINTENANCES: self._maintenance,
            WEBHOOK_STATUSES: self._webhook,
            TIMERS: self._timer,
            ZONES: self._zone,
        }
        assert set(makers) == set(READ)
        weights = (8, 2, 3, 4, 2, 2, 1, 3, 1, 1, 1, 1, 1)
        for topic in self._random.choices(tuple(makers), weights, k=count):
            self._count += 1
            key, event = makers[topic]()
            yield topic, key, None if self._random.random() < 0.2 else event

    def _resource(self) -> tuple[str, Model]:
        makers = (
            *(self._node, self._node, self._machine_set, self._pod, self._deployment, self._config_map, self._policy),
            *(self._guard, self._managed_cluster, self._managed_cluster, self._set, self._bound_set, self._add_on),
            *(self._eviction_request, self._maintained),
        )
        document = self._random.choice(makers)()
        metadata = document["metadata"]
        key = f"{document['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
        document = {**document, "metadata": {**metadata, "uid": f"{key}#{self._random.randint(1, 2)}"}}
        return key, ResourceDeclared(object=document, version=self._count)

    def _node(self) -> dict[str, Any]:
        found = node(self._random.choice(NODES))
        uid = f"MachineSet/default/ms#{self._random.randint(1, 2)}"
        owner = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "name": "ms", "uid": uid}
        owners = [{**owner, "controller": True}] if self._random.random() < 0.7 else []
        return {**found, "metadata": {**found["metadata"], "ownerReferences": owners}}

    def _machine_set(self) -> dict[str, Any]:
        return _object("machine.openshift.io/v1beta1", "MachineSet", "ms", "default", spec={"replicas": 2})

    def _pod(self) -> dict[str, Any]:
        found = pod(self._random.choice(("p1", "web-0")))
        return {**found, "metadata": {**found["metadata"], "namespace": "default"}}

    def _deployment(self) -> dict[str, Any]:
        found = deployment("web", self._random.randint(1, 2))
        return {**found, "metadata": {**found["metadata"], "namespace": "default"}}

    def _eviction_request(self) -> dict[str, Any]:
        name = self._random.choice(("p1", "web-0"))
        uid = self._random.choice(("u", f"Pod/default/{name}#1"))
        intent = self._random.choice(("Eviction", "Withdrawn"))
        target = {"pod": {"name": name, "uid": uid}}
        spec = {"target": target, "requester": "acme.io/drain", "intent": intent}
        name = self._random.choice(REQUESTS)
        found = _object("lifecycle.k8s.io/v1alpha1", "EvictionRequest", name, "default", spec=spec)
        return {**found, "metadata": {**found["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}}

    def _config_map(self) -> dict[str, Any]:
        return _object("v1", "ConfigMap", "settings", "default")

    def _policy(self) -> dict[str, Any]:
        kind, namespace, name, _ = ObjectId.of(self._random.choice(POLICIES))
        spec = {"placement": {"replicaScheduling": {"replicaSchedulingType": self._random.choice(("a", "b"))}}}
        return _object("policy.karmada.io/v1alpha1", kind, name, namespace, spec=spec)

    def _guard(self) -> dict[str, Any]:
        kind, namespace, name, _ = ObjectId.of(self._random.choice(GUARDS))
        if kind == "PodDisruptionBudget":
            return _object("policy/v1", kind, name, namespace, spec={"maxUnavailable": 1, "selector": {}})
        return _object("moorage.io/v1alpha1", kind, name, spec={})

    def _maintained(self) -> dict[str, Any]:
        spec = {"targets": {"kind": "Node"}, "start": "2026-01-01T00:00:00Z", "duration": "1h"}
        return _object("moorage.io/v1alpha1", "Maintenance", self._random.choice(MAINTAINED), spec=spec)

    def _managed_cluster(self) -> dict[str, Any]:
        labels = {SET_LABEL: self._random.choice(SETS), "tier": self._random.choice("xy")}
        found = _object(
            "cluster.open-cluster-management.io/v1", "ManagedCluster", self._random.choice(CLUSTERS), spec={}
        )
        return {**found, "metadata": {**found["metadata"], "labels": labels}}

    def _set(self) -> dict[str, Any]:
        by_label = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"tier": "x"}}}
        spec = {"clusterSelector": by_label} if self._random.random() < 0.5 else {}
        name = self._random.choice(SETS)
        return _object("cluster.open-cluster-management.io/v1beta2", "ManagedClusterSet", name, spec=spec)

    def _bound_set(self) -> dict[str, Any]:
        name = self._random.choice(SETS)
        head = ("cluster.open-cluster-management.io/v1beta2", "ManagedClusterSetBinding", name, "default")
        return _object(*head, spec={"clusterSet": name})

    def _add_on(self) -> dict[str, Any]:
        head = ("addon.open-cluster-management.io/v1alpha1", "ManagedClusterAddOn", "scan")
        return _object(*head, self._random.choice(CLUSTERS), spec={})

    def _target(self) -> TargetRef:
        if self._random.random() < 0.5:
            return node_ref(self._random.choice(NODES))
        return TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=self._random.choice(CLUSTERS))

    def _uid(self, key: str) -> str:
        return f"{key}#{self._random.randint(1, 2)}"

    def _taints(self) -> tuple[str, Model]:
        target = self._target()
        kept = self._random.sample(("a", "b/c"), self._random.randint(0, 2))
        held = self._random.sample(("d",), self._random.randint(0, 1))
        managed = target.kind is TargetKind.MANAGED_CLUSTER
        label = "feature.open-cluster-management.io/addon-scan"
        return target.key, TargetTainted(
            target=target,
            target_uid=self._uid(f"{target.kind.value}//{target.name}"),
            generation=self._count,
            taints=tuple(
                TaintRecord(key=key, effect="NoSchedule", time_added=NOW, origins=(TaintOrigin.EXPLICIT,))
                for key in kept
            ),
            held=tuple(HeldTaint(key=key, effect="NoExecute", since=NOW) for key in held),
            labels={label: self._random.choice(("available", "unreachable"))} if managed else {},
        )

    def _condition(self) -> tuple[str, Model]:
        target, condition = self._target(), self._random.choice(("Ready", "Full"))
        return condition_key(target, condition), ConditionChanged(
            target=target,
            target_uid=self._uid(f"{target.kind.value}//{target.name}"),
            type=condition,
            status=self._random.choice(list(ConditionStatus)),
            last_transition_time=NOW,
            last_heartbeat_time=NOW,
            generation=self._count,
        )

    def _workload(self) -> tuple[WorkloadRef, WorkloadRef]:
        """A workload and its owner."""
        bare, made = (WorkloadRef(kind="Pod", namespace="default", name=name) for name in ("p1", "web-0"))
        bound = WorkloadRef(kind="ResourceBinding", namespace="default", name="settings-configmap")
        spread = WorkloadRef(kind="ResourceBinding", namespace="default", name="web-deployment")
        settings = WorkloadRef(kind="ConfigMap", namespace="default", name="settings")
        web = WorkloadRef(kind="Deployment", namespace="default", name="web")
        return self._random.choice(((bare, bare), (made, web), (bound, settings), (spread, web)))

    def _placement(self) -> tuple[str, Model]:
        workload, owner = self._workload()
        state, target = self._random.choice(list(PlacementState)), node_ref(self._random.choice(NODES))
        spread = workload.kind == "ResourceBinding"
        uid = self._uid(owner.key)
        return workload.key, WorkloadPlaced(
            workload=workload,
            uid=uid,
            owner=owner,
            owner_uid=uid,
            generation=self._count,
            state=state,
            target=target if state is PlacementState.PLACED and not spread else None,
            targets=(PlacedTarget(target=target, replicas=1, binding_generation=1),) if spread else (),
            policy=self._random.choice(POLICIES) if spread else "",
            decided_time=NOW,
        )

    def _binding(self) -> tuple[str, Model]:
        (workload, owner), target = self._workload(), node_ref(self._random.choice(NODES))
        return binding_key(workload, target), WorkloadBound(
            workload=workload, uid="u", owner=owner, target=target, generation=self._count, bound_time=NOW
        )

    def _eviction(self) -> tuple[str, Model]:
        (workload, owner), target = self._workload(), node_ref(self._random.choice(NODES))
        guards = [ObjectId.of(key) for key in GUARDS]
        keys = [f"{kind}/{namespace}/{name}" if namespace else f"{kind}/{name}" for kind, namespace, name, _ in guards]
        return eviction_key(workload, target, 1), EvictionDecided(
            workload=workload,
            owner=owner,
            target=target,
            generation=1,
            revision=self._count,
            workload_uid="u",
            deployer="deployer/mine" if self._count % 2 else "",
            state=self._random.choice(list(EvictionState)),
            held_by=tuple(self._random.sample(keys, self._random.randint(0, 2))),
            requesters=(_requester(self._random.choice(REQUESTS)),) if self._random.random() < 0.5 else (),
            decided_time=NOW,
        )

    def _leave(self) -> tuple[str, Model]:
        (workload, _), target = self._workload(), node_ref(self._random.choice(NODES))
        requester = _requester(self._random.choice(REQUESTS))
        return leave_key(workload, target, requester.key), LeaveRequested(
            workload=workload,
            workload_uid="u",
            target=target,
            generation=self._random.randint(1, 2),
            requester=requester,
            requested_time=NOW,
        )

    def _report(self) -> tuple[str, Model]:
        (workload, _), target = self._workload(), node_ref(self._random.choice(NODES))
        condition = self._random.choice(("Healthy", "Ready"))
        return workload_condition_key(workload, target, condition), WorkloadConditionChanged(
            workload=workload,
            target=target,
            type=condition,
            status=self._random.choice(list(ConditionStatus)),
            last_transition_time=NOW,
            last_heartbeat_time=NOW,
            generation=self._count,
        )

    def _budget(self) -> tuple[str, Model]:
        budget = self._random.choice((*GUARDS[2:], "resource-eviction-rate"))
        allowed = self._random.randint(0, 3)
        return budget, BudgetCounted(budget=budget, generation=self._count, allowed=allowed, counted_time=NOW)

    def _maintenance(self) -> tuple[str, Model]:
        name = self._random.choice(MAINTAINED)
        phase = self._random.choice(("Scheduled", "Running"))
        return name, MaintenanceProgressed(name=name, uid="u", generation=self._count, kind="Node", phase=phase)

    def _webhook(self) -> tuple[str, Model]:
        status = WebhookStatusChanged(uid="u1", generation=1, backlog=self._count, written_time=NOW)
        return "Webhook//ops", status

    def _timer(self) -> tuple[str, Model]:
        target = self._target()
        timer = SetTimer(id=target.key, generation=self._count, owner="eviction", deadline=NOW, target=target)
        return target.key, timer

    def _zone(self) -> tuple[str, Model]:
        return "eu/eu-1", ZoneChanged(
            zone="eu/eu-1",
            generation=self._count,
            state=ZoneState.NORMAL,
            nodes=self._random.randint(1, 3),
            not_ready=0,
            rate=0.1,
            tokens=1.0,
            tokens_time=NOW,
        )


def _requester(name: str) -> Requester:
    return Requester(kind=RequesterKind.EVICTION_REQUEST, name=name)


def _object(api_version: str, kind: str, name: str, namespace: str = "", **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def documents(tables: Tables) -> dict[ObjectId, Any]:
    """All objects as they are shown."""
    builder = ObjectBuilder(tables)
    known = {ObjectId.of(key) for key in (*tables.resources, *tables.placements)}
    known |= {*tables.index(ViewIndex).origins, *builder.always}
    built = {object_id: builder.build(object_id) for object_id in known}
    return {object_id: document for object_id, document in built.items() if document is not None}


def kept(tables: Tables) -> dict[str, dict[str, Any]]:
    """What the indexes keep, without machine sets that wait to be reconciled."""
    classes = {one for kind in discovered() for one in kind.indexes} | {ViewIndex}
    indexes = {one.__name__: vars(tables.index(one)) for one in classes}
    return {
        name: {key: value for key, value in inside.items() if isinstance(value, dict | ObjectMap) and key != "_kinds"}
        for name, inside in indexes.items()
    }


@pytest.mark.parametrize("seed", range(4))
def test_no_change_of_an_object_is_missed(seed: int) -> None:
    tables = Tables()
    shown = documents(tables)
    changed_kinds = set[str]()
    for topic, key, event in Fleet(seed).records(1_000):
        touched = tables.apply(topic, key, event)
        now = documents(tables)
        changed = {one for one in shown.keys() | now.keys() if shown.get(one) != now.get(one)}
        assert changed <= touched, f"{topic.short} {key}"
        changed_kinds |= {one.kind for one in changed if topic is not RESOURCES or one.key != key}
        shown = now
    counting = {"MachineSet", "EvictionPause", "Deployment", "ManagedClusterSet", "ManagedClusterSetBinding"}
    assert changed_kinds >= counting | {"Node", "Pod", "ResourceBinding", "EvictionBudget", "Taint"}


@pytest.mark.parametrize("seed", range(4))
def test_the_last_records_alone_show_the_same(seed: int) -> None:
    """A gateway that starts later reads a log from which earlier records have been compacted away."""
    tables, last = Tables(), dict[tuple[Topic, str], Model | None]()
    for topic, key, event in Fleet(seed).records(1_000):
        tables.apply(topic, key, event)
        last[topic, key] = event
    later, left = Tables(), list(last.items())
    random.Random(seed).shuffle(left)  # noqa: S311 - records of a test
    for (topic, key), event in left:
        later.apply(topic, key, event)
    assert documents(later) == documents(tables)
    assert later.sizes() == tables.sizes()
    assert kept(later) == kept(tables)


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_kept_of_records_that_are_gone(seed: int) -> None:
    tables, keys = Tables(), dict[tuple[Topic, str], None]()
    nothing = kept(tables)
    for topic, key, event in Fleet(seed).records(1_000):
        tables.apply(topic, key, event)
        keys[topic, key] = None
    for topic, key in keys:
        tables.apply(topic, key, None)
    assert kept(tables) == nothing
    assert not any(tables.tables.values())
