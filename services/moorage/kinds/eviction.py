"""`Eviction` (moorage.io/v1alpha1)."""

from __future__ import annotations

from moorage.kinds.kind import View


class EvictionKind(View):
    """The eviction of a workload from a target."""

    kind = "Eviction"
    plural = "evictions"
    singular = "eviction"
    cli_names = ("ev", "evict")
    namespaced = True
    order = 2040


KIND = EvictionKind()
