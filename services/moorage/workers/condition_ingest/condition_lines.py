"""The log lines about conditions. Only another status is a decision, so heartbeats have no lines."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from moorage.runtime.service import DecisionLines, Emit
from moorage_schemas.keys import ConditionKey, WorkloadConditionKey


class ConditionChange(NamedTuple):
    """A condition before and after a report, in the form of `Emit.before`."""

    before: str
    """The status before; empty for a condition that is new."""

    after: Any
    """The condition as it is written: an event or a row."""


def condition_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe a change of a target's condition."""
    if emit.content is None:
        if lines.wants("condition.removed", logging.DEBUG):
            target, condition = ConditionKey.parse(emit.key)
            lines.write("condition.removed", {"target": target, "condition": condition}, logging.DEBUG)
    elif isinstance(emit.before, ConditionChange):
        _changed(emit.before, lines, {"target": emit.partition_key}, logging.INFO)


def workload_condition_lines(emit: Emit, lines: DecisionLines) -> None:
    """Describe a change of the condition of a workload on a target. Each replica has some, so the level is debug."""
    if isinstance(emit.before, ConditionChange):
        key = WorkloadConditionKey.parse(emit.key)
        _changed(emit.before, lines, {"workload": key.workload, "target": key.target}, logging.DEBUG)


def _changed(change: ConditionChange, lines: DecisionLines, about: dict[str, object], level: int) -> None:
    after = change.after
    if change.before == after.status or not lines.wants("condition.changed", level):
        return
    found = {
        "condition": after.type,
        "status": str(after.status),
        "was": change.before,
        "reason": after.reason,
        "message": after.message,
        "source": after.source,
    }
    lines.write("condition.changed", about | found, level)
