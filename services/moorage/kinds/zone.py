"""`Zone` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View


class ZoneKind(View):
    """A zone: its state and the rate of evictions from it."""

    kind = "Zone"
    plural = "zones"
    singular = "zone"
    namespaced = False
    order = 2080


KIND = ZoneKind()
