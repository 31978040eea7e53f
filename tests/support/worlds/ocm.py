"""OCM's clusters, sets and placements, for tests that run the placement service alone or with others."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar

from tests.support.worlds.flow import Record
from tests.support.worlds.world import PARTITIONS, World, flow_of

from moorage.decide.taints.desired.managed_taints import AVAILABLE
from moorage.runtime.service import Service
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import placement
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import PLACEMENTS, TAINTS

GROUP = "cluster.open-cluster-management.io"
SET_LABEL = f"{GROUP}/clusterset"
DISABLE = f"{GROUP}/experimental-scheduling-disable"


class OcmWorld(World):
    """The placement service, sets and placements, and clusters with the taints that the tests write.

    Args:
        clusters: names of clusters in the set `default`, which is bound to the namespace `default`, without taints.
        seed: determines the order in which partitions run.
        own: replaces the placement service.
        services: other services. If there are any, they write the taints.
    """

    kind: ClassVar[TargetKind] = TargetKind.MANAGED_CLUSTER
    effect: ClassVar[str] = "NoSelect"

    def __init__(
        self,
        *clusters: str,
        seed: int | None = None,
        own: Service[Any] | None = None,
        services: Sequence[Service[Any]] = (),
    ) -> None:
        self.settings = Settings(partitions=PARTITIONS)
        super().__init__(flow_of([own or placement.service(self.settings), *services], seed=seed))
        self.own_taints = not services
        """Whether the tests write the taints of clusters themselves."""

        self.compacted = False
        self._generations: dict[str, int] = {}
        self._taints: dict[str, dict[tuple[str, str], TaintRecord]] = {}
        self.bind_set("default")
        for name in clusters:
            self.cluster(name)

    def delete(self, kind: str, name: str, *, namespace: str = "default") -> Record:
        """Delete an object. With a cluster, its taints are also deleted."""
        if kind == "ManagedCluster" and self.own_taints:
            self._taints.pop(name, None)
            self.flow.produce(TAINTS, self.ref(name).key, None)
        return super().delete(kind, name, namespace=namespace)

    def cluster(self, name: str, *, uid: str = "", **parts: Any) -> Record:
        """Declare a cluster, with its present taints."""
        record = self.declare("ManagedCluster", name, uid=uid, **parts)
        if self.own_taints and name not in self._taints:
            self._taints[name] = {}
            self._write_taints(name, uid or self.uid(name))
        return record

    def taint(
        self, name: str, key: str = "bad", effect: str = "", value: str = "", *, time: datetime | None = None
    ) -> Record:
        """Put a taint on a cluster."""
        if not self.own_taints:
            return super().taint(name, key, effect, value, time=time)
        effect = effect or self.effect
        self._taints[name][key, effect] = TaintRecord(
            key=key, value=value, effect=effect, time_added=time or self.flow.now, origins=(TaintOrigin.EXPLICIT,)
        )
        return self._write_taints(name)

    def untaint(self, name: str, key: str = "bad", effect: str = "") -> Record:
        """Take a taint from a cluster."""
        if not self.own_taints:
            return super().untaint(name, key, effect)
        self._taints[name].pop((key, effect or self.effect), None)
        return self._write_taints(name)

    def available(self, name: str, status: str = "True", *, source: str = "agent") -> Record:
        """Report a cluster as available or not."""
        return self.report(name, AVAILABLE, status, source=source)

    def _write_taints(self, cluster: str, uid: str = "") -> Record:
        self._generations[cluster] = self._generations.get(cluster, 0) + 1
        event = TargetTainted(
            target=self.ref(cluster),
            target_uid=uid,
            generation=self._generations[cluster],
            taints=tuple(self._taints[cluster].values()),
        )
        return self.flow.produce(TAINTS, event.target.key, event)

    def set(self, name: str, selector: dict[str, Any] | None = None) -> Record:
        """Declare a set: exclusive, or with a label selector."""
        kind = {"selectorType": "ExclusiveClusterSetLabel"}
        if selector is not None:
            kind = {"selectorType": "LabelSelector", "labelSelector": selector}  # type: ignore[dict-item]  # as JSON
        return self.declare("ManagedClusterSet", name, spec={"clusterSelector": kind})

    def bind_set(self, name: str, *, namespace: str = "default") -> Record:
        """Bind a set to a namespace."""
        return self.declare("ManagedClusterSetBinding", name, namespace=namespace, spec={"clusterSet": name})

    def placement(self, name: str = "p", *, uid: str = "", namespace: str = "default", **spec: Any) -> Record:
        """Declare a placement."""
        annotations = spec.pop("annotations", {})
        return self.declare("Placement", name, uid=uid, namespace=namespace, annotations=annotations, spec=spec)

    def score(self, cluster: str, value: int, *, until: str | None = None, name: str = "load") -> Record:
        """Write an add-on's score of a cluster."""
        status: dict[str, Any] = {"scores": [{"name": "s", "value": value}]}
        status |= {"validUntil": until} if until else {}
        return self.declare("AddOnPlacementScore", name, namespace=cluster, status=status)

    def placed(self, name: str = "p", namespace: str = "default") -> WorkloadPlaced:
        """The record of a placement."""
        found: WorkloadPlaced = self.flow.table(PLACEMENTS)[f"Placement/{namespace}/{name}"]
        return found

    def decisions(self, name: str = "p", namespace: str = "default") -> dict[str, tuple[str, ...]]:
        """The PlacementDecisions of a placement by name."""
        owner = f"Placement/{namespace}/{name}"
        return {
            event.workload.name: event.clusters
            for key, event in self.flow.table(PLACEMENTS).items()
            if key.startswith("PlacementDecision/") and event.owner.key == owner
        }

    def selected(self, name: str = "p", namespace: str = "default") -> list[str]:
        """The clusters of a placement, sorted."""
        return sorted(one for part in self.decisions(name, namespace).values() for one in part)

    def writes(self) -> int:
        """The number of records of decisions, including tombstones."""
        return len(self.flow.records(PLACEMENTS))

    def restart(self, *, compact: bool = True) -> None:
        """Let the service's process die. The topics may be compacted before it starts again."""
        if compact:
            self.compacted = True
            self.flow.compact(keep_tombstones=False)
        self.flow.crash_process("placement")

    def check(self) -> None:
        """Check the invariants of the records of decisions.

        A reader that adds `added` and removes `removed`, record by record, has the clusters in the PlacementDecisions,
        and gets each cluster once. The placement's own record counts them. Every generation is newer than the one
        before. In compacted topics, only the last of these can be checked.
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
                    other
                    for other, part in table.items()
                    if part.owner.key == key and other.startswith("PlacementDecision/")
                }


def ref(cluster: str) -> TargetRef:
    """The reference to a cluster."""
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
    """A policy with exactly these built-in prioritizers."""
    configurations = [
        {"scoreCoordinate": {"type": "BuiltIn", "builtIn": name}, "weight": weight} for name, weight in values.items()
    ]
    return {"mode": "Exact", "configurations": configurations}


def by_score(weight: int = 1) -> dict[str, Any]:
    """A policy with only an add-on's score."""
    add_on = {"type": "AddOn", "addOn": {"resourceName": "load", "scoreName": "s"}}
    return {"mode": "Exact", "configurations": [{"scoreCoordinate": add_on, "weight": weight}]}
