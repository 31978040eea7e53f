"""What the taint-manager knows of one partition."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from datetime import datetime

from moorage.core.taints.desired.addons import AddOns
from moorage.core.taints.desired.reconcile import ReconciledTaints
from moorage.workers.taint_manager.policies import Cursor, PolicyView
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.zone import NoExecuteGranted

_SLACK = 64  # entries of the heap that may be out of date beside those that are not


@dataclass(slots=True)
class TaintManagerPartition:
    """One partition."""

    resources: dict[str, ResourceDeclared] = field(default_factory=dict)
    """By target key."""

    conditions: dict[str, dict[str, ConditionChanged]] = field(default_factory=dict)
    """By target key and type."""

    grants: dict[str, NoExecuteGranted] = field(default_factory=dict)
    """The governor's last word on each target, by target key."""

    taints: dict[str, TargetTainted] = field(default_factory=dict)
    """By target key."""

    addons: dict[str, AddOns] = field(default_factory=dict)
    """By the key of the managed cluster, whether it is declared or not."""

    view: PolicyView | None = None
    """None where policies do not count."""

    cursor: Cursor | None = None
    looked: bool = False
    """Whether the whole has been looked at since it was restored."""

    waits: dict[str, ReconciledTaints] = field(default_factory=dict)
    """By target key, what has an instant at which time alone will change it; not restored but worked out anew."""

    _heap: list[tuple[datetime, str]] = field(default_factory=list)

    def wait(self, target: str, decided: ReconciledTaints) -> None:
        """Note when a target is to be looked at again, or that it is not."""
        if decided.due is None:
            self.waits.pop(target, None)
            return
        known = self.waits.get(target)
        self.waits[target] = decided
        if known is None or known.due != decided.due:
            heapq.heappush(self._heap, (decided.due, target))
            if len(self._heap) > 2 * len(self.waits) + _SLACK:
                self._heap = [(wait.due, key) for key, wait in self.waits.items() if wait.due is not None]
                heapq.heapify(self._heap)

    def next_due(self) -> tuple[datetime, str] | None:
        """The earliest instant at which a target is to be looked at, and which."""
        while self._heap:
            due, target = self._heap[0]
            wait = self.waits.get(target)
            if wait is not None and wait.due == due:
                return due, target
            heapq.heappop(self._heap)
        return None
