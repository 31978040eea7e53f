"""Keys and values of records as parts of JSON: text, or base64 when they are not UTF-8."""

from __future__ import annotations

import base64
from typing import Any


def text_of(raw: bytes | None) -> str | dict[str, str] | None:
    """Return bytes as text, or as base64 when they are not UTF-8."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def bytes_of(found: Any) -> bytes | None:
    """Return the bytes of what `text_of` returned. Raises ValueError if it is no such thing."""
    if found is None:
        return None
    if isinstance(found, str):
        return found.encode()
    if isinstance(found, dict) and isinstance(found.get("base64"), str):
        return base64.b64decode(found["base64"], validate=True)
    raise ValueError("neither text nor base64")
