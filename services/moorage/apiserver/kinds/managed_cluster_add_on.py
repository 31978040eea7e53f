"""`ManagedClusterAddOn` (addon.open-cluster-management.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, condition, condition_field
from moorage.apiserver.kinds.printing.kubernetes import of_condition
from moorage.apiserver.kinds.printing.sections import Pair, Related, Section, time_and_age
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.index import Index
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.managed import ManagedClusterAddOn


class ManagedClusterAddOnKind(Kind["ManagedClusterAddOn"]):
    """An add-on that is enabled on the cluster of its namespace."""

    group = "addon.open-cluster-management.io"
    versions = ("v1alpha1",)
    kind = "ManagedClusterAddOn"
    plural = "managedclusteraddons"
    model_module = "managed"
    mirrorable = True
    short_names = ("mca", "mcas")
    namespaced = True
    order = 250
    status_shown = True
    apply_order = 170
    columns = (
        TableColumn("AVAILABLE", condition("Available")),
        TableColumn("DEGRADED", condition("Degraded")),
        TableColumn("PROGRESSING", condition("Progressing")),
        TableColumn("REASON", condition("Available", "reason"), wide=True),
        AGE._replace(wide=True),
    )
    api_columns = tuple(of_condition(one, one) for one in ("Available", "Degraded", "Progressing"))

    @property
    @override
    def indexes(self) -> tuple[type[Index], ...]:
        from moorage.apiserver.kinds.status.ocm import ManagedIndex

        return (ManagedIndex,)

    @override
    def validate(self, resource: ManagedClusterAddOn, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.ocm import validate_add_on

        return validate_add_on(resource)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        namespace, name = str(at(found, "metadata", "namespace")), str(at(found, "metadata", "name"))
        yield Pair("Cluster", namespace)
        yield Pair(
            "Available", f"{condition_field(found, 'Available')} ({condition_field(found, 'Available', 'reason')})"
        )
        lease = related.get("Lease", namespace, name)
        if lease is None:
            yield Pair("Lease", "none of the add-on's name in its namespace")
            return
        yield Pair("Lease renewed", time_and_age(at(lease, "spec", "renewTime"), now))

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.ocm import add_on_status

        return add_on_status(resource.name, records.taints.get(f"ManagedCluster/{resource.namespace}"))


KIND = ManagedClusterAddOnKind()
