"""Requests that a page of another site has made a browser send.

A browser sends client certificates, and comes from its user's own machine, for any page that calls. It names that page
in `Sec-Fetch-Site` or `Origin`, and no page can forge these. Programs send neither.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

_OWN: Final = frozenset({"same-origin", "none"})
"""A page of this server, and an address that a person has typed."""

_LONGEST: Final = 253


def foreign_origin(request: Request) -> str:
    """Return the evidence that a page of another site has made a browser send a request. Empty without any."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return "" if site in _OWN else f"sec-fetch-site: {site[:_LONGEST]!r}"
    origin = request.headers.get("origin")
    if origin is None or _place(origin) == request.headers.get("host", "").lower():
        return ""
    return f"origin: {origin[:_LONGEST]!r}"


def _place(origin: str) -> str:
    """Host and port of an origin, as `Host` has them."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
