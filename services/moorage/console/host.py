"""The process that serves the console, as far as the console uses it beside the API."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp

from moorage.decide.kubernetes.attributes import User
from moorage.runtime.process.clock import Clock
from moorage.runtime.settings.process_settings import Settings

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
    """Return a given address if it is one of the console, and otherwise that of its first page."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return "/"
    is_own = parts.path == "/" or OWN.fullmatch(parts.path) is not None
    if parts.scheme or parts.netloc or not is_own or "\\" in text or any(ord(one) < ord(" ") for one in text):
        return "/"
    return text if not text.startswith("//") else "/"


class PageError(Exception):
    """A failed request. It may succeed after `retry_after` seconds. 0 if that is not known."""

    def __init__(self, code: int, message: str, *, causes: Iterable[str] = (), retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.causes = tuple(causes)
        self.retry_after = retry_after


def bad_request(message: str) -> PageError:
    """Return the error 400: the request cannot be understood."""
    return PageError(400, message)


Document = Mapping[str, Any]


class PageCaller(NamedTuple):
    """The user as whom a request is made, and the name of its sender, who may act for that user."""

    user: User
    sender: str


class RelatedReader(Protocol):
    """Reads the objects that belong to the one that is described."""

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> Sequence[Document]:
        """Return the objects of a kind, in all namespaces if none is named."""

    def get(self, kind: str, namespace: str, name: str) -> Document | None:
        """Return one object. None if it does not exist."""


Describe = Callable[[str, Document, RelatedReader, datetime], Iterable[Any]]
"""Returns the sections of a description: of an object of a kind, with its related objects, at a time. Each is a named
tuple whose type is `Pair`, `Values`, `Rows`, `Heading` or `Fields`."""


@dataclass(frozen=True)
class Host:
    """The process that serves the console."""

    api: ASGIApp
    """The API as the console itself calls it: it may read everything."""

    settings: Settings
    clock: Clock
    identify: Callable[[Request], Awaitable[PageCaller]]
    """Returns the caller of a request of the API. Raises `PageError`: 401 without credentials that count, 403 if the
    sender may not act for the user, 503 if neither is known yet."""

    check_host: Callable[[Request], None]
    """Raises `PageError` if a request has a host name that is not the gateway's."""

    open_page: Callable[[Request], AbstractContextManager[None]]
    """Returns a context that counts an open page as a watch of its user. Raises `PageError`: 429 if the user has
    enough."""

    receiving: Callable[[Request], AbstractContextManager[Callable[[int], None]]]
    """Returns a context in which the bytes of a form are received. Its function counts some of them. It raises
    `PageError`: 429 if the process holds too many."""

    observe: Callable[[str, str, int, float], None]
    """Counts an answer: by its method, what was asked for, its code, and the seconds that it took."""

    behind: Callable[[], str]
    """Returns why the objects shown may be out of date. Empty if they are not."""

    describe: Describe
