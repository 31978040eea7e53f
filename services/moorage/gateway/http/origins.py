"""Pages of other sites may not change anything through the browser of somebody who may.

A browser sends client certificates and comes from one's own machine whichever page has made it call. It says in
`Sec-Fetch-Site` or `Origin` which page that was, and no page can forge these. Programs send neither.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from moorage.gateway.errors import StatusError

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN: Final = frozenset({"same-origin", "none"})
"""A page of this server, and what a person has typed."""

_LONGEST: Final = 253


def foreign_origin(request: Request) -> str:
    """Return what shows that a page of another site has made a browser send a request. Empty if nothing does."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return "" if site in _OWN else f"sec-fetch-site: {site[:_LONGEST]!r}"
    origin = request.headers.get("origin")
    if origin is None or _place(origin) == request.headers.get("host", "").lower():
        return ""
    return f"origin: {origin[:_LONGEST]!r}"


def check_origin(request: Request) -> None:
    """Refuse a request that changes something, if a page of another site has made a browser send it.

    One with a bearer token is let through: a browser adds none by itself.

    Raises:
        StatusError: 403 if it is refused.
    """
    if request.method in READING or "authorization" in request.headers:
        return
    if shown := foreign_origin(request):
        raise StatusError(403, f"{shown}: invalid value: pages of other sites may not change anything here")


def _place(origin: str) -> str:
    """Host and port of an origin, as `Host` has them."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
