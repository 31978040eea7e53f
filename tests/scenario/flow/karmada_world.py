"""Karmada clusters, policies and what deployers report, in one line each, for tests that drive all services."""

from __future__ import annotations

import random
from typing import Any

from tests.scenario.flow.driver import Flow, Record

from moorage.runtime.settings import Settings
from moorage.workers import condition_ingest, eviction, governor, placement, taint_manager, timer
from moorage_schemas.condition import HEALTHY, ConditionReported, ConditionStatus
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, TaintWish, resource_key, resource_partition_key
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, EVICTIONS, PLACEMENTS, RESOURCES

PARTITIONS = 3
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
APIS = {
    "Pod": "v1",
    "Node": "v1",
    "ConfigMap": "v1",
    "Service": "v1",
    "Job": "batch/v1",
    "Cluster": "cluster.karmada.io/v1alpha1",
    "ClusterTaintPolicy": "policy.karmada.io/v1alpha1",
    "PropagationPolicy": "policy.karmada.io/v1alpha1",
    "ClusterPropagationPolicy": "policy.karmada.io/v1alpha1",
}
CLUSTER_SCOPED = {"ClusterTaintPolicy", "Cluster", "ClusterPropagationPolicy", "Node"}
GATES = {
    "feature_gates": "Failover=true",
    "enable_no_execute_taint_eviction": True,
    "resource_eviction_rate": "inf",
}


