"""`ManagedCluster` (cluster.open-cluster-management.io/v1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.families.ocm import available, decided, group_text, placement_of, sets
from moorage.kinds.families.targets import Target, offered, tainted
from moorage.kinds.printing.columns import (
    AGE,
    LABELS,
    NONE,
    Column,
    Object,
    condition,
    condition_field,
    label,
    of,
    taints,
)
from moorage.kinds.printing.sections import Pair, Related, Rows, Section, conditions
from moorage_schemas.resources.names import GLOBAL_SET, SET_LABEL

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.managed import ManagedCluster


def _accepted(found: Object) -> str:
    return str(bool(at(found, "spec", "hubAcceptsClient"))).lower()


def _urls(found: Object) -> str:
    configs = at(found, "spec", "managedClusterClientConfigs") or []
    return ",".join(str(one.get("url")) for one in configs if one.get("url")) or NONE


class ManagedClusterKind(Target["ManagedCluster"]):
    """A cluster that OCM's placements choose."""

    group = "cluster.open-cluster-management.io"
    kind = "ManagedCluster"
    plural = "managedclusters"
    singular = "managedcluster"
    short_names = ("mcl", "mcls")
    namespaced = False
    order = 200
    apply_order = 140
    columns = (
        Column("HUB ACCEPTED", of(_accepted)),
        Column("MANAGED CLUSTER URLS", of(_urls)),
        Column("JOINED", condition("ManagedClusterJoined")),
        Column("AVAILABLE", of(available)),
        AGE,
        Column("CLUSTER SET", label(SET_LABEL), wide=True),
        Column("TAINTS", taints(None), wide=True),
        LABELS,
    )

    @property
    def model(self) -> type[ManagedCluster]:
        """See `Kind`."""
        from moorage_schemas.resources.managed import ManagedCluster

        return ManagedCluster

    def validate(self, resource: ManagedCluster, gates: FeatureGates) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.ocm import validate_managed_cluster

        return validate_managed_cluster(resource)

    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        """See `Kind`."""
        from moorage.core.admission.ocm_defaults import admit_managed_cluster

        return admit_managed_cluster(document)

    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        """See `Kind`."""
        name = str(at(found, "metadata", "name"))
        yield Pair("Hub accepts", _accepted(found))
        known, labels = sets(related), at(found, "metadata", "labels") or {}
        yield Pair("Cluster sets", ",".join(sorted(known.of(labels) - {GLOBAL_SET})))
        if missing := known.missing(labels):
            yield Pair("Missing set", f"{missing}: no exclusive set of this name exists, so the cluster is in none")
        yield from tainted(found, related, now)
        yield conditions(found)
        claims = [[str(one.get("name")), str(one.get("value"))] for one in at(found, "status", "clusterClaims") or []]
        yield Rows("Claims", ["NAME", "VALUE"], claims)
        yield from offered(found)
        add_ons = [
            [
                str(at(one, "metadata", "name")),
                condition_field(one, "Available"),
                condition_field(one, "Available", "reason"),
            ]
            for one in related.list("ManagedClusterAddOn", name)
        ]
        yield Rows(f"Add-ons ({len(add_ons)})", ["NAME", "AVAILABLE", "REASON"], add_ons)
        rows = [
            [str(at(one, "metadata", "namespace")), placement_of(one), group_text(one)]
            for one in related.list("PlacementDecision")
            if name in decided(one)
        ]
        yield Rows(f"Selected by ({len(rows)})", ["NAMESPACE", "PLACEMENT", "GROUP"], rows)


KIND = ManagedClusterKind()
