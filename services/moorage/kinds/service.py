"""`Service` (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from moorage.kinds.kind import Untyped
from moorage.kinds.printing.columns import AGE, TableColumn, text


class ServiceKind(Untyped):
    """A service. It is stored, and propagation policies can claim it."""

    kind = "Service"
    plural = "services"
    singular = "service"
    short_names = ("svc",)
    namespaced = True
    order = 110
    has_generation = False
    container_subresources = ("proxy",)
    field_selectors: ClassVar[Mapping[str, str]] = {"spec.clusterIP": "", "spec.type": "ClusterIP"}
    columns = (TableColumn("TYPE", text("spec", "type", default="ClusterIP")), AGE)


KIND = ServiceKind()
