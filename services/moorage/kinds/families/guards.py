"""Functions that eviction budgets and eviction pauses share."""

from __future__ import annotations

from collections.abc import Mapping

from moorage.core.apimachinery.unstructured import at
from moorage.kinds.printing.columns import Object


def scope_text(found: Object) -> str:
    """The scope of a budget or a pause: `zones=eu/eu-1;namespaces=shop`, or `<all>` for the fleet."""
    parts = []
    scope = at(found, "spec", "scope")
    for field, value in scope.items() if isinstance(scope, Mapping) else ():
        if isinstance(value, list) and value:
            parts.append(f"{field}={','.join(map(str, value))}")
        elif isinstance(value, Mapping):
            parts.append("<labels>")
    return ";".join(parts) or "<all>"
