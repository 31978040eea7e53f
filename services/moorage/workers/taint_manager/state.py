"""What the taint-manager knows of one partition."""

from __future__ import annotations

from dataclasses import dataclass, field

from moorage.core.taints.desired.addons import AddOns
from moorage.core.taints.desired.reconcile import ReconciledTaints
from moorage.core.timers.deadline_index import DeadlineIndex
from moorage.workers.taint_manager.policies import Cursor, PolicyView
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.zone import NoExecuteGranted


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

    deadlines: DeadlineIndex[str] = field(default_factory=DeadlineIndex)
    """The instants of `waits`."""

    def wait(self, target: str, decided: ReconciledTaints) -> None:
        """Note when a target is to be looked at again, or that it is not."""
        if decided.due is None:
            self.wait_no_more(target)
        else:
            self.waits[target] = decided
            self.deadlines.set(target, decided.due)

    def wait_no_more(self, target: str) -> None:
        """Forget that time alone will change a target."""
        self.waits.pop(target, None)
        self.deadlines.remove(target)
