"""What the topics say about a control plane: beside its clusters, the decisions on its bindings."""

from __future__ import annotations

from typing import NamedTuple

from typing_extensions import override

from moorage.bridges.engine.target_tables import Touched, WorkTables, drop
from moorage.bridges.karmada.plane import CLUSTER
from moorage.runtime.service import Input
from moorage_schemas.condition import HEALTHY
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import BindingKey, EvictionKey, ResourceKey
from moorage_schemas.placement import WorkloadBound, WorkloadPlaced
from moorage_schemas.resources.workload_kinds import BINDING_KINDS
from moorage_schemas.topics import BINDINGS, EVICTIONS, PLACEMENTS, WORKLOAD_CONDITIONS, Topic


class Bound(NamedTuple):
    """A binding of a workload to a cluster."""

    uid: str
    generation: int


class PlaneTables(WorkTables):
    """The present content of the topics, as far as it is about the control plane.

    Args:
        touched: called for each change, with the name of a cluster or the key of a binding.
    """

    def __init__(self, touched: Touched) -> None:
        super().__init__(CLUSTER, "", touched)
        self.placed: dict[str, WorkloadPlaced] = {}
        """The last decision, by the key of the binding."""

        self.bound: dict[str, dict[str, Bound]] = {}
        """By the key of the binding, by the name of the cluster."""

        self.evictions: dict[str, dict[str, EvictionDecided]] = {}
        """By the key of the binding, by that of the eviction: those that are requested."""

        self._fold |= {
            BINDINGS: self._bound,
            PLACEMENTS: self._placed,
            EVICTIONS: self._eviction,
        }

    def requested(self, binding: str, uid: str) -> list[EvictionDecided]:
        """Return the evictions that are requested of a binding with this uid."""
        return [one for one in self.evictions.get(binding, {}).values() if one.workload_uid in {"", uid}]

    @override
    def _wants(self, topic: Topic, kind: str, key: str) -> bool:
        return kind in BINDING_KINDS and (topic is not WORKLOAD_CONDITIONS or key.endswith(f"|{HEALTHY}"))

    def _placed(self, record: Input) -> None:
        if isinstance(record.event, WorkloadPlaced):
            self.placed[record.key] = record.event
        else:
            self.placed.pop(record.key, None)
        self._touched(ResourceKey.parse(record.key).kind, record.key)

    def _bound(self, record: Input) -> None:
        key, event = BindingKey.parse(record.key), record.event
        name = key.target.rpartition("/")[2]
        if isinstance(event, WorkloadBound):
            self.bound.setdefault(key.workload, {})[name] = Bound(event.uid, event.generation)
        else:
            drop(self.bound, key.workload, name)
        self._touched(ResourceKey.parse(key.workload).kind, key.workload)

    def _eviction(self, record: Input) -> None:
        key, event = EvictionKey.parse(record.key), record.event
        if isinstance(event, EvictionDecided) and event.state is EvictionState.REQUESTED:
            self.evictions.setdefault(key.workload, {})[record.key] = event
        else:
            drop(self.evictions, key.workload, record.key)
        self._touched(ResourceKey.parse(key.workload).kind, key.workload)
