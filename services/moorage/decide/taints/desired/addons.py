"""The states of a managed cluster's add-ons and their leases, as labels of the cluster (docs/domain.md, "Add-ons").

A ManagedClusterAddOn in the namespace that is named after the cluster enables an add-on. The add-on shows that it is
alive by renewing the Lease of its own name there. While it is enabled, the cluster has a label for it: `available`
until the lease expires, `unhealthy` from that instant on, and `unreachable` without a lease or while the agent of the
cluster itself is silent. Before its first report, there is no label. For an add-on that reports its health itself
(`status.healthCheck.mode: Customized`), the label follows its condition `Available`. So it does for an add-on that is
mirrored from a hub and has that condition there: the agent of the cluster has set it, by the lease that it sees.

Everything here is computed from records. A restored table may lack a record that was compacted away and whose successor
has not been read yet. So a missing record leaves a label unchanged; a removal is stated explicitly in `removed`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.managed_taints import AVAILABLE as CLUSTER_AVAILABLE
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import OF_MANAGED_CLUSTERS, ResourceDeclared, resource_partition_key
from moorage_schemas.times import parse_time

RENEWALS: Final = 5
"""How many times its duration a lease is valid after a renewal, for clusters and for add-ons."""

LEASE_SECONDS: Final = 60
"""The duration of a lease that does not state one."""

DEFAULT_GRACE: Final = timedelta(seconds=RENEWALS * LEASE_SECONDS)

_LONGEST: Final = timedelta(days=36_500)


def lease_grace(seconds: Any) -> timedelta | None:
    """Return how long a lease with this duration in seconds is valid, a hundred years at most.

    None if the field is absent, 0 or not a number of seconds. Then the lease states no duration.
    """
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds <= 0:
        return None
    return timedelta(seconds=min(RENEWALS * seconds, _LONGEST.total_seconds()))


ADD_ON: Final = "ManagedClusterAddOn"
LEASE: Final = "Lease"

LABEL_PREFIX: Final = "feature.open-cluster-management.io/addon-"
"""The prefix of an add-on's label key. The add-on's name follows."""

AVAILABLE: Final = "available"
UNHEALTHY: Final = "unhealthy"
UNREACHABLE: Final = "unreachable"

Named = tuple[str, str]
"""The kind and name of an add-on or a lease."""

_CUSTOMIZED: Final = "Customized"
_BY_STATUS: Final = {"True": AVAILABLE, "False": UNHEALTHY}
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Version:
    """The version of the record behind an entry, so that an older record changes nothing."""

    uid: str
    number: int

    def newer_than(self, known: Version | None) -> bool:
        """Return whether this record supersedes the last one."""
        return known is None or known.uid != self.uid or self.number > known.number


@dataclass(frozen=True, slots=True)
class AddOnState:
    """An enabled add-on."""

    version: Version
    reported: str = ""
    """The state that the add-on reports itself. Empty if its state follows its lease."""

    @classmethod
    def of(cls, declared: ResourceDeclared) -> AddOnState | None:
        """Return the add-on that an object enables. None while the object is being deleted."""
        document = declared.object
        if part(document, "metadata").get("deletionTimestamp"):
            return None
        status = part(document, "status")
        reported = _available(status)
        if part(status, "healthCheck").get("mode") == _CUSTOMIZED:
            reported = reported or UNREACHABLE
        elif declared.mirrored is None:
            reported = ""
        return cls(Version(declared.uid, declared.version), reported)


def _available(status: Mapping[str, Any]) -> str:
    """Return the state by the condition `Available`. Empty if there is none."""
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and condition.get("type") == "Available":
            return _BY_STATUS.get(str(condition.get("status")), UNREACHABLE)
    return ""


@dataclass(frozen=True, slots=True)
class AddOnLease:
    """The lease of an add-on."""

    version: Version
    expires: datetime | None
    """When the lease expires. None if it was never renewed."""

    @classmethod
    def of(cls, declared: ResourceDeclared) -> AddOnLease:
        """Return the lease of an object. If its `renewTime` is not a time, the lease was never renewed."""
        spec = part(declared.object, "spec")
        grace = lease_grace(spec.get("leaseDurationSeconds")) or DEFAULT_GRACE
        try:
            renewed = parse_time(spec.get("renewTime"))
            expires = renewed + grace if isinstance(renewed, datetime) else None
        except ValueError:
            expires = None
        except OverflowError:
            expires = _NEVER
        return cls(Version(declared.uid, declared.version), expires)

    def state(self, now: datetime) -> str:
        """Return the state of the add-on by its lease. At the very instant of expiry, the lease has expired."""
        return AVAILABLE if self.expires is not None and now < self.expires else UNHEALTHY


@dataclass(slots=True)
class AddOns:
    """The records of one cluster's add-ons, whether or not the cluster is declared."""

    enabled: dict[str, AddOnState] = field(default_factory=dict)
    """By name."""

    leases: dict[str, AddOnLease] = field(default_factory=dict)
    """By name. May include leases of names that are not (yet) add-ons."""

    def put(self, kind: str, name: str, declared: ResourceDeclared | None) -> None:
        """Apply the record of an add-on or a lease. None removes it. An older record than the last one is ignored."""
        if kind == LEASE:
            _put(self.leases, name, AddOnLease.of(declared) if declared is not None else None)
        elif declared is None:
            self.enabled.pop(name, None)
        else:
            version = Version(declared.uid, declared.version)
            known = self.enabled.get(name)
            if version.newer_than(known.version if known is not None else None):
                add_on = AddOnState.of(declared)
                if add_on is None:
                    self.enabled.pop(name, None)
                else:
                    self.enabled[name] = add_on

    def __bool__(self) -> bool:
        return bool(self.enabled or self.leases)

    def first_end(self, labels: Mapping[str, str]) -> datetime | None:
        """Return when the first lease behind one of these labels expires. None if no label rests on a lease."""
        ends = [
            lease.expires
            for name, lease in self.leases.items()
            if lease.expires is not None
            and labels.get(LABEL_PREFIX + name) == AVAILABLE
            and (add_on := self.enabled.get(name)) is not None
            and not add_on.reported
        ]
        return min(ends, default=None)