class World:
    """All services and what people and deployers write."""

    def __init__(self, *clusters: str, seed: int | None = None, **settings: Any) -> None:
        self.settings = Settings(**{"partitions": PARTITIONS, **GATES, **settings})
        modules = (condition_ingest, taint_manager, governor, eviction, timer, placement)
        rng = None if seed is None else random.Random(seed)  # noqa: S311 - drawn to be repeated
        self.flow = Flow([module.service(self.settings) for module in modules], partitions=PARTITIONS, rng=rng)
        self._versions: dict[str, int] = {}
        self._objects: dict[str, dict[str, Any]] = {}
        self._wishes: dict[str, dict[tuple[str, str], TaintWish]] = {}
        for name in clusters:
            self.cluster(name)

    def declare(
        self, kind: str, name: str, spec: dict[str, Any] | None = None, *, uid: str = "", **parts: Any
    ) -> Record:
        namespace = "" if kind in CLUSTER_SCOPED else "default"
        metadata = {"name": name, "uid": uid or f"uid-{name}", "labels": parts.pop("labels", {})}
        metadata |= {"namespace": namespace} if namespace else {}
        metadata["annotations"] = parts.pop("annotations", {})
        obj = {"apiVersion": APIS.get(kind, "apps/v1"), "kind": kind, "metadata": metadata, "spec": spec or {}, **parts}
        self._objects[resource_key(kind, namespace, name)] = obj
        return self._write(resource_key(kind, namespace, name))

    def cluster(self, name: str, *, uid: str = "", status: dict[str, Any] | None = None, **spec: Any) -> Record:
        labels = spec.pop("labels", {})
        return self.declare("Cluster", name, spec, uid=uid, labels=labels, status=status or {})

    def deploy(self, name: str, replicas: int = 1, **metadata: Any) -> Record:
        return self.declare("Deployment", name, {"replicas": replicas, "template": TEMPLATE}, **metadata)

    def policy(
        self, name: str = "p", placement: dict[str, Any] | None = None, *, kind: str = "Deployment", **spec: Any
    ) -> Record:
        annotations = spec.pop("annotations", {})
        selectors = spec.pop("selectors", [{"apiVersion": APIS.get(kind, "apps/v1"), "kind": kind}])
        body = {"resourceSelectors": selectors, "placement": placement or {}, **spec}
        return self.declare("PropagationPolicy", name, body, annotations=annotations)

    def taint(self, cluster: str, key: str = "bad", effect: str = "NoExecute", *, present: bool = True) -> Record:
        where = resource_key("Cluster", "", cluster)
        wishes = self._wishes.setdefault(where, {})
        generation = max((wish.generation for wish in wishes.values()), default=0) + 1
        wishes[key, effect] = TaintWish(
            key=key, effect=effect, present=present, generation=generation, time=self.flow.now
        )
        return self._write(where)

    def untaint(self, cluster: str, key: str = "bad", effect: str = "NoExecute") -> Record:
        return self.taint(cluster, key, effect, present=False)

    def delete(self, kind: str, name: str) -> Record:
        key = resource_key(kind, "" if kind in CLUSTER_SCOPED else "default", name)
        self._wishes.pop(key, None)
        return self.flow.produce(RESOURCES, key, None, partition_key=resource_partition_key(key))

    def healthy(self, cluster: str, name: str = "web-deployment", status: str = "True") -> Record:
        """What a deployer reports of what it runs on a cluster."""
        target = ref(cluster)
        event = ConditionReported(
            target=target,
            type=HEALTHY,
            status=ConditionStatus(status),
            observed_time=self.flow.now,
            workload=self.placed(name).workload,
        )
        return self.flow.produce(CONDITION_REPORTS, target.key, event, source="deployer", partition_key=target.key)

    def ready(self, cluster: str, status: str = "True") -> Record:
        """What a probe reports of a cluster."""
        target = ref(cluster)
        event = ConditionReported(
            target=target, type="Ready", status=ConditionStatus(status), observed_time=self.flow.now
        )
        return self.flow.produce(CONDITION_REPORTS, target.key, event, source="probe", partition_key=target.key)

    def _write(self, key: str) -> Record:
        self._versions[key] = self._versions.get(key, 0) + 1
        event = ResourceDeclared(
            object=self._objects[key],
            version=self._versions[key],
            wishes=tuple(self._wishes.get(key, {}).values()),
        )
        return self.flow.produce(RESOURCES, key, event, partition_key=resource_partition_key(key))

    def run(self) -> World:
        self.flow.run()
        self.check()
        return self

    def advance(self, seconds: float) -> World:
        self.flow.advance(seconds)
        self.check()
        return self

    def check(self) -> None:
        """Every target, and every one that is being left, has exactly its binding, and nothing else is bound."""
        wanted = set()
        for event in self.flow.table(PLACEMENTS).values():
            if event.workload.kind == "ResourceBinding":
                wanted |= {
                    (f"{event.workload}|{one.target}", one.binding_generation)
                    for one in (*event.targets, *event.leaving)
                }
            elif event.state is PlacementState.PLACED:
                wanted.add((f"{event.workload}|{event.target}", event.binding_generation))
        assert {(key, event.generation) for key, event in self.flow.table(BINDINGS).items()} == wanted

    def placed(self, name: str = "web-deployment") -> WorkloadPlaced:
        found: WorkloadPlaced = self.flow.table(PLACEMENTS)[f"ResourceBinding/default/{name}"]
        return found

    def where(self, name: str = "web-deployment") -> dict[str, int]:
        return {one.target.name: one.replicas for one in self.placed(name).targets}

    def leaving(self, name: str = "web-deployment") -> list[str]:
        return [one.target.name for one in self.placed(name).leaving]

    def binding(self, cluster: str, name: str = "web-deployment") -> WorkloadBound:
        found: WorkloadBound = self.flow.table(BINDINGS)[f"ResourceBinding/default/{name}|Cluster/{cluster}"]
        return found

    def bound(self) -> list[str]:
        return [key.rpartition("/")[2] for key in self.flow.table(BINDINGS)]

    def pods(self) -> list[str]:
        return [key for key in self.flow.table(PLACEMENTS) if key.startswith("Pod/")]

    def states(self) -> list[str]:
        return [event.state.value for event in self.flow.events(EVICTIONS)]


def ref(cluster: str) -> TargetRef:
    return TargetRef(kind=TargetKind.CLUSTER, name=cluster)


ONE = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
DIRECT = {"cluster": {"purgeMode": "Directly"}}
