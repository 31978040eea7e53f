"""Objects as they came, of which nothing is known to be there or to be of the right type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of an object; empty when it is absent or no mapping."""
    found = document.get(name)
    return found if isinstance(found, Mapping) else {}