def _put(leases: dict[str, AddOnLease], name: str, lease: AddOnLease | None) -> None:
    known = leases.get(name)
    if lease is None:
        leases.pop(name, None)
    elif lease.version.newer_than(known.version if known is not None else None):
        leases[name] = lease


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels that a cluster has for its add-ons.

    Attributes:
        labels: the labels, sorted by key.
        due: when time alone will change a label, after the present instant. None if only an event can change one.
    """

    labels: dict[str, str]
    due: datetime | None = None


def is_reporting(conditions: Mapping[str, ConditionChanged]) -> bool | None:
    """Return whether the agent of a managed cluster reports, also if only that the cluster is not available.

    None if nothing was ever reported. Source: open-cluster-management.io/ocm/pkg/registration/hub/addon.
    """
    condition = conditions.get(CLUSTER_AVAILABLE)
    return None if condition is None else condition.status is not ConditionStatus.UNKNOWN


def add_on_labels(
    before: Mapping[str, str],
    known: AddOns,
    *,
    reporting: bool | None,
    now: datetime,
    removed: Collection[Named] = (),
) -> Labels:
    """Return the labels of a cluster for its add-ons.

    Args:
        before: the previous labels of this cluster. Empty if the previous labels belong to an earlier cluster.
        known: the cluster's add-ons and leases.
        reporting: whether the cluster's agent reports. None if nothing was ever reported; then existing labels stay
            unchanged, and there are no new ones.
        now: the present time.
        removed: (kind, name) of objects that were just removed, or that changed so that their label must be computed
    again.
    """
    if reporting is None:
        return Labels(dict(sorted(before.items())))
    found = {
        LABEL_PREFIX + name: _state(name, before, known, reporting=reporting, now=now, removed=removed)
        for name in known.enabled
    }
    for key, state in before.items():
        if key not in found and (ADD_ON, key.removeprefix(LABEL_PREFIX)) not in removed:
            found[key] = state
    labels = dict(sorted(found.items()))
    # While the agent of the cluster is silent, the end of a lease has no effect.
    return Labels(labels, known.first_end(labels) if reporting else None)


def _state(
    name: str,
    before: Mapping[str, str],
    known: AddOns,
    *,
    reporting: bool,
    now: datetime,
    removed: Collection[Named],
) -> str:
    was = before.get(LABEL_PREFIX + name, UNREACHABLE)
    if not reporting:
        return UNREACHABLE
    add_on, lease = known.enabled[name], known.leases.get(name)
    if add_on.reported:
        return add_on.reported
    if lease is not None:
        return lease.state(now)
    return UNREACHABLE if (LEASE, name) in removed else was


def of_managed_cluster(key: str) -> tuple[str, str, str] | None:
    """Return target key, kind and name for the key of an add-on or lease. None for any other record."""
    kind, namespace, name, _ = ResourceKey.parse(key)
    if kind not in OF_MANAGED_CLUSTERS:
        return None
    target = f"{TargetKind.MANAGED_CLUSTER.value}/{namespace}"
    return (target, kind, name) if resource_partition_key(key) == target else None
