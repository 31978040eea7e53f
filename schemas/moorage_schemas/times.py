"""Instants as RFC 3339 text, always in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any


def parse_time(value: Any) -> Any:
    """Parse RFC 3339 text. A `datetime` with a time zone is converted to UTC.

    Any other value is returned unchanged, so that pydantic refuses it with its own message.

    Raises:
        ValueError: the text is not an RFC 3339 time, or it has no offset.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo is not None else value
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{value!r} is not an RFC 3339 time such as 2026-01-01T00:00:00Z") from None
        if parsed.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; use Z or an offset such as +01:00")
        try:
            return parsed.astimezone(UTC)
        except OverflowError:  # pydantic does not catch it, and one such report would stop a service
            raise ValueError(f"{value!r} cannot be expressed in UTC between the years 1 and 9999") from None
    return value


@lru_cache(maxsize=4096)  # the events of one decision share their times
def format_time(value: datetime) -> str:
    """Format an instant as RFC 3339 in UTC with `Z`. The fraction is left out when it is zero."""
    text = value.astimezone(UTC).isoformat()
    return text.removesuffix("+00:00") + "Z"
