"""OCM's clusters, sets and placements in one line each, for tests that drive the placement service."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.scenario.flow.driver import Flow, Record

from moorage.runtime.service import Service
from moorage.runtime.settings import Settings
from moorage.workers import placement
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, resource_key, resource_partition_key
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import PLACEMENTS, RESOURCES, TAINTS

PARTITIONS = 3
GROUP = "cluster.open-cluster-management.io"
SET_LABEL = f"{GROUP}/clusterset"
DISABLE = f"{GROUP}/experimental-scheduling-disable"
APIS = {
    "ManagedCluster": f"{GROUP}/v1",
    "ManagedClusterSet": f"{GROUP}/v1beta2",
    "ManagedClusterSetBinding": f"{GROUP}/v1beta2",
    "Placement": f"{GROUP}/v1beta1",
    "AddOnPlacementScore": f"{GROUP}/v1alpha1",
    "ManagedClusterAddOn": "addon.open-cluster-management.io/v1alpha1",
    "Lease": "coordination.k8s.io/v1",
}
CLUSTER_SCOPED = {"ManagedCluster", "ManagedClusterSet"}


class OcmWorld:
    """The placement service, what people declare, and the taints that clusters have.

    Args:
        clusters: names of clusters in the set `default`, which is bound to the namespace `default`, without taints.
        seed: draws the order in which partitions get their turn.
        services: others than placement alone.
        own: the placement service itself, when it is another one.
    """

    def __init__(
        self,
        *clusters: str,
        seed: int | None = None,
        services: Sequence[Service[Any]] = (),
        own: Service[Any] | None = None,
    ) -> None:
        rng = None if seed is None else random.Random(seed)  # noqa: S311 - drawn to be repeated
        settings = Settings(partitions=PARTITIONS)
        self.flow = Flow([own or placement.service(settings), *services], partitions=PARTITIONS, rng=rng)
        self.own_taints = not services
        """Whether the tests write the taints of clusters themselves."""

        self.compacted = False
        self._versions: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._taints: dict[str, dict[tuple[str, str], TaintRecord]] = {}
        self.bind("default")
        for name in clusters:
            self.cluster(name)

    def declare(self, kind: str, name: str, *, namespace: str = "default", uid: str = "", **parts: Any) -> Record:
        """Write a resource."""
        namespace = "" if kind in CLUSTER_SCOPED else namespace
        metadata = {"name": name, "uid": uid or f"uid-{name}", "labels": parts.pop("labels", {})}
        metadata |= {"namespace": namespace} if namespace else {}
        metadata["annotations"] = parts.pop("annotations", {})
        obj = {"apiVersion": APIS[kind], "kind": kind, "metadata": metadata, "spec": parts.pop("spec", {}), **parts}
        key = resource_key(kind, namespace, name)
        self._versions[key] = self._versions.get(key, 0) + 1
        event = ResourceDeclared(object=obj, version=self._versions[key])
        return self.flow.produce(RESOURCES, key, event, partition_key=resource_partition_key(key))

    def delete(self, kind: str, name: str, *, namespace: str = "default") -> Record:
        """Delete a resource."""
        key = resource_key(kind, "" if kind in CLUSTER_SCOPED else namespace, name)
        if kind == "ManagedCluster" and self.own_taints:
            self._taints.pop(name, None)
            target = ref(name)
            self.flow.produce(TAINTS, target.key, None)
        return self.flow.produce(RESOURCES, key, None, partition_key=resource_partition_key(key))

    def cluster(self, name: str, *, uid: str = "", **parts: Any) -> Record:
        """Declare a cluster; with the taints that it has by now."""
        record = self.declare("ManagedCluster", name, uid=uid, **parts)
        if self.own_taints and name not in self._taints:
            self._taints[name] = {}
            self._write_taints(name, uid or f"uid-{name}")
        return record

    def taint(self, cluster: str, key: str = "bad", effect: str = "NoSelect", *, value: str = "") -> Record:
        """A taint, added now."""
        record = TaintRecord(
            key=key, value=value, effect=effect, time_added=self.flow.now, origins=(TaintOrigin.EXPLICIT,)
        )
        self._taints[cluster][key, effect] = record
        return self._write_taints(cluster)

    def untaint(self, cluster: str, key: str = "bad", effect: str = "NoSelect") -> Record:
        """Take a taint away."""
        self._taints[cluster].pop((key, effect), None)
        return self._write_taints(cluster)

    def _write_taints(self, cluster: str, uid: str = "") -> Record:
        self._generations[cluster] = self._generations.get(cluster, 0) + 1
        event = TargetTainted(
            target=ref(cluster),
            target_uid=uid,
            generation=self._generations[cluster],
            taints=tuple(self._taints[cluster].values()),
        )
        return self.flow.produce(TAINTS, event.target.key, event)

    def set(self, name: str, selector: dict[str, Any] | None = None) -> Record:
        """A set: exclusive, or of the clusters that a label selector selects."""
        kind = {"selectorType": "ExclusiveClusterSetLabel"}
        if selector is not None:
            kind = {"selectorType": "LabelSelector", "labelSelector": selector}  # type: ignore[dict-item]  # as JSON
        return self.declare("ManagedClusterSet", name, spec={"clusterSelector": kind})

    def bind(self, name: str, *, namespace: str = "default") -> Record:
        """Bind a set to a namespace."""
        return self.declare("ManagedClusterSetBinding", name, namespace=namespace, spec={"clusterSet": name})

    def placement(self, name: str = "p", *, uid: str = "", namespace: str = "default", **spec: Any) -> Record:
        """Declare a placement."""
        annotations = spec.pop("annotations", {})
        return self.declare("Placement", name, uid=uid, namespace=namespace, annotations=annotations, spec=spec)

    def score(self, cluster: str, value: int, *, until: str | None = None, name: str = "load") -> Record:
        """An add-on's score of a cluster."""
        status: dict[str, Any] = {"scores": [{"name": "s", "value": value}]}
        status |= {"validUntil": until} if until else {}
        return self.declare("AddOnPlacementScore", name, namespace=cluster, status=status)

    def run(self) -> OcmWorld:
        """Until all is quiet; then everything that is written must be right."""
        self.flow.run()
        self.check()
        return self

    def advance(self, seconds: float) -> OcmWorld:
        """Let time pass."""
        self.flow.advance(seconds)
        self.check()
        return self

    def placed(self, name: str = "p", namespace: str = "default") -> WorkloadPlaced:
        """What is said of a placement."""
        found: WorkloadPlaced = self.flow.table(PLACEMENTS)[f"Placement/{namespace}/{name}"]
        return found

    def decisions(self, name: str = "p", namespace: str = "default") -> dict[str, tuple[str, ...]]:
        """Its PlacementDecisions by name."""
        owner = f"Placement/{namespace}/{name}"
        return {
            event.workload.name: event.clusters
            for key, event in self.flow.table(PLACEMENTS).items()
            if key.startswith("PlacementDecision/") and event.owner.key == owner
        }

    def selected(self, name: str = "p", namespace: str = "default") -> list[str]:
        """The clusters that it has, sorted."""
        return sorted(one for part in self.decisions(name, namespace).values() for one in part)

    def writes(self) -> int:
        """How many records of decisions there are, tombstones too."""
        return len(self.flow.records(PLACEMENTS))

    def restart(self, *, compact: bool = True) -> None:
        """Let the service's process die; the topics may have been compacted when it starts again."""
        if compact:
            self.compacted = True
            self.flow.compact(keep_tombstones=False)
        self.flow.crash_process("placement")

    def check(self) -> None:
        """What is true of the records of decisions at any time.

        Whoever adds `added` and takes away `removed`, record for record, has what the PlacementDecisions list, and is
        told of each cluster once; the placement's own record counts them; every generation is newer than that before.
        (Of compacted topics, only the last can be told.)
        """
        told: dict[str, set[str]] = {}
        last: dict[str, int] = {}
        owners: dict[str, str] = {}
        for record in self.flow.records(PLACEMENTS):
            if record.value is None:
                last.pop(record.name, None)
                if record.name.startswith("Placement/"):
                    assert not told.pop(record.name, set()), "its clusters were never told to be removed"
                continue
            event = record.event
            owner = owners[record.name] = event.owner.key
            if record.name in last:
                assert event.generation > last[record.name], f"{record.name} does not grow"
            last[record.name] = event.generation
            mine = told.setdefault(owner, set())
            if self.compacted:
                continue
            assert set(event.removed) <= mine, "removed, and never added"
            mine -= set(event.removed)
            assert mine.isdisjoint(event.added), "added twice"
            mine |= set(event.added)
        table = self.flow.table(PLACEMENTS)
        for key, event in table.items():
            if key.startswith("Placement/"):
                listed = [one for part in table.values() if part.owner.key == key for one in part.clusters]
                assert self.compacted or set(listed) == told[key]
                assert len(listed) == len(set(listed)) == event.selected
                names = [name for group in event.decision_groups for name in group.decisions]
                assert {f"PlacementDecision/{event.workload.namespace}/{name}" for name in names} == {
                    other for other, part in table.items() if part.owner.key == key and other != key
                }


def ref(cluster: str) -> TargetRef:
    """A cluster as a target."""
    return TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=cluster)


def tolerates(key: str = "bad", *, effect: str = "", seconds: int | None = None) -> dict[str, Any]:
    """A toleration."""
    found: dict[str, Any] = {"key": key, "operator": "Exists"}
    found |= {"effect": effect} if effect else {}
    return found | ({"tolerationSeconds": seconds} if seconds is not None else {})


def labelled(**labels: str) -> dict[str, Any]:
    """A predicate."""
    return {"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}


def weights(**values: int) -> dict[str, Any]:
    """A policy that counts exactly these built-in prioritizers."""
    configurations = [
        {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight} for name, weight in values.items()
    ]
    return {"mode": "Exact", "configurations": configurations}


def by_score(weight: int = 1) -> dict[str, Any]:
    """A policy that counts an add-on's score only."""
    add_on = {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "s"}}
    return {"mode": "Exact", "configurations": [{"scoreCoordinate": add_on, "weight": weight}]}
