"""The log lines about taints: one for each taint of a target that has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moorage.runtime.service import DecisionLines, Emit
from moorage_schemas.taint import HeldTaint, TaintRecord, TargetTainted
from moorage_schemas.times import format_time

_NOTHING: Final[Mapping[tuple[str, str], TaintRecord]] = {}


def taint_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe a change of a target's taints. `Emit.before` is the set before."""
    event = emit.content if isinstance(emit.content, TargetTainted) else None
    before = emit.before if isinstance(emit.before, TargetTainted) else None
    had = _by_identity(before.taints) if before is not None else _NOTHING
    has = _by_identity(event.taints) if event is not None else _NOTHING
    for identity, taint in has.items():
        known = had.get(identity)
        if known is None:
            _write(lines, "taint.added", emit.key, taint, taint.reason)
        elif (known.value, known.time_added) != (taint.value, taint.time_added):
            _write(lines, "taint.changed", emit.key, taint, taint.reason)
    for identity, taint in had.items():
        if identity not in has:
            reason = taint.reason if event is not None else "the target was deleted"
            _write(lines, "taint.removed", emit.key, taint, reason)
    if event is not None:
        _waiting(lines, event, before.held if before is not None else ())


def _write(lines: DecisionLines, kind: str, target: str, taint: TaintRecord, reason: str) -> None:
    if lines.wants(kind):
        found = {
            "target": target,
            "key": taint.key,
            "value": taint.value,
            "effect": taint.effect,
            "time_added": format_time(taint.time_added),
            "reason": reason,
        }
        lines.write(kind, found)


def _waiting(lines: DecisionLines, event: TargetTainted, before: Iterable[HeldTaint]) -> None:
    """Describe the taints that begin to wait, or wait for something else."""
    if not event.held:
        return
    known = {(one.key, one.effect, one.reason) for one in before}
    for held in event.held:
        if (held.key, held.effect, held.reason) not in known and lines.wants("taint.waiting"):
            found = {
                "target": event.target.key,
                "key": held.key,
                "effect": held.effect,
                "since": format_time(held.since),
                "reason": held.reason,
            }
            lines.write("taint.waiting", found)


def _by_identity(taints: Iterable[TaintRecord]) -> Mapping[tuple[str, str], TaintRecord]:
    return {(one.key, one.effect): one for one in taints}
