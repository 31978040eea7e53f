"""`Service` (v1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.kind import Untyped
from moorage.kinds.printing.columns import AGE, TableColumn, of, text
from moorage.kinds.printing.kubernetes import external_ip, labels_text, service_ports

if TYPE_CHECKING:
    from moorage.core.admission.feature_gates import FeatureGates
    from moorage.core.apimachinery.field_errors import FieldError

Document = dict[str, Any]


class ServiceKind(Untyped):
    """A service. It is stored, and propagation policies can claim it."""

    kind = "Service"
    plural = "services"
    singular = "service"
    short_names = ("svc",)
    namespaced = True
    created_by_update = True
    deleted_is_returned = True
    order = 110
    categories = ("all",)
    has_generation = False
    status_shown = True
    label_names = True
    container_subresources = ("proxy",)
    field_selectors: ClassVar[Mapping[str, str]] = {"spec.clusterIP": "", "spec.type": "ClusterIP"}
    columns = (TableColumn("TYPE", text("spec", "type", default="ClusterIP")), AGE)
    api_columns = (
        TableColumn("Type", text("spec", "type", default="ClusterIP")),
        TableColumn("Cluster-IP", text("spec", "clusterIP")),
        TableColumn("External-IP", of(external_ip)),
        TableColumn("Port(s)", of(service_ports)),
        AGE,
        TableColumn("Selector", of(lambda found: labels_text(at(found, "spec", "selector"))), wide=True),
    )

    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        """See `Kind`."""
        from moorage.core.admission.services import ignored_fields

        return ignored_fields(document.get("spec") or {})

    def changed(self, wanted: Document, shown: Mapping[str, Any]) -> Document:
        """See `Kind`. Addresses stay, and what only another type of service has goes."""
        from moorage.core.admission.services import kept_in_change

        spec, present = wanted.get("spec"), shown.get("spec")
        if not isinstance(spec, dict) or not isinstance(present, Mapping):
            return wanted
        return {**wanted, "spec": kept_in_change(spec, present)}

    def validate_fields(self, document: Mapping[str, Any], *, is_new: bool) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.services import validate_service

        return validate_service(document) if is_new else []

    def validate_update(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldError]:
        """See `Kind`."""
        from moorage.core.admission.validation.services import validate_service_update

        return validate_service_update(before, after)


KIND = ServiceKind()
