"""Karmada's member clusters, policies and bindings (karmada.io)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds import kind as kinds
from moorage.apiserver.kinds.kind import Kind, ResourceT, View
from moorage.apiserver.kinds.node import Target, leaving, tainted, with_note
from moorage.apiserver.kinds.printing.columns import (
    AGE,
    CUSTOM_AGE,
    LABELS,
    NONE,
    Object,
    TableColumn,
    of,
    since,
    taints,
    text,
)
from moorage.apiserver.kinds.printing.kubernetes import of_condition
from moorage.apiserver.kinds.printing.sections import (
    OPEN,
    Pair,
    Related,
    Rows,
    Section,
    conditions,
    evictions,
    plain_conditions,
    time_and_age,
)
from moorage.decide.kubernetes.object_texts import UNREPORTED, condition_status, unreported
from moorage.decide.kubernetes.unstructured import at, name_of
from moorage_schemas.resources.names import DEFAULT_NAMESPACE
from moorage_schemas.resources.workload_kinds import BINDING_KINDS

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.dedicated import DedicatedNodes
    from moorage_schemas.resources.meta import ObjectMeta
    from moorage_schemas.resources.policies import ClusterTaintPolicy


KARMADA: Final = "karmada-io"
"""Karmada's category: `kubectl get karmada-io`."""


def clusters_text(affinity: Any) -> str:
    """Return the clusters that a ClusterAffinity selects, as a short text."""
    if not isinstance(affinity, Mapping) or not any(affinity.values()):
        return "<all>"
    parts = [",".join(affinity.get("clusterNames") or [])]
    parts += [f"!{name}" for name in affinity.get("exclude") or []]
    parts += [
        word for field, word in (("labelSelector", "<labels>"), ("fieldSelector", "<fields>")) if affinity.get(field)
    ]
    return ",".join(filter(None, parts))


def _selected(found: Object) -> str:
    """Return the resources that a policy selects: `Deployment/web,ConfigMap/*`."""
    chosen = at(found, "spec", "resourceSelectors") or []
    return ",".join(f"{one.get('kind')}/{one.get('name') or '*'}" for one in chosen) or NONE


def _clusters(found: Object) -> str:
    placement = at(found, "spec", "placement") or {}
    groups = placement.get("clusterAffinities")
    if groups:
        return ";".join(clusters_text({k: v for k, v in one.items() if k != "affinityName"}) for one in groups)
    return clusters_text(placement.get("clusterAffinity"))


