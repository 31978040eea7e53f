"""The names of pauses that commands and pages make: each scope has its own, so that nobody pauses the same twice."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

ALL = "all"
"""The name of the pause of the whole fleet."""

_NAME_MAX = 60


def pause_name(scope: Mapping[str, Any]) -> str:
    """Return the name of the pause of a scope. Each scope has its own name."""
    if not scope:
        return ALL
    plain = "-".join(f"{field}-{value}" for field, values in scope.items() for value in values)
    slug = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:_NAME_MAX].rstrip("-")
    # The hash tells scopes apart that have the same slug.
    return f"{slug}-{hashlib.sha256(repr(normal_scope(scope)).encode()).hexdigest()[:8]}"


def normal_scope(scope: Mapping[str, Any]) -> Any:
    """Return a scope in a form that can be compared: sorted, and without empty parts."""
    return sorted(
        (field, sorted(values) if isinstance(values, list) else repr(values))
        for field, values in scope.items()
        if values is not None and values != []
    )
