"""The content of the topics about one Kubernetes cluster: beside its nodes, the decisions on its pods."""

from __future__ import annotations

from typing import Final, NamedTuple

from typing_extensions import override

from moorage.bridges.engine.target_tables import Bound, Touched, WorkTables
from moorage.runtime.service import Input
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import EvictionKey
from moorage_schemas.placement import PlacementState, WorkloadPlaced

_TO_COME: Final = frozenset({EvictionState.SCHEDULED, EvictionState.HELD})


class LastPlacement(NamedTuple):
    """The last decision on a pod."""

    uid: str
    state: PlacementState
    reason: str
    message: str


class RequestedEviction(NamedTuple):
    """A pod that has to leave now."""

    uid: str
    node: str
    generation: int
    message: str
    taint: str
    """The first taint that evicts it, as `key=value:effect`."""


class DecidedTables(WorkTables[LastPlacement, RequestedEviction]):
    """The present content of the topics about one Kubernetes cluster. Its workloads are the pods.

    Args:
        cluster: the name of the cluster in references. Empty for the home fleet.
    """

    _work = ("Pod",)

    def __init__(self, cluster: str, touched: Touched) -> None:
        super().__init__("Node", cluster, touched)
        self.spared: dict[str, str] = {}
        """The uids of the pods that had to leave later and may stay after all, by key, until this was stated."""

        self._due_later: set[str] = set()
        """The keys of the evictions that are to come."""

    def binding_of(self, pod: str, uid: str) -> Bound | None:
        """Return the binding of the pod with this uid. None if it has none.

        While it moves, the binding that has ended may still exist, because it is in another partition.
        """
        found = (one for one in self.bound.get(pod, {}).values() if one.uid == uid)
        return max(found, key=lambda one: one.generation, default=None)

    def eviction_of(self, pod: str, uid: str) -> RequestedEviction | None:
        """Return why the pod with this uid has to leave now. None if it may stay."""
        return next((one for one in self.evictions.get(pod, {}).values() if one.uid == uid), None)

    @override
    def _eviction(self, record: Input) -> None:
        event = record.event if isinstance(record.event, EvictionDecided) else None
        if event is not None and event.state in _TO_COME:
            self._due_later.add(record.key)
        elif record.key in self._due_later:
            self._due_later.remove(record.key)
            if event is not None and event.state is EvictionState.CANCELLED:
                self.spared[EvictionKey.parse(record.key).workload] = event.workload_uid
        super()._eviction(record)

    @override
    def _kept_decision(self, event: WorkloadPlaced) -> LastPlacement:
        return LastPlacement(event.uid, event.state, event.reason, event.message)

    @override
    def _kept_eviction(self, event: EvictionDecided) -> RequestedEviction:
        taint = next((f"{one.key}={one.value}:{one.effect}" for one in event.taints), "")
        return RequestedEviction(event.workload_uid, event.target.name, event.generation, event.message, taint)
