"""The records of the eviction state: bound targets with their bindings, tasks, reports, and pending work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from moorage.runtime.engine.portions import PendingChecks
from moorage_schemas.budget import EvictionAnswered
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import Acknowledgement, Escalation, EvictionState
from moorage_schemas.leave_request import Requester
from moorage_schemas.taint import Taint, Toleration

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)

Tolerations = tuple[Toleration, ...]


@dataclass(frozen=True, slots=True)
class EvictionRules:
    """The settings that affect evictions."""

    clusters: bool
    """Whether taints evict from clusters."""

    rated: bool
    """Whether the governor limits the evictions from clusters per second."""

    retention: timedelta
    """How long an ended eviction is kept."""


@dataclass(slots=True, frozen=True)
class Traits:
    """The properties of a binding that budgets and deployers need. Bindings with equal traits share one object."""

    labels: Mapping[str, str]
    purge_mode: str
    deployer: str = ""
    """The bridge that must acknowledge evictions, whatever reporters there are; empty if reports name the deployer."""


PLAIN: Final = Traits(MappingProxyType({}), "")
"""The traits of work without labels."""


class DeployerReport(Struct, frozen=True, gc=False):
    """The last binding that a deployer has named in a report about a workload, and its source."""

    uid: str
    generation: int
    source: str


class EvictionReport(Struct, frozen=True, gc=False):
    """A deployer's last report about the eviction of a binding."""

    uid: str
    generation: int
    is_removed: bool
    """Whether the work was removed. Otherwise, the reason states why not."""

    reason: str
    message: str
    time: datetime
    source: str

    def is_about(self, task: Task) -> bool:
        """Return whether it concerns the binding of a task."""
        return (self.uid, self.generation) == (task.uid, task.generation)


class Binding(Struct, frozen=True, gc=False):
    """A workload on a target, without the content of the tables' keys.

    It is part of no reference cycle, so the garbage collector need not visit a million of them.
    """

    uid: str
    owner: str
    """The key of the workload's ownerReference; empty when the workload is its own."""

    generation: int
    revision: int
    tolerations: Tolerations
    """Bindings with equal tolerations share one object."""

    traits: Traits
    deployer: str = ""
    """The deployer that acknowledges evictions; empty if there is none.

    It is the bridge that mirrors the workload, or the deployer whose last report names this binding.
    """

    kept_time: datetime | None = None
    """When the last eviction was requested that placement has not carried out (`WorkloadBound.kept_time`)."""


@dataclass(slots=True)  # not frozen, because creating a frozen one takes twice as long; nothing modifies it
class Task:
    """An eviction that has not ended."""

    uid: str
    owner: str
    generation: int
    revision: int
    state: EvictionState
    deadline: datetime | None
    """When it comes due or, for a held eviction, when it came due."""

    taints: tuple[Taint, ...]
    requesters: tuple[Requester, ...] = ()
    held_by: tuple[str, ...] = ()
    """The guards that hold it according to the governor; empty before the first answer."""

    asked: int = 0
    """The revision of its eviction request; 0 when there is none."""

    decided: datetime = _LONG_AGO
    """The time of its last record."""

    reason: str = ""
    message: str = ""
    """The reason for requesting the eviction; empty before it is requested."""

    deployer: str = ""
    """The deployer that must acknowledge a requested eviction; empty for none."""

    escalated: Escalation | None = None
    acknowledged: Acknowledgement | None = None
    requested: datetime | None = None
    """When it was requested."""


@dataclass(slots=True, frozen=True)
class Pending:
    """An eviction that has come due and has not been decided on."""

    cause: Meta
    time: datetime
    """The time of the cause."""

    reported: datetime | None = None
    answer: EvictionAnswered | None = None
    """The governor's answer that grants the eviction."""

    waited: datetime | None = None
    """The time since which it has waited for services before this one."""

    kept: datetime | None = None
    """The time since which it has waited for them with a grant."""

    named: str = ""
    """The service for which it is held according to its record, if that was written since the restore."""


@dataclass(slots=True)
class PendingCheck:
    """A check of a target's workloads. A target may have too many for one call."""

    target: str
    cause: Meta | None = None
    """The record of the target's taints that is the reason; None when the state is checked against itself."""

    time: datetime | None = None
    """The time of the cause."""

    reported: datetime | None = None
    grace: timedelta = timedelta(0)
    """How long after a deadline, without a cause, its timer is still waited for."""

    workloads: PendingChecks = field(default_factory=PendingChecks)
    """The workloads that are left to check."""


@dataclass(slots=True, frozen=True)
class OpenRequest:
    """The part of an eviction request that may change later."""

    time: datetime
    labels: Mapping[str, str]
    zone: str
    reason: str


@dataclass(slots=True)
class BoundTarget:
    """A target, its taints that evict, and its bindings."""

    uid: str = ""
    generation: int = 0
    """The generation of its taints; 0 when it has none."""

    taints: tuple[Taint, ...] = ()
    settles_at: datetime | None = None
    """When its taints will change by time alone."""

    is_out_of_service: bool = False
    """Whether it is a node that is not ready and was declared out of service: nothing runs there."""

    zone: str = ""
    bindings: dict[str, Binding] = field(default_factory=dict)
    """The bindings, by workload key."""

    tasks: dict[str, Task] = field(default_factory=dict)
    """The tasks, by workload key."""

    early: dict[str, DeployerReport] = field(default_factory=dict)
    """By workload key, reports that name a binding which is not the present one. The two topics have no order."""

    reports: dict[str, EvictionReport] = field(default_factory=dict)
    """By workload key, what deployers have last reported of evictions."""

    @property
    def empty(self) -> bool:
        """Whether the target has no state."""
        return not (self.generation or self.bindings or self.tasks or self.early or self.reports)

    def is_undecided(self, now: datetime) -> bool:
        """Return whether the taint-manager still has to apply a change of the taints that has come due."""
        return self.settles_at is not None and self.settles_at <= now
