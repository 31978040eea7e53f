"""The states of a managed cluster's add-ons, as labels of the cluster (docs/domain.md, "Add-ons").

An add-on is enabled by a ManagedClusterAddOn in the namespace that is named after the cluster, and shows that it lives
by renewing the Lease of its own name there. While it is enabled the cluster has a label for it: `available` until the
lease's grace is over, `unhealthy` from that instant on, `unreachable` without a lease, or while the cluster itself is
not available. An add-on that says that it looks after its health itself (`status.healthCheck.mode: Customized`) is
taken at the word of its condition `Available`.

Everything here is worked out from records alone. A restored table may lack a record that was compacted away, whose
successor is yet to be read. So what is not there leaves a label as it was; that it was taken away is said in `gone`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from moorage.core.apimachinery.unstructured import part
from moorage.core.taints.desired.leases import DEFAULT_GRACE, lease_grace
from moorage.core.taints.desired.ocm import AVAILABLE as CLUSTER_AVAILABLE
from moorage_schemas.condition import ConditionChanged, ConditionStatus
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import OF_MANAGED_CLUSTERS, ResourceDeclared
from moorage_schemas.times import parse_time

ADD_ON: Final = "ManagedClusterAddOn"
LEASE: Final = "Lease"

LABEL_PREFIX: Final = "feature.open-cluster-management.io/addon-"
"""What the key of an add-on's label begins with; the add-on's name follows."""

AVAILABLE: Final = "available"
UNHEALTHY: Final = "unhealthy"
UNREACHABLE: Final = "unreachable"

Named = tuple[str, str]
"""Kind and name of an add-on or a lease."""

_CUSTOMIZED: Final = "Customized"
_BY_STATUS: Final = {"True": AVAILABLE, "False": UNHEALTHY}
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Version:
    """Which record an entry is from, so that an older one changes nothing."""

    uid: str
    number: int

    def newer_than(self, known: Version | None) -> bool:
        """Whether this record supersedes the one that is known."""
        return known is None or known.uid != self.uid or self.number > known.number


@dataclass(frozen=True, slots=True)
class AddOnState:
    """An enabled add-on."""

    version: Version
    said: str = ""
    """Its state by its own word; empty when it goes by its lease."""

    @classmethod
    def of(cls, declared: ResourceDeclared) -> AddOnState | None:
        """The add-on that an object enables; None while it is being deleted."""
        document = declared.object
        if part(document, "metadata").get("deletionTimestamp"):
            return None
        status = part(document, "status")
        said = _own_word(status) if part(status, "healthCheck").get("mode") == _CUSTOMIZED else ""
        return cls(Version(declared.uid, declared.version), said)


def _own_word(status: Mapping[str, Any]) -> str:
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and condition.get("type") == "Available":
            return _BY_STATUS.get(str(condition.get("status")), UNREACHABLE)
    return UNREACHABLE


@dataclass(frozen=True, slots=True)
class AddOnLease:
    """A sign of life."""

    version: Version
    expires: datetime | None
    """From when on it is too old; None when it was never renewed."""

    @classmethod
    def of(cls, declared: ResourceDeclared) -> AddOnLease:
        """The lease that an object is; one whose `renewTime` is no time was never renewed."""
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
        """What it says at an instant; at the one at which it expires it has expired."""
        return AVAILABLE if self.expires is not None and now < self.expires else UNHEALTHY


@dataclass(slots=True)
class AddOns:
    """What is known of one cluster's add-ons, whether the cluster is declared or not."""

    enabled: dict[str, AddOnState] = field(default_factory=dict)
    """By name."""

    leases: dict[str, AddOnLease] = field(default_factory=dict)
    """By name; also of what is no add-on (yet)."""

    def put(self, kind: str, name: str, declared: ResourceDeclared | None) -> None:
        """Fold an add-on or a lease in; None takes it away. One that is older than what is known changes nothing."""
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
        """When the first lease ends on which one of these labels rests; None when none does."""
        ends = [
            lease.expires
            for name, lease in self.leases.items()
            if lease.expires is not None
            and labels.get(LABEL_PREFIX + name) == AVAILABLE
            and (add_on := self.enabled.get(name)) is not None
            and not add_on.said
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
        labels: sorted by key.
        due: when time alone will change one, later than the instant; None when only an event can.
    """

    labels: dict[str, str]
    due: datetime | None = None


def is_available(conditions: Mapping[str, ConditionChanged]) -> bool | None:
    """Whether a managed cluster is available by its conditions; None when that is not known."""
    condition = conditions.get(CLUSTER_AVAILABLE)
    return None if condition is None else condition.status is ConditionStatus.TRUE


def add_on_labels(
    before: Mapping[str, str],
    known: AddOns,
    *,
    available: bool | None,
    now: datetime,
    gone: Collection[Named] = (),
) -> Labels:
    """The labels of a cluster for its add-ons.

    Args:
        before: its labels as they were; empty when it is another cluster than the one that had them.
        known: its add-ons and leases.
        available: whether the cluster is; None when that is not known, which leaves labels as they were.
        now: the instant.
        gone: (kind, name) of what has just been taken away, or changed so that its label must be found anew.
    """
    found: dict[str, str] = {}
    for name in known.enabled:
        found[LABEL_PREFIX + name] = _state(name, before, known, available=available, now=now, gone=gone)
    for key, state in before.items():
        if key not in found and (ADD_ON, key.removeprefix(LABEL_PREFIX)) not in gone:
            found[key] = state
    labels = dict(sorted(found.items()))
    # Where availability is not known, a lease that has ended changes nothing until it is.
    return Labels(labels, known.first_end(labels) if available else None)


def _state(
    name: str,
    before: Mapping[str, str],
    known: AddOns,
    *,
    available: bool | None,
    now: datetime,
    gone: Collection[Named],
) -> str:
    was = before.get(LABEL_PREFIX + name, UNREACHABLE)
    if available is None:
        return was
    if not available:
        return UNREACHABLE
    add_on, lease = known.enabled[name], known.leases.get(name)
    if add_on.said:
        return add_on.said
    if lease is not None:
        return lease.state(now)
    return UNREACHABLE if (LEASE, name) in gone else was


def of_managed_cluster(key: str) -> tuple[str, str, str] | None:
    """The target's key, the kind and the name of an add-on or lease by its record key; None for any other record."""
    kind, namespace, name, _ = ResourceKey.parse(key)
    if kind not in OF_MANAGED_CLUSTERS:
        return None
    return f"{TargetKind.MANAGED_CLUSTER.value}/{namespace}", kind, name
