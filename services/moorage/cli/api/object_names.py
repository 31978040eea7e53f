"""Names of objects as people read and type them. They differ from those in the API for some kinds, such as zones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.kinds.kind import ServedKind


def typed(kind: ServedKind, name: str) -> str:
    """Return the name in the API of an object that a user has named."""
    return kind.definition.api_name(name)


def shown(kind: ServedKind, found: Mapping[str, Any]) -> str:
    """Return the name of an object as it is shown, and as users may type it."""
    return kind.definition.shown_name(str((found.get("metadata") or {}).get("name")))
