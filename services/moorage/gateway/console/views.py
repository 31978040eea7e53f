"""What a page is made of, and what makes it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request

from moorage.gateway.console.fleet_index import FleetIndex
from moorage.gateway.console.own_api import OwnApi
from moorage.gateway.console.rights import Rights
from moorage.gateway.console.sessions import Session
from moorage.gateway.errors import StatusError
from moorage.gateway.store import FleetObjects


@dataclass
class PageView:
    """One look at a page: who looks, what there is, and what the address says."""

    request: Request
    path: str
    """The path of the page. It is not that of the request if a page follows what changes."""

    query: QueryParams
    params: Mapping[str, str]
    """The parts of the path that the page's route names."""

    session: Session
    rights: Rights
    store: FleetObjects
    """The objects of the fleet whose page it is."""

    fleet: FleetIndex
    api: OwnApi
    now: datetime
    clusters: Sequence[str] = ()
    """Names of clusters that the user may look at, of which one can choose."""

    @property
    def cluster(self) -> str:
        """The cluster whose page it is. Empty for the home fleet."""
        return self.store.cluster

    def param(self, name: str) -> str:
        """A part of the path."""
        return self.params[name]

    def address(self, **changed: str | int) -> str:
        """The address of this page with other parameters. An empty one is left out."""
        kept = {**dict(self.query), **{name: str(value) for name, value in changed.items()}}
        text = urlencode({name: value for name, value in kept.items() if value})
        return f"{self.path}?{text}" if text else self.path


@dataclass(frozen=True)
class Content:
    """What a page shows.

    A page is a template with parts. Each part has a template of its own, and is sent again by itself when it has
    changed. So what is not in a part stays as it is until the page is loaded again.
    """

    template: str
    """The template of the page, in `templates/`. It places each part with `{{ parts.name }}`."""

    parts: Mapping[str, str] = field(default_factory=dict)
    """The templates of the parts by their names."""

    context: Mapping[str, Any] = field(default_factory=dict)
    """What the templates read."""

    kinds: Sequence[str] = ()
    """The kinds whose changes the page follows. It follows nothing without any."""

    code: int = 200
    """The HTTP status."""


PageHandler = Callable[[PageView], Awaitable[Content]]


@dataclass(frozen=True)
class ConsolePage:
    """A page that is served.

    Its handler may raise `StatusError`: the page shows the message with its code.
    """

    path: str
    """The route, as Starlette writes it: `/console/zones/{name}`."""

    handler: PageHandler
    in_clusters: bool = True
    """Whether there is such a page of each cluster, too."""


@dataclass(frozen=True)
class Done:
    """What an action has done."""

    message: str
    """What is told on the next page."""

    back: str
    """The address of that page."""


Form = Mapping[str, str]
ActionHandler = Callable[[PageView, Form], Awaitable[Done]]


@dataclass(frozen=True)
class Action:
    """What a form does when it is sent.

    It goes through `PageView.api`, so that the API judges it. It raises `StatusError` if it fails.
    """

    path: str
    """The route: `/console/actions/cordon`."""

    handler: ActionHandler
    in_clusters: bool = False
    """Whether it does something in clusters, too."""


def required(form: Form, name: str) -> str:
    """Return a field of a form.

    Raises:
        StatusError: 400 if it is missing or empty.
    """
    found = form.get(name, "").strip()
    if not found:
        raise StatusError(400, f"{name}: required value: must not be empty")
    return found
