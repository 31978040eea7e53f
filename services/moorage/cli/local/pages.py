"""The gateway's pages: the console before its API, in the same process."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.apiserver.authentication.certificates import EXTENSION, ClientCertificate
from moorage.apiserver.http.app import ServedApi
from moorage.apiserver.http.filters.hosts import check_host
from moorage.apiserver.http.filters.limits import client_of
from moorage.apiserver.kinds import kind as kinds
from moorage.apiserver.kinds.printing.sections import Section
from moorage.apiserver.machinery import api_errors
from moorage.console import host
from moorage.console.application import Console
from moorage.console.host import Host, PageCaller, PageError
from moorage.decide.kubernetes.attributes import CONSOLE, MASTERS

_IDENTITY: Final = ClientCertificate(CONSOLE, (MASTERS,), "")
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def with_pages(app: ASGIApp, api: ServedApi) -> ASGIApp:
    """Return the console before an API."""
    return Console(app, host_of(app, api))


def host_of(app: ASGIApp, api: ServedApi) -> Host:
    """Return the process of a gateway as the console sees it."""
    gateway, access, watches = api.gateway, api.access, api.watches

    async def identify(request: Request) -> PageCaller:
        with _translated():
            user = await access.identify(request)
        sender = request.state.sender
        return PageCaller(user, (sender or user).name)

    def checked(request: Request) -> None:
        with _translated():
            check_host(request, gateway.hosts)

    def open_page(request: Request) -> contextlib.AbstractContextManager[None]:
        with _translated():
            watches.check(request)

        @contextlib.contextmanager
        def opened() -> Iterator[None]:
            with gateway.metrics.watches.track_inprogress(), watches.opened(request):
                yield

        return opened()

    @contextlib.contextmanager
    def receiving(request: Request) -> Iterator[Callable[[int], None]]:
        client = client_of(request, access.authenticator.without)
        with contextlib.ExitStack() as held:

            def hold(size: int) -> None:
                with _translated():
                    api.in_flight.hold(client, size)
                held.callback(api.in_flight.drop, client, size)

            yield hold

    def observe(method: str, verb: str, code: int, seconds: float) -> None:
        gateway.metrics.requests.labels(method, verb, str(code)).inc()
        gateway.metrics.seconds.labels(f"{verb} {method}").observe(seconds)

    return Host(
        api=_AsConsole(app),
        settings=gateway.settings,
        clock=gateway.clock,
        identify=identify,
        check_host=checked,
        open_page=open_page,
        receiving=receiving,
        observe=observe,
        behind=gateway.behind,
        describe=_described,
    )


class _AsConsole:
    """The API as the console itself calls it. It only reads."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with the console's identity."""
        if scope["method"] != "GET" and scope["path"] != _REVIEWS:
            raise ValueError(f"{scope['method']} {scope['path']}: the console itself only reads")
        await self._app({**scope, "extensions": {EXTENSION: _IDENTITY}}, receive, send)


def _described(kind: str, found: host.Document, related: host.RelatedReader, now: datetime) -> Iterator[Section]:
    """Describe an object."""
    definition = kinds.named(kind)
    if definition is not None:
        yield from definition.describe(found, related, now)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Raise errors of the API within the context as those of the console."""
    try:
        yield
    except api_errors.StatusError as error:
        causes = [cause.message for cause in error.causes]
        raise PageError(error.code, error.message, causes=causes, retry_after=error.retry_after) from None
