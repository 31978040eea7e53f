"""`Binding` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View


class BindingKind(View):
    """Which workload is bound to which target."""

    kind = "Binding"
    plural = "bindings"
    singular = "binding"
    cli_names = ("bind",)
    namespaced = True
    order = 2010


KIND = BindingKind()