class Propagation(Kind[ResourceT]):
    """A policy that places resources on clusters."""

    in_own_all: ClassVar[bool] = True
    group: ClassVar[str] = "policy.karmada.io"
    versions: ClassVar[tuple[str, ...]] = ("v1alpha1",)
    categories: ClassVar[tuple[str, ...]] = (KARMADA,)
    columns: ClassVar[tuple[TableColumn, ...]] = (
        TableColumn("RESOURCES", of(_selected)),
        TableColumn("CLUSTERS", of(_clusters)),
        TableColumn("PRIORITY", text("spec", "priority", default="0")),
        AGE,
    )
    api_columns: ClassVar[tuple[TableColumn, ...]] = (
        TableColumn("", text("spec", "conflictResolution", default="Abort"), spelled="CONFLICT-RESOLUTION"),
        TableColumn("", text("spec", "priority", default="0"), spelled="PRIORITY"),
        CUSTOM_AGE._replace(spelled="AGE"),
    )

    @override
    def validate(self, resource: ResourceT, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.karmada import validate_propagation

        served = {kind.kind: kind.api_versions for kind in kinds.declared()}
        spec = getattr(resource, "spec")  # noqa: B009 - both of them have one
        return validate_propagation(spec, resource.metadata.annotations or {}, served)

    @override
    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        from moorage.apiserver.rules.field_defaults import with_admitted_defaults

        return with_admitted_defaults(document)

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        from moorage.apiserver.rules.feature_gates import CONFIGURATION, FAILOVER_SWITCH

        failover = (document.get("spec") or {}).get("failover") or {}
        if failover.get("cluster") and not gates.failover:
            yield f"spec.failover.cluster has no effect until {FAILOVER_SWITCH} of {CONFIGURATION} is true"


def eviction_tasks(binding: Object) -> list[dict[str, Any]]:
    """Return the graceful eviction tasks of a binding: its parts that are leaving their clusters."""
    tasks: list[dict[str, Any]] = at(binding, "spec", "gracefulEvictionTasks") or []
    return tasks


def parts(binding: Object) -> list[dict[str, Any]]:
    """Return the clusters of a binding, and those that it is leaving."""
    there: list[dict[str, Any]] = at(binding, "spec", "clusters") or []
    names = {one.get("name") for one in there}
    left = [{"name": one.get("fromCluster"), "replicas": one.get("replicas")} for one in eviction_tasks(binding)]
    return [*there, *(one for one in left if one["name"] not in names)]


def _scheduled(found: Object) -> str:
    """Return the status of the condition `Scheduled`."""
    conditions = at(found, "status", "conditions") or []
    return next((str(one.get("status")) for one in conditions if one.get("type") == "Scheduled"), "Unknown")


def _bound_clusters(found: Object) -> str:
    return ",".join(_cluster(one) for one in at(found, "spec", "clusters") or []) or NONE


def _cluster(one: Object) -> str:
    """Return a cluster with its share of the replicas: `member1:2`."""
    return f"{one.get('name')}:{one['replicas']}" if one.get("replicas") else str(one.get("name"))


def _leaving(found: Object) -> str:
    return ",".join(str(one.get("fromCluster")) for one in eviction_tasks(found)) or NONE


class PlacementOnClusters(View):
    """The placement of something that a propagation policy has claimed, as Karmada's API shows it.

    One of a real control plane is mirrored and shown unchanged.
    """

    group: ClassVar[str] = "work.karmada.io"
    versions: ClassVar[tuple[str, ...]] = ("v1alpha2",)
    mirrorable: ClassVar[bool] = True
    columns: ClassVar[tuple[TableColumn, ...]] = (
        TableColumn("SCHEDULED", of(_scheduled)),
        TableColumn("CLUSTERS", of(_bound_clusters)),
        TableColumn("LEAVING", of(_leaving)),
        TableColumn("REPLICAS", text("spec", "replicas"), wide=True),
        TableColumn("SINCE", since("status", "lastScheduledTime"), wide=True),
    )
    categories: ClassVar[tuple[str, ...]] = (KARMADA,)
    api_columns: ClassVar[tuple[TableColumn, ...]] = (
        of_condition("", "Scheduled")._replace(spelled="SCHEDULED"),
        of_condition("", "FullyApplied")._replace(spelled="FULLYAPPLIED"),
        CUSTOM_AGE._replace(spelled="AGE"),
    )

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        resource = at(found, "spec", "resource") or {}
        yield Pair("Resource", f"{str(resource.get('kind')).lower()}/{resource.get('name')}")
        yield Pair("Replicas", at(found, "spec", "replicas"))
        yield Pair("Clusters", ",".join(_cluster(one) for one in at(found, "spec", "clusters") or []))
        yield plain_conditions(found)
        health = [
            [str(one.get("clusterName")), str(one.get("health") or "Unknown")]
            for one in at(found, "status", "aggregatedStatus") or []
        ]
        yield Rows("Health", ["CLUSTER", "HEALTH"], health)
        leaving = [
            [
                str(one.get("fromCluster")),
                str(one.get("purgeMode") or ""),
                time_and_age(one.get("creationTimestamp"), now),
                f"{one['gracePeriodSeconds']}s" if one.get("gracePeriodSeconds") is not None else "",
                str(one.get("message") or one.get("reason") or ""),
            ]
            for one in eviction_tasks(found)
        ]
        yield Rows("Leaving", ["CLUSTER", "PURGE MODE", "SINCE", "GRACE PERIOD", "REASON"], leaving)
        under_way = [
            one
            for one in related.list("Eviction", at(found, "metadata", "namespace") or DEFAULT_NAMESPACE)
            if at(one, "status", "workload", "kind") == self.kind
            and at(one, "status", "workload", "name") == at(found, "metadata", "name")
            and one["status"]["state"] in OPEN
        ]
        yield evictions(under_way, now)


def _ready(found: Object) -> str:
    """Return the status of `Ready` if it was reported, as `kubectl get clusters` shows it for Karmada."""
    return condition_status(found, "Ready") or UNREPORTED


def _zones(found: Object) -> str:
    return ",".join(at(found, "spec", "zones") or []) or str(at(found, "spec", "zone") or NONE)


class ClusterKind(Target[Any]):
    """A member cluster of Karmada: a target that carries whole workloads."""

    group = "cluster.karmada.io"
    versions = ("v1alpha1",)
    kind = "Cluster"
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

    @override
    def validate_metadata(self, metadata: ObjectMeta) -> list[FieldError]:
        # The rule for the name of a cluster is another, so `validate` checks it.
        return [error for error in super().validate_metadata(metadata) if error.path != "metadata.name"]

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
        name = at(found, "metadata", "name")
        yield Pair("Sync mode", at(found, "spec", "syncMode") or "Push")
        yield Pair("Provider", at(found, "spec", "provider"))
        yield Pair("Region", at(found, "spec", "region"))
        yield Pair("Zones", ",".join(at(found, "spec", "zones") or []) or at(found, "spec", "zone"))
        yield Pair("Ready", with_note(_ready(found), unreported(found)))
        yield from tainted(found, related, now)
        yield conditions(found)
        rows = [
            [
                str(at(one, "metadata", "namespace") or ""),
                name_of(one),
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


class ClusterTaintPolicyKind(Kind["ClusterTaintPolicy"]):
    """A policy that adds and removes taints by the conditions of clusters."""

    group = "policy.karmada.io"
    versions = ("v1alpha1",)
    kind = "ClusterTaintPolicy"
    in_own_all = True
    model_module = "policies"
    mirrorable = True
    cli_names = ("ctp",)
    namespaced = False
    order = 150
    apply_order = 60
    columns = (
        TableColumn("CLUSTERS", of(lambda found: clusters_text(at(found, "spec", "targetClusters")))),
        TableColumn("TAINTS", taints(None)),
        AGE,
    )
    api_columns = (CUSTOM_AGE,)

    @override
    def validate(self, resource: ClusterTaintPolicy, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.karmada import validate_cluster_taint_policy

        return validate_cluster_taint_policy(resource, allow_no_execute=gates.allow_no_execute_taint_policy)

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        from moorage.apiserver.rules.feature_gates import CONFIGURATION, FAILOVER_SWITCH, ineffective_evictions

        if not gates.failover:
            return (f"the policy has no effect until {FAILOVER_SWITCH} of {CONFIGURATION} is true",)
        return ineffective_evictions(document.get("spec") or {}, gates)


class PropagationPolicyKind(Propagation[Any]):
    """A policy that places resources of its namespace on clusters."""

    kind = "PropagationPolicy"
    model_module = "policies"
    mirrorable = True
    short_names = ("pp",)
    namespaced = True
    order = 160
    apply_order = 100


class ClusterPropagationPolicyKind(Propagation[Any]):
    """A policy that places resources of any namespace on clusters."""

    kind = "ClusterPropagationPolicy"
    model_module = "policies"
    mirrorable = True
    short_names = ("cpp",)
    namespaced = False
    order = 170
    apply_order = 110


class ResourceBindingKind(PlacementOnClusters):
    """The placement of a resource of a namespace. Those of resources that are declared here are made from decisions."""

    kind = "ResourceBinding"
    model_module = "bindings"
    short_names = ("rb",)
    namespaced = True
    order = 2090

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.resource_bindings import resource_binding

        declared = records.resources.get(object_id.key)
        if declared is not None:
            return declared.object
        placed = records.placements.get(object_id.key)
        return resource_binding(placed, records) if placed is not None else None


class ClusterResourceBindingKind(PlacementOnClusters):
    """The placement of a resource without a namespace. Moorage claims none that are declared here."""

    kind = "ClusterResourceBinding"
    model_module = "bindings"
    short_names = ("crb",)
    namespaced = False
    order = 2095

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        mirrored = records.resources.get(object_id.key)
        return mirrored.object if mirrored is not None else None


KINDS = (
    ClusterKind(),
    ClusterTaintPolicyKind(),
    PropagationPolicyKind(),
    ClusterPropagationPolicyKind(),
    ResourceBindingKind(),
    ClusterResourceBindingKind(),
)
