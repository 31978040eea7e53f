"""`Cluster` (cluster.karmada.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.families.targets import UNREPORTED, Target, leaving, tainted, unreported
from moorage.apiserver.kinds.printing.columns import (
    AGE,
    LABELS,
    NONE,
    Object,
    TableColumn,
    condition_status,
    of,
    taints,
    text,
)
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section, conditions
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.resources.workload_kinds import BINDING_KINDS

if TYPE_CHECKING:
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.cluster import Cluster
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.meta import ObjectMeta


def _ready(found: Object) -> str:
    """The status of `Ready` if it was reported, as `kubectl get clusters` shows it for Karmada."""
    return condition_status(found, "Ready") or UNREPORTED


def _zones(found: Object) -> str:
    return ",".join(at(found, "spec", "zones") or []) or str(at(found, "spec", "zone") or NONE)


class ClusterKind(Target["Cluster"]):
    """A member cluster of Karmada: a target that carries whole workloads."""

    group = "cluster.karmada.io"
    versions = ("v1alpha1",)
    kind = "Cluster"
    plural = "clusters"
    model_module = "cluster"
    namespaced = False
    order = 140
    container_subresources = ("proxy",)
    apply_order = 70
    columns = (
        TableColumn("MODE", text("spec", "syncMode", default="Push")),
        TableColumn("READY", of(_ready)),
        TableColumn("TAINTS", taints(2)),
        AGE,
        TableColumn("PROVIDER", text("spec", "provider"), wide=True),
        TableColumn("REGION", text("spec", "region"), wide=True),
        TableColumn("ZONE", of(_zones), wide=True),
        TableColumn("ALL-TAINTS", taints(None), wide=True),
        LABELS,
    )
    api_columns = (
        TableColumn("Version", text("status", "kubernetesVersion", default="")),
        TableColumn("Mode", text("spec", "syncMode", default="Push")),
        TableColumn("Ready", of(lambda found: condition_status(found, "Ready") or "Unknown")),
        AGE,
        TableColumn("Zones", of(_zones), wide=True),
        TableColumn("Region", text("spec", "region"), wide=True),
        TableColumn("Provider", text("spec", "provider"), wide=True),
        TableColumn("API-Endpoint", text("spec", "apiEndpoint", default=""), wide=True),
        TableColumn("Proxy-URL", text("spec", "proxyURL"), wide=True),
    )

    def validate_metadata(self, metadata: ObjectMeta) -> list[FieldError]:
        """See `Kind`. The rule for the name of a cluster is another, so `validate` checks it."""
        return [error for error in super().validate_metadata(metadata) if error.path != "metadata.name"]

    @override
    def validate(self, resource: Cluster, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.karmada import validate_cluster

        return validate_cluster(resource)

    @override
    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        from moorage.apiserver.rules.field_defaults import with_admitted_defaults

        return with_admitted_defaults(document)

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        from moorage.apiserver.rules.feature_gates import ineffective_evictions

        return ineffective_evictions(document.get("spec") or {}, gates)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        from moorage.apiserver.kinds.families.bindings import eviction_tasks, parts

        name = at(found, "metadata", "name")
        yield Pair("Sync mode", at(found, "spec", "syncMode") or "Push")
        yield Pair("Provider", at(found, "spec", "provider"))
        yield Pair("Region", at(found, "spec", "region"))
        yield Pair("Zones", ",".join(at(found, "spec", "zones") or []) or at(found, "spec", "zone"))
        yield Pair("Ready", _ready(found) + unreported(found))
        yield from tainted(found, related, now)
        yield conditions(found)
        rows = [
            [
                str(at(one, "metadata", "namespace") or ""),
                str(at(one, "metadata", "name")),
                str(part.get("replicas") or ""),
                "leaving" if any(name == task.get("fromCluster") for task in eviction_tasks(one)) else "",
            ]
            for kind in BINDING_KINDS
            for one in related.list(kind)
            for part in parts(one)
            if part.get("name") == name
        ]
        yield Rows(f"Resources ({len(rows)})", ["NAMESPACE", "NAME", "REPLICAS", "STATE"], rows)
        yield leaving(found, related, now)


KIND = ClusterKind()
