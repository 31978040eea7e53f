"""`ManagedClusterSet` (cluster.open-cluster-management.io/v1beta2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.families.ocm import available, selector_text, sets
from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.apiserver.kinds.printing.columns import (
    AGE,
    CUSTOM_AGE,
    Object,
    TableColumn,
    condition,
    condition_field,
    of,
)
from moorage.apiserver.kinds.printing.kubernetes import of_condition
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section, Values
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.managed import ManagedClusterSet

_KNOWS_NO_LEGACY: Final = "v1beta2"


def _selector(found: Object) -> str:
    """How a set selects its clusters: by a selector, or by the label with which a cluster names its exclusive set."""
    selector = at(found, "spec", "clusterSelector") or {}
    by_labels = selector.get("selectorType") == "LabelSelector"
    return selector_text(selector.get("labelSelector")) if by_labels else "ExclusiveClusterSetLabel"


class ManagedClusterSetKind(Kind["ManagedClusterSet"]):
    """A set of managed clusters.

    The versions differ in one value only: before v1beta2, the exclusive selector type was `LegacyClusterSetLabel`. It
    is stored as it was written, and shown with the name of the requested version.
    """

    group = "cluster.open-cluster-management.io"
    versions: ClassVar[tuple[str, ...]] = ("v1beta2", "v1beta1", "v1alpha1")
    kind = "ManagedClusterSet"
    plural = "managedclustersets"
    model_module = "managed"
    mirrorable = True
    short_names: ClassVar[tuple[str, ...]] = ("mclset", "mclsets")
    namespaced = False
    order = 210
    status_shown = True
    apply_order = 120
    unknown_fields = UnknownFields.WARNED
    columns = (
        TableColumn("EMPTY", condition("ClusterSetEmpty")),
        AGE,
        TableColumn("SELECTOR", of(_selector), wide=True),
        TableColumn("CLUSTERS", condition("ClusterSetEmpty", "message"), wide=True),
    )
    api_columns = (of_condition("Empty", "ClusterSetEmpty"), CUSTOM_AGE)
    counted_status = True
    built_in = ("default", "global")

    @property
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex
        from moorage.apiserver.kinds.status.roles import SetRoleIndex

        return (ManagedIndex, SetRoleIndex)

    @override
    def validate(self, resource: ManagedClusterSet, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.ocm import validate_cluster_set

        return validate_cluster_set(resource)

    @override
    def converted(self, document: Mapping[str, Any], version: str) -> Mapping[str, Any]:
        from moorage_schemas.resources.managed import EXCLUSIVE, LEGACY

        shown = super().converted(document, version)
        spec = shown.get("spec") or {}
        selector = spec.get("clusterSelector") or {}
        if version != _KNOWS_NO_LEGACY or selector.get("selectorType") != LEGACY:
            return shown
        return {**shown, "spec": {**spec, "clusterSelector": {**selector, "selectorType": EXCLUSIVE}}}

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        name = str(at(found, "metadata", "name"))
        yield Pair("Selector", _selector(found))
        yield Pair("Empty", condition_field(found, "ClusterSetEmpty"))
        made = sets(related).get(name)
        rows = [
            [str(at(one, "metadata", "name")), available(one)]
            for one in related.list("ManagedCluster")
            if made is not None and made.has(at(one, "metadata", "labels") or {})
        ]
        yield Rows(f"Clusters ({len(rows)})", ["NAME", "AVAILABLE"], rows)
        bound = [
            str(at(one, "metadata", "namespace"))
            for one in related.list("ManagedClusterSetBinding")
            if at(one, "metadata", "name") == name
        ]
        yield Values("Bound to", bound)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex, set_status

        return set_status(resource.name, records.index(ManagedIndex))

    @override
    def built_in_object(self, object_id: ObjectId, records: Records) -> Document:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex, built_in_set, set_status

        name = object_id.name
        return {**built_in_set(name), "status": set_status(name, records.index(ManagedIndex))}

    @override
    def refusal(self, name: str, change: str) -> str:
        return f"this set is built in and may not be {change}" if name in self.built_in else ""


KIND = ManagedClusterSetKind()
