"""Names of objects as people read and type them. Only a zone, `eu/eu-1`, has another name in the API: `eu.eu-1`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.core.disruption import zone_names
from moorage.kinds.kind import ServedKind

ZONE: Final = "Zone"


def typed(kind: ServedKind, name: str) -> str:
    """Return the name in the API of an object that a user has named."""
    return zone_names.object_name(zone_names.zone_of_object(name)) if kind.kind == ZONE else name


def shown(kind: ServedKind, found: Mapping[str, Any]) -> str:
    """Return the name of an object as it is shown, and as users may type it."""
    name = str((found.get("metadata") or {}).get("name"))
    if kind.kind != ZONE:
        return name
    zone = zone_names.zone_of_object(name)
    return name if zone == "/" else zone
