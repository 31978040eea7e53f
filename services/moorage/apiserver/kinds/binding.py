"""`Binding` (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import TableColumn, since, target, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import ObjectId
    from moorage_schemas.base import Model


class BindingKind(View):
    """The binding of a workload to a target."""

    kind = "Binding"
    plural = "bindings"
    singular = "binding"
    cli_names = ("bind",)
    namespaced = True
    order = 2010
    columns = (
        TableColumn("WORKLOAD", target("status", "workload")),
        TableColumn("TARGET", target("status", "target")),
        TableColumn("AGE", since("status", "boundTime")),
        TableColumn("OWNER", target("status", "owner"), wide=True),
        TableColumn("GENERATION", text("status", "generation"), wide=True),
    )
    made_from = "bindings"

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.names import of_pair

        yield of_pair(self.kind, key)


KIND = BindingKind()
