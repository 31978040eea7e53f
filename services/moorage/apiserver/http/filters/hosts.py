"""Host names under which a server without authentication may be called."""

from __future__ import annotations

import contextlib
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from moorage.apiserver.machinery.api_errors import StatusError
from moorage.runtime.settings.process_settings import Settings

_LOCAL: Final = frozenset({"localhost"})


def hosts_of(settings: Settings) -> frozenset[str] | None:
    """Host names, in addition to the local ones, under which the server may be called. None allows every name.

    A server that listens beyond its own machine is called under names that are not known here.
    """
    return frozenset() if settings.listens_on_loopback else None


def check_host(request: Request, hosts: frozenset[str] | None) -> None:
    """Refuse host names that are not the gateway's, and web pages of other sites.

    A web page can make its own host name resolve to 127.0.0.1 (DNS rebinding). So it reaches a server that has no
    authentication and listens only locally, but `Host` still contains the page's own name. A page can also send simple
    requests to an address that is not its own; `Origin` shows this.

    Raises:
        StatusError: 421 for a wrong host name, 403 for a wrong origin.
    """
    if hosts is None:
        return
    if not _local(request.url.hostname or "", hosts):
        raise StatusError(
            421,
            f"host: invalid value {(request.url.hostname or '')[:253]!r}: must be localhost, an address or a name of "
            "this gateway",
        )
    origin = request.headers.get("origin")
    if origin is not None and not _local(_hostname(origin), hosts):
        raise StatusError(
            403, f"origin: invalid value {origin[:253]!r}: pages of other sites may not call this gateway"
        )


def _hostname(url: str) -> str:
    with contextlib.suppress(ValueError):
        return urlsplit(url).hostname or ""
    return ""


def _local(name: str, hosts: frozenset[str]) -> bool:
    name = name.lower()
    if name in _LOCAL or name in hosts:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
