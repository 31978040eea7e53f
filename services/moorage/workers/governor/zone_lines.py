"""The log lines about zones, and about what the governor grants."""

from __future__ import annotations

import logging
import math

from moorage.runtime.service import DecisionLines, Emit
from moorage_schemas.budget import EvictionAnswered
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged


def zone_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe another state of a zone. `Emit.before` is the record before."""
    event, was = emit.content, emit.before
    if not isinstance(event, ZoneChanged):
        return
    before = was if isinstance(was, ZoneChanged) else None
    known = (before.state, before.stopped) if before is not None else None
    if known != (event.state, event.stopped) and lines.wants("zone.changed"):
        found = {
            "zone": event.zone,
            "state": event.state.value,
            "was": before.state.value if before is not None else None,
            "nodes": event.nodes,
            "not_ready": event.not_ready,
            "rate": event.rate if math.isfinite(event.rate) else "unlimited",
            "stopped": event.stopped,
        }
        lines.write("zone.changed", found)


def grant_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe that a node may have the taint that evicts, or may not have it any longer."""
    event = emit.content
    if isinstance(event, NoExecuteGranted):
        kind = "taint.granted" if event.granted else "taint.grant_withdrawn"
        if lines.wants(kind):
            lines.write(kind, {"target": event.target.key, "zone": event.zone, "reason": event.reason})


def answer_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe an answer about an eviction. The eviction service logs what follows, so the level is debug."""
    event = emit.content
    if isinstance(event, EvictionAnswered):
        kind = "eviction.granted" if event.granted else "eviction.not_granted"
        if lines.wants(kind, logging.DEBUG):
            found = {
                "workload": event.workload.key,
                "target": event.target.key,
                "message": event.message,
                "held_by": event.held_by,
                "generation": event.generation,
            }
            lines.write(kind, found, logging.DEBUG)
