"""The log lines about placements and bindings."""

from __future__ import annotations

import logging
from typing import Final

from moorage.runtime.service import DecisionLines, Emit
from moorage.workers.placement.engine.outbox import LastDecision
from moorage_schemas.keys import BindingKey
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced

_KINDS: Final = {
    PlacementState.PLACED: "workload.placed",
    PlacementState.PENDING: "workload.unscheduled",
    PlacementState.EVICTED: "workload.evicted",
}
_SELECTIONS: Final = frozenset({"Placement", "PlacementDecision"})
"""The kinds of OCM, whose decisions select clusters and place nothing by themselves."""


def placement_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe a decision on a workload. `Emit.before` is the last decision on a workload that waits."""
    event = emit.content
    if not isinstance(event, WorkloadPlaced):
        if lines.wants("workload.removed", logging.DEBUG):
            lines.write("workload.removed", {"workload": emit.key}, logging.DEBUG)
    elif event.workload.kind in _SELECTIONS:
        _selected(event, lines)
    else:
        _placed(event, emit.before if isinstance(emit.before, LastDecision) else None, lines)


def _placed(event: WorkloadPlaced, was: LastDecision | None, lines: DecisionLines) -> None:
    level = logging.INFO
    if event.state is PlacementState.PENDING and was is not None and was.uid == event.uid:
        # the counts in the message of a workload that waits change again and again
        level = logging.DEBUG if (was.state, was.reason) == (event.state, event.reason) else logging.INFO
    kind = _KINDS[event.state]
    if not lines.wants(kind, level):
        return
    target, previous = event.target, event.previous_target
    found: dict[str, object] = {
        "workload": event.workload.key,
        "target": target.key if target is not None else None,
        "targets": [f"{one.target.key}: {one.replicas}" for one in event.targets] or None,
        "leaving": [one.target.key for one in event.leaving] or None,
        "previous": previous.key if previous is not None else None,
        "replaces": event.replaces,
        "policy": event.policy,
        "reason": event.reason,
        "message": event.message,
        "generation": event.generation,
    }
    lines.write(kind, found, level)


def _selected(event: WorkloadPlaced, lines: DecisionLines) -> None:
    if event.workload.kind == "PlacementDecision" and not (event.added or event.removed):
        return
    kind = "clusters.selected"
    if lines.wants(kind):
        found = {
            "workload": event.workload.key,
            "added": event.added,
            "removed": event.removed,
            "selected": event.selected or None,
            "reason": event.reason,
            "message": event.message,
            "generation": event.generation,
        }
        lines.write(kind, found)


def binding_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe a binding. The line of its placement has all that is new, so only an end is logged at info."""
    event = emit.content
    kind, level = ("binding.ended", logging.INFO) if event is None else ("binding.written", logging.DEBUG)
    if lines.wants(kind, level):
        key = BindingKey.parse(emit.key)
        found: dict[str, object] = {"workload": key.workload, "target": key.target}
        if isinstance(event, WorkloadBound):
            found["generation"] = event.generation
        lines.write(kind, found, level)
