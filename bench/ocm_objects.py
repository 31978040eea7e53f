"""Managed clusters and placements for the benchmarks of the placement service, and the service in memory."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from moorage.runtime.service import Emit, Input
from moorage.runtime.settings import Settings
from moorage.workers import placement
from moorage.workers.placement.engine.outbox import Outbox
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.state import PlacementPartition
from moorage.workers.placement.view import FleetView
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import RESOURCES, TAINTS, Topic, partition_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = "cluster.open-cluster-management.io"
ENVIRONMENTS = ("dev", "test", "stage", "prod")

Write = tuple[Topic, str, Model]
"""Topic, partition key, event."""


def declared(api: str, kind: str, name: str, namespace: str = "", **parts: Any) -> ResourceDeclared:
    """A resource."""
    metadata = {"name": name, "uid": f"uid-{name}"} | ({"namespace": namespace} if namespace else {})
    metadata |= parts.pop("metadata", {})
    return ResourceDeclared(object={"apiVersion": api, "kind": kind, "metadata": metadata, **parts}, version=1)


def cluster_name(number: int) -> str:
    """The name of a cluster."""
    return f"cluster-{number:06}"


def tainted(name: str, generation: int, *keys: str) -> TargetTainted:
    """The taints of a cluster."""
    origins = (TaintOrigin.EXPLICIT,)
    taints = tuple(TaintRecord(key=key, effect="NoSelect", time_added=NOW, origins=origins) for key in keys)
    target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=name)
    return TargetTainted(target=target, target_uid=f"uid-{name}", generation=generation, taints=taints)


def cluster(number: int, regions: int) -> tuple[Write, Write]:
    """A cluster with labels, claims and resources, and its (empty) taints."""
    name = cluster_name(number)
    labels = {"region": f"r{number % regions}", "environment": ENVIRONMENTS[number // regions % len(ENVIRONMENTS)]}
    amounts = {"cpu": str(8 + number % 57), "memory": f"{32 + number % 129}Gi"}
    event = declared(
        f"{GROUP}/v1",
        TargetKind.MANAGED_CLUSTER.value,
        name,
        metadata={"labels": labels},
        spec={"hubAcceptsClient": True},
        status={
            "allocatable": amounts,
            "capacity": amounts,
            "clusterClaims": [{"name": "platform.open-cluster-management.io", "value": "AWS"}],
        },
    )
    taints = tainted(name, 1)
    return (
        (RESOURCES, f"{TargetKind.MANAGED_CLUSTER.value}/{name}", event),
        (TAINTS, taints.target.key, taints),
    )


def clusters(count: int, regions: int) -> Iterator[Write]:
    """Clusters, each with its taints."""
    for number in range(count):
        yield from cluster(number, regions)


def bindings(namespaces: int) -> Iterator[Write]:
    """The set `global`, bound to each namespace."""
    for number in range(namespaces):
        namespace = f"team-{number}"
        spec = {"clusterSet": "global"}
        event = declared(f"{GROUP}/v1beta2", "ManagedClusterSetBinding", "global", namespace, spec=spec)
        yield RESOURCES, event.key, event


def made(number: int, namespaces: int, spec: dict[str, Any]) -> Write:
    """A placement."""
    event = declared(f"{GROUP}/v1beta1", "Placement", f"p-{number}", f"team-{number % namespaces}", spec=spec)
    return RESOURCES, event.key, event


def labelled(**labels: str) -> list[dict[str, Any]]:
    """Predicates with a single one, by labels."""
    return [{"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}}]


@dataclass
class Process:
    """The placement service in memory, as one process with all partitions."""

    partitions: int = 24
    states: list[PlacementPartition] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.service = placement.service(Settings(partitions=self.partitions))
        self.view: FleetView = self.service.new_globals()
        self._offsets = itertools.count()
        for partition in range(self.partitions):
            state = self.service.new_state(partition)
            self.service.use_globals(state, self.view)
            self.states.append(state)
            self.service.wake(state, NOW)

    def fold(self, topic: Topic, key: str, event: Model | None) -> None:
        """Apply a record to the view."""
        if self.view.wants(topic, key):
            self.view.apply(self._record(topic, key, event))

    def _record(self, topic: Topic, key: str, event: Model | None) -> Input:
        offset = next(self._offsets)
        meta = Meta(id=f"e{offset}", source="bench", type=topic.event_type, time=NOW)
        return Input(topic, 0, offset, key, event, meta)

    def declare(self, event: ResourceDeclared) -> list[Emit]:
        """Give a record to its partition. Returns everything that is written at once."""
        state = self.states[partition_of(event.key, self.partitions)]
        return self.service.process(state, [self._record(RESOURCES, event.key, event)], NOW, fresh=True)

    def due(self) -> int:
        """The number of placements that are to be decided."""
        return sum(len(state.ocm.work) for state in self.states)

    def settle(self) -> list[Emit]:
        """Wake all partitions until nothing is left to do. Returns everything that was written."""
        emits: list[Emit] = []
        waiting = deque(state for state in self.states if state.due())
        while waiting:
            state = waiting.popleft()
            emits += self.service.wake(state, NOW)
            if state.due():
                waiting.append(state)
        return emits

    def decide_all(self) -> list[Emit]:
        """Decide again on every placement, whether or not anything that it depends on has changed."""
        emits: list[Emit] = []
        for state in self.states:
            outbox = Outbox(partial(self.service.apply, state), NOW)
            for key in state.ocm.state.specs:
                state.ocm.work.add_once(Work(key, None))
            while state.ocm.work:
                state.ocm.reconcile_one(outbox, state.ocm.work.take())
            emits += outbox.emits
        return emits
