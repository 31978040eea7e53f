"""What the gateway serves: the kinds of the contract, and the read-only views of what the services decide."""

from __future__ import annotations

from dataclasses import dataclass

from moorage_schemas.resources.table import KINDS, ResourceKind

VIEW_GROUP = "moorage.io"
VIEW_VERSION = "v1alpha1"


@dataclass(frozen=True, slots=True)
class ServedKind:
    """One kind at one API version."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool
    declared: ResourceKind | None
    """The kind of the contract; None for what the services decide, which is read-only."""

    @property
    def api_version(self) -> str:
        """`group/version`; the core group has no prefix."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def subresources(self) -> tuple[str, ...]:
        """What can be read and changed below one of its objects."""
        found = ("scale",) if self.kind in SCALED else ()
        return (*found, "status") if self.kind in WITH_STATUS else found

    @property
    def verbs(self) -> list[str]:
        """What can be done with it, as discovery says it."""
        reading = ["get", "list", "watch"]
        return sorted(["create", "delete", "patch", "update", *reading]) if self.declared is not None else reading


def _view(kind: str, plural: str, *short: str, namespaced: bool) -> ServedKind:
    return ServedKind(VIEW_GROUP, VIEW_VERSION, kind, plural, kind.lower(), short, namespaced, None)


BINDING_KIND = "ResourceBinding"
"""Where the resource that a propagation policy has claimed belongs, as Karmada's API shows it."""

PLACED_KIND = "WorkloadPlacement"
"""The decision on one workload with its grounds; `Placement` is what people declare."""

DECISION_KIND = "PlacementDecision"
"""A page of the managed clusters that a placement has selected, as OCM's API shows it."""

VIEWS: tuple[ServedKind, ...] = (
    _view("Binding", "bindings", namespaced=True),
    _view("Budget", "budgets", namespaced=False),
    _view("Condition", "conditions", namespaced=False),
    _view("Eviction", "evictions", namespaced=True),
    _view("Taint", "taints", namespaced=False),
    _view("Timer", "timers", namespaced=False),
    _view(PLACED_KIND, "workloadplacements", "wp", "pl", namespaced=True),
    _view("Zone", "zones", namespaced=False),
    ServedKind(
        "work.karmada.io",
        "v1alpha2",
        BINDING_KIND,
        "resourcebindings",
        "resourcebinding",
        ("rb",),
        namespaced=True,
        declared=None,
    ),
    *(
        ServedKind(
            "cluster.open-cluster-management.io",
            version,
            DECISION_KIND,
            "placementdecisions",
            "placementdecision",
            (),
            namespaced=True,
            declared=None,
        )
        for version in ("v1beta1", "v1alpha1")
    ),
)

SERVED: tuple[ServedKind, ...] = (
    *(
        ServedKind(kind.group, version, kind.kind, kind.plural, kind.singular, kind.short_names, kind.namespaced, kind)
        for kind in KINDS
        for version in kind.versions
    ),
    *VIEWS,
)

SCALED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "MachineSet"})
"""Kinds with the subresource `scale`."""

WITH_STATUS = frozenset({"Node", "Cluster", "ManagedCluster", "AddOnPlacementScore"})
"""Kinds whose `status` is declared, in part, and has a subresource of that name."""

BY_PLURAL: dict[tuple[str, str, str], ServedKind] = {
    (served.group, served.version, served.plural): served for served in SERVED
}
"""By group, version and plural, as paths name them."""
