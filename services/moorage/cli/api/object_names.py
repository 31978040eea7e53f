"""Names of objects as people read and type them. Only a zone has two: `eu/eu-1`, and `eu.eu-1` in the API's paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moorage.core.disruption import zone_names
from moorage.kinds.kind import ServedKind

ZONE: Final = "Zone"


def typed(kind: ServedKind, name: str) -> str:
    """The name in the API of an object that somebody has named."""
    return zone_names.object_name(zone_names.zone_of_object(name)) if kind.kind == ZONE else name


def shown(kind: ServedKind, found: Mapping[str, Any]) -> str:
    """The name of an object that is written for people, and that they may type."""
    name = str((found.get("metadata") or {}).get("name"))
    if kind.kind != ZONE:
        return name
    zone = zone_names.zone_of_object(name)
    return name if zone == "/" else zone
