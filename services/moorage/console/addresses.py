"""The addresses of the console's pages, and the cluster in them: `/clusters/{name}/console/…`."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

ROOT: Final = "/console"
LIVE: Final = "/console/live"
LOGIN: Final = "/console/login"
LOGOUT: Final = "/console/logout"
CLUSTER: Final = "moorage.console.cluster"
"""Where the scope of a request has the cluster whose page it is."""

OWN: Final = re.compile(rf"(?:/clusters/([a-z0-9](?:[-a-z0-9.]*[a-z0-9])?))?({ROOT}(?:/.*)?)", re.DOTALL)
"""The paths of the console: the cluster, and the path of the same page of the home fleet."""


def cluster_of(request: Request) -> str:
    """Return the cluster whose page a request is about. Empty for the home fleet."""
    return str(request.scope.get(CLUSTER, ""))


def path_of(cluster: str) -> str:
    """Return how the paths of a cluster begin. Empty for the home fleet."""
    return f"/clusters/{cluster}" if cluster else ""


def own_address(text: str) -> str:
    """An address of the console that somebody has given. That of its first page instead of any other address."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    is_own = parts.path == "/" or OWN.fullmatch(parts.path) is not None
    if parts.scheme or parts.netloc or not is_own or "\\" in text or any(ord(one) < ord(" ") for one in text):
        return "/"
    return text if not text.startswith("//") else "/"
