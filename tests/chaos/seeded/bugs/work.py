"""Bugs of placement."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tests.chaos.seeded.bugs.planting import Change, bug

from moorage.core.scheduling.nodes.filters.taint_toleration import TaintToleration
from moorage.workers.placement.pods.reconcile import Desk
from moorage.workers.placement.service import PlacementService
from moorage.workers.placement.view import FleetView
from moorage_schemas.topics import BINDINGS, PLACEMENTS

module: Any = import_module("moorage.workers.placement.service")  # the package gives the function of that name

_EMIT = Desk._emit


@bug("binding-alone", "A binding is written without the decision that it rests on.")
def _() -> list[Change]:
    def emit(self: Any, topic: Any, key: str, partition_key: str, event: Any) -> None:
        _EMIT(self, topic, key, partition_key, event)
        if topic is PLACEMENTS:
            self.emits.pop()

    return [(Desk, "_emit", emit)]


@bug("decision-alone", "The end of a binding is not written.")
def _() -> list[Change]:
    def emit(self: Any, topic: Any, key: str, partition_key: str, event: Any) -> None:
        if topic is not BINDINGS or event is not None:
            _EMIT(self, topic, key, partition_key, event)

    return [(Desk, "_emit", emit)]


@bug("evictions-unheard", "Placement does not do what eviction requests.")
def _() -> list[Change]:
    return [(FleetView, "requested", lambda *_given: None)]


@bug("taints-unseen", "Placement does not ask whether a pod tolerates a node's taints.")
def _() -> list[Change]:
    return [(TaintToleration, "objections", lambda *_given: ())]


@bug("placed-anew", "Placement, back again, does not know where it had put what.")
def _() -> list[Change]:
    fold = PlacementService.apply

    def without(self: Any, state: Any, topic: Any, key: str, event: Any) -> None:
        if topic is not PLACEMENTS or state.begun:
            fold(self, state, topic, key, event)

    return [(PlacementService, "apply", without)]


@bug("policy-unread", "Placement does not read the policies before it makes a workload's first pods.", "clusters")
def _() -> list[Change]:
    return [(module, "_is_new", lambda _state, _record: False)]


@bug(
    "generation-restarts",
    "A pod's next binding does not heed the evictions of the ones before, whosever they were.",
    "again",
)
def _() -> list[Change]:
    # Evictions name the uid of their workload, too: that line is missing as well.
    def requested(self: Any, workload: str, _uid: str, node: str, generation: int) -> Any:
        for task in self._tasks.get(workload, {}).values():
            if task.event.target.name == node and task.event.generation == generation:
                return task
        return None

    return [(FleetView, "highest_eviction", lambda _self, _workload: 0), (FleetView, "requested", requested)]
