"""The two ways to write a zone: `region/zone`, and the name of its object, which may not contain a slash."""

from __future__ import annotations

from typing import Final

_NONE: Final = "none"


def object_name(zone: str) -> str:
    """The name of a zone's object: `eu.eu-1` for `eu/eu-1`, and `none` for a zone without region and zone.

    If one of the parts contains a dot itself, a colon separates them, so that no two zones have the same name.
    """
    region, _, own = zone.partition("/")
    if not region and not own:
        return _NONE
    plain = not any("." in part or part == _NONE for part in (region, own))
    return f"{region or _NONE}.{own or _NONE}" if plain else f"{region}:{own}"


def zone_of_object(name: str) -> str:
    """The zone of an object name: `eu/eu-1` for `eu.eu-1`, and `/` for `none`. Any other text is returned unchanged."""
    if name == _NONE:
        return "/"
    if "/" in name:
        return name
    if ":" in name:
        region, _, own = name.partition(":")
        return f"{region}/{own}"
    region, dot, own = name.partition(".")
    if not dot or "." in own:
        return name
    return "/".join("" if part == _NONE else part for part in (region, own))
