"""Bugs of placement."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tests.chaos.seeded.bugs.registry import Change, bug

from moorage.decide.scheduling.nodes.filters.taint_toleration import TaintToleration
from moorage.workers.placement.engine.outbox import Outbox
from moorage.workers.placement.engine.view_tables import EvictionTable, Requested
from moorage.workers.placement.pods.pod_view import PodView
from moorage.workers.placement.service import PlacementService
from moorage_schemas.topics import BINDINGS, PLACEMENTS

module: Any = import_module("moorage.workers.placement.service")  # the package gives the function of that name

_PUT = Outbox.put


@bug("binding-alone", "A binding is written without the decision that it rests on.")
def _() -> list[Change]:
    def put(self: Any, topic: Any, key: str, partition_key: str, event: Any, *, step: str = "") -> None:
        _PUT(self, topic, key, partition_key, event, step=step)
        if topic is PLACEMENTS and key.startswith("Pod/"):
            self.emits.pop()

    return [(Outbox, "put", put)]


@bug("decision-alone", "The end of a binding is not written.")
def _() -> list[Change]:
    def put(self: Any, topic: Any, key: str, partition_key: str, event: Any, *, step: str = "") -> None:
        if topic is not BINDINGS or event is not None or not key.startswith("Pod/"):
            _PUT(self, topic, key, partition_key, event, step=step)

    return [(Outbox, "put", put)]


@bug("evictions-unheard", "Placement does not do what eviction requests.")
def _() -> list[Change]:
    return [(PodView, "requested", lambda *_given: None)]


@bug("taints-unseen", "Placement does not ask whether a pod tolerates a node's taints.")
def _() -> list[Change]:
    return [(TaintToleration, "objections", lambda *_given: ())]


@bug("placed-anew", "Placement, back again, does not know where it had put what.")
def _() -> list[Change]:
    fold = PlacementService.apply

    def without(self: Any, state: Any, topic: Any, key: str, event: Any) -> None:
        if topic is not PLACEMENTS or all(one.begun for one in state.controllers):
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
        for one in self.evictions._requested.get(workload, {}).values():
            if one.event.target.name == node and one.event.generation == generation:
                return one
        return None

    def restarts(_self: Any, _workload: str, known: int | None) -> int:
        return (known or 0) + 1

    return [(EvictionTable, "next_generation", restarts), (PodView, "requested", requested)]


@bug("waits-for-nobody", "The binding of evicted work does not wait for its deployer.", acknowledging=True)
def _() -> list[Change]:
    return [(Requested, "waits", False)]
