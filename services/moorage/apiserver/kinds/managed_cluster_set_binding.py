"""`ManagedClusterSetBinding` (cluster.open-cluster-management.io/v1beta2)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.apiserver.kinds.printing.columns import (
    AGE,
    CUSTOM_AGE,
    Object,
    TableColumn,
    condition,
    condition_field,
    text,
)
from moorage.apiserver.kinds.printing.sections import Pair, Related, Section, Values
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.managed import ManagedClusterSetBinding


class ManagedClusterSetBindingKind(Kind["ManagedClusterSetBinding"]):
    """A set that placements of a namespace may choose from."""

    group = "cluster.open-cluster-management.io"
    versions = ("v1beta2", "v1beta1", "v1alpha1")
    kind = "ManagedClusterSetBinding"
    plural = "managedclustersetbindings"
    model_module = "managed"
    mirrorable = True
    short_names = ("mclsetbinding", "mclsetbindings")
    namespaced = True
    order = 220
    status_shown = True
    apply_order = 130
    unknown_fields = UnknownFields.WARNED
    columns = (
        TableColumn("CLUSTER SET", text("spec", "clusterSet")),
        TableColumn("BOUND", condition("Bound")),
        AGE,
        TableColumn("REASON", condition("Bound", "reason"), wide=True),
    )
    api_columns = (CUSTOM_AGE,)

    @property
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex

        return (ManagedIndex,)

    @override
    def validate(self, resource: ManagedClusterSetBinding, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.ocm import validate_set_binding

        return validate_set_binding(resource)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        name = str(at(found, "metadata", "name"))
        yield Pair("Cluster set", at(found, "spec", "clusterSet"))
        yield Pair("Bound", f"{condition_field(found, 'Bound')} ({condition_field(found, 'Bound', 'reason')})")
        using = [
            str(at(one, "metadata", "name"))
            for one in related.list("Placement", str(at(found, "metadata", "namespace")))
            if name in (at(one, "spec", "clusterSets") or [name])
        ]
        yield Values("Placements", using)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex, binding_status

        return binding_status(resource.name, records.index(ManagedIndex))


KIND = ManagedClusterSetBindingKind()
