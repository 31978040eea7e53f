"""Pages: their content, and the handlers that make it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request

from moorage.console.api import ApiClient
from moorage.console.audit_lines import AuditLines
from moorage.console.fleet_index import FleetIndex
from moorage.console.host import Describe, PageError
from moorage.console.kinds import Kinds
from moorage.console.rights import Rights
from moorage.console.sessions import Session
from moorage.console.watches import Watches

_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class FleetReader:
    """The objects of the fleet whose page it is, as the console itself reads them.

    Check the rights of the user before one of them is shown.
    """

    api: ApiClient
    kinds: Kinds
    watches: Watches

    async def get(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return an object. None if it does not exist. Raises PageError if the API does not answer."""
        answer = await self.api.call("GET", self.kinds.named(kind).path(namespace, name))
        if answer.code == _NOT_FOUND:
            return None
        answer.check()
        return answer.document

    async def all(self, kind: str, namespace: str = "", **query: str) -> list[dict[str, Any]]:
        """Return the objects of a kind in one namespace or in all.

        `query` has the options of the list, such as `fieldSelector`. Raises PageError if the API does not answer.
        """
        items: list[dict[str, Any]] = (await self.api.read(self.kinds.named(kind).path(namespace), query))["items"]
        return items

    async def names(self, kind: str) -> Mapping[str, Mapping[str, None]]:
        """Return the names of the objects of a kind by namespace. Raises PageError if the API does not answer."""
        return (await self.watches.of(kind, self.api.cluster)).names


@dataclass
class PageView:
    """One view of a page: the user, the fleet, and the address."""

    request: Request
    path: str
    """The path of the page. It is not that of the request if a page follows what changes."""

    query: QueryParams
    params: Mapping[str, str]
    """The parts of the path that the page's route names."""

    session: Session
    rights: Rights
    reader: FleetReader
    fleet: FleetIndex
    api: ApiClient
    """The API of the fleet whose page it is, as the user."""

    kinds: Kinds
    describe: Describe
    audit: AuditLines
    version: int
    """The resource version that the page shows at least."""

    now: datetime
    clusters: Sequence[str] = ()
    """Names of the clusters in the menu, which the user may see."""

    @property
    def cluster(self) -> str:
        """The cluster whose page it is. Empty for the home fleet."""
        return self.reader.api.cluster

    def param(self, name: str) -> str:
        """Return a part of the path."""
        return self.params[name]

    def address(self, **changed: str | int) -> str:
        """Return the address of this page with other parameters. An empty one is left out."""
        kept = {**dict(self.query), **{name: str(value) for name, value in changed.items()}}
        text = urlencode({name: value for name, value in kept.items() if value})
        return f"{self.path}?{text}" if text else self.path


@dataclass(frozen=True)
class Content:
    """The content of a page.

    A page is a template with parts. Each part has a template of its own, and is sent again by itself when it has
    changed. So what is not in a part stays as it is until the page is loaded again.
    """

    template: str
    """The template of the page, in `templates/`. It places each part with `{{ parts.name }}`."""

    parts: Mapping[str, str] = field(default_factory=dict)
    """The templates of the parts by their names."""

    context: Mapping[str, Any] = field(default_factory=dict)
    """The variables of the templates."""

    kinds: Sequence[str] = ()
    """The kinds whose changes the page follows. It follows nothing without any."""

    code: int = 200
    """The HTTP status."""


PageHandler = Callable[[PageView], Awaitable[Content]]


@dataclass(frozen=True)
class ConsolePage:
    """A page that is served.

    Its handler may raise `PageError`: the page shows the message with its code.
    """

    path: str
    """The route, as Starlette writes it: `/console/zones/{name}`."""

    handler: PageHandler
    in_clusters: bool = True
    """Whether the page also exists for each cluster."""


@dataclass(frozen=True)
class Done:
    """The outcome of an action."""

    message: str
    """The notice on the next page."""

    back: str
    """The address of that page."""


Form = Mapping[str, str]
ActionHandler = Callable[[PageView, Form], Awaitable[Done]]


@dataclass(frozen=True)
class Action:
    """The action of a form.

    It goes through `PageView.api`, so that the API judges it. It raises `PageError` if it fails.
    """

    path: str
    """The route: `/console/actions/cordon`."""

    handler: ActionHandler
    in_clusters: bool = False
    """Whether it also works in clusters."""


def required(form: Form, name: str) -> str:
    """Return a field of a form. Raises PageError: 400 if it is missing or empty."""
    found = form.get(name, "").strip()
    if not found:
        raise PageError(400, f"{name}: required value: must not be empty")
    return found
