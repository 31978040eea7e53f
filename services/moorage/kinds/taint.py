"""`Taint` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View


class TaintKind(View):
    """One taint of a target."""

    kind = "Taint"
    plural = "taints"
    singular = "taint"
    namespaced = False
    order = 2050


KIND = TaintKind()
