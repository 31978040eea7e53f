"""`Service` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from moorage.apiserver.kinds.kind import Untyped
from moorage.apiserver.kinds.printing.columns import AGE, TableColumn, of, text
from moorage.apiserver.kinds.printing.kubernetes import external_ip, labels_text, service_ports
from moorage.decide.kubernetes.unstructured import at

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


KIND = ServiceKind()
