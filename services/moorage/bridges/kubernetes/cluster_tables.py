"""What the topics say about one Kubernetes cluster: beside its nodes, what was decided on its pods."""

from __future__ import annotations

from typing import Final, NamedTuple

from typing_extensions import override

from moorage.bridges.engine.target_tables import Touched, WorkTables, drop
from moorage.runtime.service import Input
from moorage_schemas.condition import HEALTHY
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import BindingKey, EvictionKey
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, WORKLOAD_CONDITIONS, Topic

_NODE: Final = "Node"
_POD: Final = "Pod"


class PodBinding(NamedTuple):
    """Where a pod belongs."""

    uid: str
    generation: int
    node: str


class LastPlacement(NamedTuple):
    """What was decided last on a pod."""

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


class DecidedTables(WorkTables):
    """The present content of the topics, as far as it is about one Kubernetes cluster.

    Args:
        cluster: the name of the cluster in references. Empty for the home fleet.
        touched: called for each change.
    """

    def __init__(self, cluster: str, touched: Touched) -> None:
        super().__init__(_NODE, cluster, touched)
        self.bindings: dict[str, dict[str, PodBinding]] = {}
        """By the key of the pod, by the key of the node."""

        self.decisions: dict[str, LastPlacement] = {}
        """By the key of the pod."""

        self.evictions: dict[str, dict[str, RequestedEviction]] = {}
        """By the key of the pod, by that of the eviction: those that are requested."""

        self._fold |= {
            BINDINGS: self._bound,
            PLACEMENTS: self._placed,
            EVICTIONS: self._eviction,
        }

    @override
    def _wants(self, topic: Topic, kind: str, key: str) -> bool:
        if topic is WORKLOAD_CONDITIONS:
            return kind == _POD and key.endswith(f"|{HEALTHY}")
        return kind == _POD

    def binding_of(self, pod: str, uid: str) -> PodBinding | None:
        """Where the pod with this uid belongs. None if it has no binding.

        While it moves, the binding that has ended may still be there, because it is in another partition.
        """
        found = (one for one in self.bindings.get(pod, {}).values() if one.uid == uid)
        return max(found, key=lambda one: one.generation, default=None)

    def eviction_of(self, pod: str, uid: str) -> RequestedEviction | None:
        """Why the pod with this uid has to leave now. None if it may stay."""
        return next((one for one in self.evictions.get(pod, {}).values() if one.uid == uid), None)

    def _bound(self, record: Input) -> None:
        key, event = BindingKey.parse(record.key), record.event
        if isinstance(event, WorkloadBound):
            found = PodBinding(event.uid, event.generation, event.target.name)
            self.bindings.setdefault(key.workload, {})[key.target] = found
        else:
            drop(self.bindings, key.workload, key.target)
        self._touched(_POD, key.workload)

    def _placed(self, record: Input) -> None:
        event = record.event
        if isinstance(event, WorkloadPlaced):
            self.decisions[record.key] = LastPlacement(event.uid, event.state, event.reason, event.message)
        else:
            self.decisions.pop(record.key, None)
        self._touched(_POD, record.key)

    def _eviction(self, record: Input) -> None:
        key, event = EvictionKey.parse(record.key), record.event
        if isinstance(event, EvictionDecided) and event.state is EvictionState.REQUESTED:
            taint = next((f"{one.key}={one.value}:{one.effect}" for one in event.taints), "")
            found = RequestedEviction(event.workload_uid, event.target.name, event.generation, event.message, taint)
            self.evictions.setdefault(key.workload, {})[record.key] = found
        else:
            drop(self.evictions, key.workload, record.key)
        self._touched(_POD, key.workload)
