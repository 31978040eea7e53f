"""`Binding` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View
from moorage.kinds.printing.columns import Column, since, target, text


class BindingKind(View):
    """Which workload is bound to which target."""

    kind = "Binding"
    plural = "bindings"
    singular = "binding"
    cli_names = ("bind",)
    namespaced = True
    order = 2010
    columns = (
        Column("WORKLOAD", target("status", "workload")),
        Column("TARGET", target("status", "target")),
        Column("AGE", since("status", "boundTime")),
        Column("OWNER", target("status", "owner"), wide=True),
        Column("GENERATION", text("status", "generation"), wide=True),
    )


KIND = BindingKind()
