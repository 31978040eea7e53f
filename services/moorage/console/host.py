"""The process that serves the console, as far as the console uses it beside the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from starlette.requests import Request
from starlette.types import ASGIApp

from moorage.decide.kubernetes.attributes import User
from moorage.runtime.process.clock import Clock
from moorage.runtime.settings.process_settings import Settings

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
        """Return one object. None if there is none."""


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

    observe: Callable[[str, str, int, float], None]
    """Counts an answer: by its method, what was asked for, its code, and the seconds that it took."""

    behind: Callable[[], str]
    """Returns why the objects shown may be out of date. Empty if they are not."""

    describe: Describe
