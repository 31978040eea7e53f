"""Names of objects: of the pauses that commands and pages create, of zones, and of objects made of records.

Each scope has its own pause, so no scope is paused twice. A zone is written `region/zone`, and the name of its object
may not contain a slash.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from moorage_schemas.resources.workload_kinds import POD

ALL = "all"
"""The name of the pause of the whole fleet."""

_NAME_MAX = 60


def pause_name(scope: Mapping[str, Any]) -> str:
    """Return the name of the pause of a scope. Each scope has its own name."""
    if not scope:
        return ALL
    plain = "-".join(f"{field}-{value}" for field, values in scope.items() for value in values)
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:_NAME_MAX].rstrip("-")
    # The hash distinguishes scopes that have the same slug.
    return f"{slug}-{hashlib.sha256(repr(normal_scope(scope)).encode()).hexdigest()[:8]}"


def normal_scope(scope: Mapping[str, Any]) -> Any:
    """Return a scope in a form that can be compared: sorted, and without empty parts."""
    return sorted(
        (field, sorted(values) if isinstance(values, list) else repr(values))
        for field, values in scope.items()
        if values is not None and values != []
    )


NO_ZONE: Final = "none"
"""The zone of nodes without region and zone, as people read it."""


def shown_zone(zone: str) -> str:
    """Return a zone as people read it: `eu/eu-1`, and `none` for a zone without region and zone.

    All programs show this name. Records, scopes and `status.zone` have `/`, the key of that zone.
    """
    cluster, colon, own = zone.rpartition(":")
    return f"{cluster}{colon}{NO_ZONE}" if own == "/" else zone


def object_name(zone: str) -> str:
    """Return the name of a zone's object: `eu.eu-1` for `eu/eu-1`, and `none` for a zone without region and zone.

    If one of the parts contains a dot itself, a colon separates them, so that no two zones have the same name.
    """
    region, _, own = zone.partition("/")
    if not region and not own:
        return NO_ZONE
    plain = not any("." in part or part == NO_ZONE for part in (region, own))
    return f"{region or NO_ZONE}.{own or NO_ZONE}" if plain else f"{region}:{own}"


def zone_of_object(name: str) -> str:
    """Return the zone of an object name: `eu/eu-1` for `eu.eu-1`, and `/` for `none`. Other texts stay."""
    if name == NO_ZONE:
        return "/"
    if "/" in name:
        return name
    if ":" in name:
        region, _, own = name.partition(":")
        return f"{region}/{own}"
    region, dot, own = name.partition(".")
    if not dot or "." in own:
        return name
    return "/".join("" if part == NO_ZONE else part for part in (region, own))


def target_prefix(target: str) -> str:
    """Return the first part of the name of an object about a target, from the target's key: `node.n1`."""
    from moorage_schemas.keys import TargetKey  # noqa: PLC0415 - commands load this module, and models load slowly

    kind, name, _ = TargetKey.parse(target)
    return f"{kind.lower()}.{name}"


def about_target(target: str, *parts: str) -> str:
    """Return the name of an object about a target: `node.n1:Ready`, `node.n1:NoExecute:example.com~key`."""
    return ":".join([target_prefix(target), *parts]).replace("/", "~")


def workload_name(kind: str, name: str) -> str:
    """Return the name of an object about a workload: that of a pod, and `deployment:web` for any other kind."""
    return name if kind == POD else f"{kind.lower()}:{name}"
