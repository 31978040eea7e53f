"""The state of the taint-manager for one partition."""

from __future__ import annotations

from dataclasses import dataclass, field

from moorage.decide.taints.desired.addons import AddOns
from moorage.decide.taints.desired.taint_reconciliation import ReconciledTaints, TaintRules
from moorage.decide.timers.deadline_index import DeadlineIndex
from moorage.runtime.engine.portions import PendingChecks
from moorage.runtime.measures import SeriesTally
from moorage.runtime.settings.moorage_configuration import Derived
from moorage.workers.taint_manager.policies import Cursor, PolicyChange, PolicyView
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.envelope import Meta
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted
from moorage_schemas.zone import NoExecuteGranted


@dataclass(slots=True)
class TaintManagerPartition:
    """The state of one partition."""

    rules: Derived[TaintRules]
    """The rules of the present configuration."""

    resources: dict[str, ResourceDeclared] = field(default_factory=dict)
    """The declared targets, by target key."""

    conditions: dict[str, dict[str, ConditionChanged]] = field(default_factory=dict)
    """The conditions, by target key and type."""

    grants: dict[str, NoExecuteGranted] = field(default_factory=dict)
    """The governor's latest record about each target, by target key."""

    taints: dict[str, TargetTainted] = field(default_factory=dict)
    """The taints, by target key."""

    addons: dict[str, AddOns] = field(default_factory=dict)
    """The add-ons, by the key of the managed cluster, which may be undeclared."""

    view: PolicyView | None = None
    """The view of policies; None before the partition is restored."""

    cursor: Cursor | None = None
    rules_in_use: TaintRules | None = None
    """The rules by which everything was last checked; None before the first check."""

    why: Meta | None = None
    """The change of the configuration because of which everything is checked; None for a restart."""

    evaluates: bool = True
    """Whether policies are evaluated in that check."""
    change: PolicyChange | None = None
    """The change of a policy that is being applied."""

    changing: PendingChecks = field(default_factory=PendingChecks)
    """The targets to which it is still to be applied."""

    checked: bool = False
    """Whether the check of everything has begun since the restore."""

    unseen: PendingChecks = field(default_factory=PendingChecks)
    """The targets that this check has still to reach."""

    round: PendingChecks = field(default_factory=PendingChecks)
    """The targets that the reconciler's present round has still to reach."""

    waits: dict[str, ReconciledTaints] = field(default_factory=dict)
    """The changes that time alone will make, by target key. They are computed again after a restore."""

    deadlines: DeadlineIndex[str] = field(default_factory=DeadlineIndex)
    """The times of `waits`."""

    maintained: set[str] = field(default_factory=set)
    """The targets that a maintenance keeps out of service, as far as it is decided."""

    maintained_version: int = -1
    """The version of the view's maintained targets that was applied. -1 before the first time."""

    maintaining: PendingChecks = field(default_factory=PendingChecks)
    """The targets to which it is still to be applied."""

    tally: SeriesTally[str] = field(default_factory=SeriesTally)
    """The targets that have changed since they were last counted, and the counts."""

    def wait(self, target: str, decided: ReconciledTaints) -> None:
        """Note when a target must be checked again, if at all."""
        if decided.due is None:
            self.wait_no_more(target)
        else:
            self.waits[target] = decided
            self.deadlines.set(target, decided.due)

    def wait_no_more(self, target: str) -> None:
        """Note that time alone will not change a target."""
        self.waits.pop(target, None)
        self.deadlines.remove(target)
