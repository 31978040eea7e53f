"""Records both sides of a shadow run: the cluster by watches, and the decisions from Moorage's topics."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from tests.planes.cluster import Cluster, Document, Follower
from tests.planes.shadow.history import (
    ClusterHistory,
    DecidedEviction,
    DecidedHistory,
    DecidedPlacement,
    DecidedTaints,
    Identity,
    NodeHistory,
    NodeVersion,
    PodHistory,
)
from tests.support.live import Live

from moorage.cli.api.topics import Seen
from moorage.decide.kubernetes.quantities import whole_amounts
from moorage_schemas.eviction import EvictionDecided
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.taint import Taint, TargetTainted, Toleration
from moorage_schemas.topics import EVICTIONS, PLACEMENTS, TAINTS
from moorage_schemas.zone import zone_of

_ZONE: Final = "topology.kubernetes.io/"
_COUNTED: Final = frozenset({"cpu", "memory", "pods"})


class Recorder(Follower):
    """Hands each version of each object on, and keeps nothing of it but its name.

    Args:
        cluster: a client of the cluster.
        path: of the list of all objects.
        take: called with the time, the change and the object.
    """

    def __init__(self, cluster: Cluster, path: str, take: Callable[[dt.datetime, str, Document], None]) -> None:
        super().__init__(cluster, path)
        self._tell = take

    def _note(self, change: str, document: Document) -> None:
        metadata = {name: document["metadata"].get(name, "") for name in ("namespace", "name", "uid")}
        self._tell(dt.datetime.now(dt.UTC), change, document)
        super()._note(change, {"metadata": metadata})


class ClusterRecord:
    """Writes the history of a cluster."""

    def __init__(self) -> None:
        self.history = ClusterHistory()
        self.leaves: Callable[[str, str, str], None] = lambda _namespace, _name, _uid: None
        """Called once for each pod that is being deleted."""

        self.silent: Callable[[str], None] = lambda _name: None
        """Called each time a node begins to be Unknown."""

    def node(self, time: dt.datetime, change: str, found: Document) -> None:
        """Note a version of a node."""
        uid, name = found["metadata"]["uid"], found["metadata"]["name"]
        if change == "DELETED":
            self.history.nodes[uid].gone = time
            return
        for other in self.history.nodes_named(name):
            if other.gone is None and other is not self.history.nodes.get(uid):
                other.gone = time  # a watch that was interrupted does not tell
        if uid not in self.history.nodes:
            self.history.add(NodeHistory(uid, name, []))
        version = _node_version(time, found)
        versions = self.history.nodes[uid].versions
        if not versions or _said(versions[-1]) != _said(version):
            if version.ready == "Unknown" and (not versions or versions[-1].ready != "Unknown"):
                self.silent(name)
            versions.append(version)

    def pod(self, time: dt.datetime, change: str, found: Document) -> None:
        """Note a version of a pod."""
        uid, spec, status = found["metadata"]["uid"], found["spec"], found.get("status") or {}
        pod = self.history.pods.get(uid)
        if pod is None:
            pod = self.history.pods[uid] = PodHistory(
                found["metadata"]["namespace"],
                found["metadata"]["name"],
                time,
                scheduler=spec.get("schedulerName", ""),
                tolerations=tuple(Toleration.model_validate(one) for one in spec.get("tolerations") or ()),
                requests=_requests(spec),
            )
        if pod.bound is None and spec.get("nodeName"):
            pod.node, pod.bound = spec["nodeName"], time
        if pod.evicted is None and any(
            (one["type"], one.get("reason")) == ("DisruptionTarget", "DeletionByTaintManager")
            for one in status.get("conditions") or ()
        ):
            pod.evicted = time
        if pod.leaving is None and found["metadata"].get("deletionTimestamp"):
            pod.leaving = time
            self.leaves(pod.namespace, pod.name, uid)
        if change == "DELETED":
            pod.gone = time


class DecidedRecord:
    """Writes the history of decisions."""

    def __init__(self) -> None:
        self.history = DecidedHistory()
        self.records = 0
        """How many records were read."""

    def take(self, seen: Seen) -> None:
        """Note a record."""
        self.records += 1
        event, time = seen.event, seen.timestamp
        if isinstance(event, TargetTainted):
            found = DecidedTaints(
                time, event.target.name, event.target_uid, {one.identity: one.as_taint() for one in event.taints}
            )
            self.history.taints.setdefault(event.target_uid, []).append(found)
        elif isinstance(event, EvictionDecided):
            self.history.evictions.setdefault(event.workload_uid, []).append(
                DecidedEviction(time, event.target.name, event.state.value, event.deadline, event.held_by)
            )
        elif isinstance(event, WorkloadPlaced) and event.target is not None:
            self.history.placements.setdefault(event.uid, []).append(
                DecidedPlacement(time, event.target.name, event.reason, event.filters)
            )


@asynccontextmanager
async def recording(cluster: Cluster, live: Live, record: ClusterRecord, decided: DecidedRecord) -> AsyncIterator[None]:
    """Record both sides from now on. Everything that is there in the cluster is noted first."""
    recorders = [Recorder(cluster, "/api/v1/nodes", record.node), Recorder(cluster, "/api/v1/pods", record.pod)]

    async with live.reader(TAINTS, EVICTIONS, PLACEMENTS) as reader:

        async def read() -> None:
            async for batch in reader.batches():
                for one in batch:
                    decided.take(one)

        tasks = [asyncio.create_task(work) for work in (read(), *(one.run() for one in recorders))]
        try:
            async with asyncio.timeout(60):
                for one in recorders:
                    await one.synced()
            yield
            for task in tasks:
                assert not task.done(), task.exception()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _node_version(time: dt.datetime, found: Document) -> NodeVersion:
    labels = found["metadata"].get("labels") or {}
    status = found.get("status") or {}
    taints: dict[Identity, Taint] = {}
    for one in found["spec"].get("taints") or ():
        taint = Taint.model_validate(one)
        taints[taint.identity] = taint
    return NodeVersion(
        time,
        taints,
        unschedulable=bool(found["spec"].get("unschedulable")),
        ready=next((one["status"] for one in status.get("conditions") or () if one["type"] == "Ready"), None),
        zone=zone_of(labels.get(f"{_ZONE}region", ""), labels.get(f"{_ZONE}zone", "")),
        room=_amounts(status.get("allocatable") or {}),
    )


def _said(version: NodeVersion) -> tuple[Any, ...]:
    return version.taints, version.unschedulable, version.ready, version.zone, version.room


def _requests(spec: Mapping[str, Any]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, amount in _amounts((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, 0) + amount
    return total


def _amounts(found: Mapping[str, str]) -> dict[str, int]:
    return whole_amounts({name: amount for name, amount in found.items() if name in _COUNTED}, "")
