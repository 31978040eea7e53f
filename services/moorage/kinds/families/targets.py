"""Nodes, Karmada's clusters and OCM's: they carry taints, which the taint-manager writes."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from moorage.kinds.kind import Kind, ResourceT

_DECIDED: Final = frozenset({"conditions", "heldTaints"})
"""Parts of a target's status that the services decide."""


class Target(Kind[ResourceT]):
    """What a target says it offers (`status.capacity`, `status.allocatable`) is declared, its conditions are not."""

    status_declared: ClassVar[bool] = True

    def declared(self, document: dict[str, Any]) -> dict[str, Any]:
        """See `Kind`."""
        status = {k: v for k, v in (document.get("status") or {}).items() if k not in _DECIDED}
        found = {k: v for k, v in document.items() if k != "status"} | ({"status": status} if status else {})
        spec = {key: value for key, value in (found.get("spec") or {}).items() if key != "taints"}
        return {**found, "spec": spec}
