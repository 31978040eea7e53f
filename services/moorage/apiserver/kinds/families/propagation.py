"""Karmada's propagation policies, of a namespace and of the whole fleet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds import kind as kinds
from moorage.apiserver.kinds.kind import Kind, ResourceT
from moorage.apiserver.kinds.printing.columns import AGE, CUSTOM_AGE, NONE, Object, TableColumn, of, text
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.dedicated import DedicatedNodes


KARMADA: Final = "karmada-io"
"""Karmada's category: `kubectl get karmada-io`."""


def clusters_text(affinity: Any) -> str:
    """The clusters that a ClusterAffinity selects, as a short text."""
    if not isinstance(affinity, Mapping) or not any(affinity.values()):
        return "<all>"
    parts = [",".join(affinity.get("clusterNames") or [])]
    parts += [f"!{name}" for name in affinity.get("exclude") or []]
    parts += [
        word for field, word in (("labelSelector", "<labels>"), ("fieldSelector", "<fields>")) if affinity.get(field)
    ]
    return ",".join(filter(None, parts))


def _selected(found: Object) -> str:
    """The resources that a policy selects: `Deployment/web,ConfigMap/*`."""
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

    @property
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.resource_bindings import PolicyIndex

        return (PolicyIndex,)

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
        if failover.get("application"):
            yield "spec.failover.application has no effect: Moorage acts on taints of clusters, not on applications"
