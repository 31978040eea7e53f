"""Objects as the gateway serves them: JSON in which any part may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def at(value: Any, *path: str) -> Any:
    """Return the value at a path of an object. None if a part is missing."""
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
