"""Signals that an add-on is enabled or alive, and whether a signal changes a label.

Each add-on renews its lease about once a minute, and this rarely changes anything. So a renewal is folded in and only
compared with the label: the cluster's taints are not computed, and the time of the cluster's next check is not moved.
At that time, the check is postponed if leases have been renewed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from moorage.decide.taints.desired.addons import (
    ADD_ON,
    AVAILABLE,
    LABEL_PREFIX,
    LEASE,
    AddOns,
    AddOnState,
    Named,
    is_reporting,
    of_managed_cluster,
)
from moorage.runtime.service import Input
from moorage.workers.taint_manager.state import TaintManagerPartition
from moorage_schemas.base import Model
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import RESOURCES


def fold(state: TaintManagerPartition, key: str, event: Model | None) -> None:
    """Fold in an add-on or a lease. Any other record changes nothing."""
    found = of_managed_cluster(key)
    if found is None:
        return
    target, kind, name = found
    known = state.addons.get(target)
    if known is None:
        if event is None:
            return
        known = state.addons[target] = AddOns()
    known.put(kind, name, event if isinstance(event, ResourceDeclared) else None)
    if not known:
        del state.addons[target]


@dataclass(frozen=True, slots=True)
class AddOnSignal:
    """One record of an add-on or a lease that is about to be folded in."""

    target: str
    kind: str
    name: str
    taken_away: bool
    before: AddOnState | None
    """The add-on before the record."""

    @classmethod
    def of(cls, state: TaintManagerPartition, record: Input) -> AddOnSignal | None:
        """Return the signal of a record; None when the record is no signal."""
        found = of_managed_cluster(record.key) if record.topic is RESOURCES else None
        if found is None:
            return None
        target, kind, name = found
        known = state.addons.get(target)
        return cls(target, kind, name, record.event is None, known.enabled.get(name) if known is not None else None)

    def removed(self, state: TaintManagerPartition) -> tuple[Named, ...]:
        """Return the add-ons and leases that the signal has removed, after it was folded in."""
        if self.kind == LEASE:
            return ((LEASE, self.name),) if self.taken_away else ()
        after = _add_on(state, self.target, self.name)
        if after is None:
            return ((self.kind, self.name),)
        before = self.before
        # It was created again, or reports its health in another way, so the old label does not count.
        anew = before is not None and (before.version.uid, not before.reported) != (
            after.version.uid,
            not after.reported,
        )
        return ((LEASE, self.name),) if anew else ()


def changes_nothing(state: TaintManagerPartition, signal: AddOnSignal, now: datetime) -> bool:
    """Return whether a folded-in signal changes neither a label nor the time of the cluster's next check."""
    resource, tainted = state.resources.get(signal.target), state.taints.get(signal.target)
    if resource is None:
        return True
    if signal.kind != LEASE or signal.taken_away or tainted is None or tainted.target_uid != resource.uid:
        return False
    known = state.addons[signal.target]
    add_on, lease = known.enabled.get(signal.name), known.leases[signal.name]
    if add_on is None or add_on.reported or not is_reporting(state.conditions.get(signal.target, {})):
        return True
    if tainted.labels.get(LABEL_PREFIX + signal.name) != lease.state(now):
        return False
    wait = state.waits.get(signal.target)
    early = wait is not None and wait.due is not None and lease.expires is not None and wait.due <= lease.expires
    return early or lease.state(now) != AVAILABLE


def missing(state: TaintManagerPartition, target: str) -> list[Named]:
    """Return the add-ons and leases that the labels of a cluster need and that do not exist."""
    tainted, known = state.taints.get(target), state.addons.get(target, AddOns())
    labelled = [key.removeprefix(LABEL_PREFIX) for key in tainted.labels] if tainted is not None else []
    found = [(ADD_ON, name) for name in labelled if name not in known.enabled]
    return found + [(LEASE, name) for name in known.enabled if name not in known.leases]


def _add_on(state: TaintManagerPartition, target: str, name: str) -> AddOnState | None:
    known = state.addons.get(target)
    return None if known is None else known.enabled.get(name)
