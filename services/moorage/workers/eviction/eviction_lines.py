"""The log lines about evictions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from moorage.runtime.service import DecisionLines, Emit
from moorage.workers.eviction.eviction_task import Task
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.taint import Taint
from moorage_schemas.times import format_time

_KINDS: Final = {state: f"eviction.{state.value.lower()}" for state in EvictionState}


def eviction_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe the next state of an eviction. `Emit.before` is the task before."""
    event, was = emit.content, emit.before
    if not isinstance(event, EvictionDecided):  # an ended task is removed after some time
        return
    kind, level = _kind_of(event, was if isinstance(was, Task) else None)
    if not lines.wants(kind, level):
        return
    due = event.deadline
    found: dict[str, object] = {
        "workload": event.workload.key,
        "target": event.target.key,
        "reason": event.reason,
        "message": event.message,
        "taints": taint_texts(event.taints),
        "held_by": event.held_by,
        "deadline": format_time(due) if due is not None else None,
        "generation": event.generation,
        "deployer": event.deployer,
    }
    if kind == _ACKNOWLEDGED and event.acknowledged is not None:
        found |= {"source": event.acknowledged.source, "message": event.acknowledged.message}
    elif kind == _ESCALATED and event.escalation is not None:
        by = event.escalation
        found |= {"source": by.source, "reason": by.reason, "message": by.message}
    lines.write(kind, found, level)


_ACKNOWLEDGED: Final = "eviction.acknowledged"
_ESCALATED: Final = "eviction.escalated"


def _kind_of(event: EvictionDecided, was: Task | None) -> tuple[str, int]:
    """Return the kind and the level of an eviction's line."""
    kind = _KINDS[event.state]
    if was is None or was.state is not event.state or was.generation != event.generation:
        return kind, logging.INFO
    if event.state is EvictionState.REQUESTED:
        if event.acknowledged is not None and was.acknowledged is None:
            return _ACKNOWLEDGED, logging.INFO
        if event.escalation is not None and event.escalation != was.escalated:
            return _ESCALATED, logging.WARNING
    # another deadline, another guard; anything else is the same decision again
    changed = (was.deadline, was.held_by) != (event.deadline, event.held_by)
    return kind, logging.INFO if changed else logging.DEBUG


def taint_texts(taints: Sequence[Taint]) -> list[str] | None:
    """Return taints as kubectl writes them; None for none."""
    return [f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in taints] or None
