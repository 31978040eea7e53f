"""The console in front of the API: it answers a browser's `/` and `/console/…`, and passes on all other requests."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

import structlog
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from moorage.console.api import READY, ApiClient, ClusterChoice
from moorage.console.audit_lines import AuditLines
from moorage.console.fleet_index import INDEXED, FleetIndex
from moorage.console.host import (
    CLUSTER,
    LIVE,
    LOGIN,
    LOGOUT,
    OWN,
    Host,
    PageError,
    bad_request,
    cluster_of,
    own_address,
    path_of,
)
from moorage.console.kinds import Kinds
from moorage.console.live import Follower
from moorage.console.pages import ACTIONS, PAGES
from moorage.console.rendering import Pages, StaticFiles
from moorage.console.rights import ROLE_KINDS, Reviews, Rights
from moorage.console.sessions import (
    TOKEN_LIMIT,
    LoginNeededError,
    Session,
    Sessions,
    check_same_site,
    forget,
    remember,
    with_token,
)
from moorage.console.views import Action, ConsolePage, Content, FleetReader, Form, PageView
from moorage.console.watches import Watches, settle

_log = structlog.get_logger(__name__)

CLUSTERS_SHOWN: Final = 20
"""The most clusters in the menu of each page. The list of clusters has all."""

_HOME_ONLY: Final = "This page exists for the home fleet only."

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The content security policy: only files of this server are loaded, and nothing inline runs."""

_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_FORM_LIMIT: Final = 64 * 1024
_LOGIN_LIMIT: Final = 16 * 1024
"""Bytes of the login's form: a token of which each character may take three, and a page of the console."""

LOGIN_SECONDS: Final = 5.0
"""Seconds within which the form of a login must come, because it needs no credentials."""

FORM_SECONDS: Final = 60.0
"""Seconds within which a form of a user must come."""

_FORM: Final = "application/x-www-form-urlencoded"
_FIELDS: Final = 1_000
_NOTICE: Final = "moorage-console-notice"
"""The cookie that takes what an action has done to the next page."""

_NOTICE_SECONDS: Final = 30
_NOTICE_LIMIT: Final = 2_000
_SEE_OTHER: Final = 303
_NOT_FOUND: Final = 404
_READING: Final = ["GET", "HEAD"]
_AGAIN: Final = 0.2  # seconds after which it is tried again to read the fleet

Handler = Callable[[Request], Awaitable[Response]]


class Console:
    """Answers what is the console's. Raises OSError if the key that gateways share cannot be read."""

    def __init__(
        self, app: ASGIApp, host: Host, pages: tuple[ConsolePage, ...] = PAGES, actions: tuple[Action, ...] = ACTIONS
    ) -> None:
        self._app = app
        self._host = host
        self._sessions = Sessions(host)
        self._static = StaticFiles()
        self._kinds = Kinds()
        self._pages = Pages(self._static, self._kinds)
        self._api = ApiClient(host.api)
        """The API of the home fleet, as the console itself calls it."""

        self.watches = Watches(self._api, self._kinds, (*INDEXED, *ROLE_KINDS))
        self._roles_changed_at = 0
        self._reviews = Reviews(self._api, lambda: self._roles_changed_at)
        self._audit = AuditLines()
        self._mirrored = ClusterChoice(self._api)
        self._fleets: dict[str, FleetIndex] = {}
        """The indexes of the fleets' pages, by the clusters that were opened."""

        self._page_routes = [Route(page.path, self._page(page), methods=_READING) for page in pages]
        self._of_path = {page.path: page for page in pages}
        self._router = Router(
            [
                Route("/console/static/{name}", self._counted("static", self._file), methods=_READING),
                Route(LOGIN, self._counted("login", self._login), methods=[*_READING, "POST"]),
                Route(LOGOUT, self._counted("logout", self._logout), methods=["POST"]),
                Route(LIVE, self._counted("live", self._live), methods=["GET"]),
                *self._page_routes,
                *(Route(action.path, self._action(action), methods=["POST"]) for action in actions),
                Route("/{path:path}", self._counted("unknown", self._unknown)),
            ]
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the console's requests, and pass all others on."""
        if scope["type"] == "lifespan":  # lasts as long as the gateway
            async with self._prepared():
                await self._app(scope, receive, send)
        elif scope["type"] == "http" and (own := _own(scope)) is not None:
            await self._router(own, receive, send)
        else:
            await self._app(scope, receive, send)

    @property
    def fleet(self) -> FleetIndex:
        """The index of the home fleet's page."""
        return self._index("")

    @contextlib.asynccontextmanager
    async def _prepared(self) -> AsyncIterator[None]:
        """Prepare the first page in the background within the context."""
        task = asyncio.create_task(self._prepare(), name="console-prepare")
        try:
            yield
        finally:
            ended = [task, *self._mirrored.tasks, *self.watches.tasks]
            for one in ended:
                one.cancel()
            await asyncio.gather(*ended, return_exceptions=True)

    async def _prepare(self) -> None:
        try:
            await self._pages.compile()
            while True:
                with contextlib.suppress(PageError):  # it is not ready yet, or a watch has ended
                    await self._api.read(READY)
                    await self._kinds.load(self._api)
                    await self.fleet.follow()
                await asyncio.sleep(_AGAIN)
        except Exception:  # noqa: BLE001 - pages do the same work, and show the error
            _log.exception("console.preparation_failed")

    def _page(self, page: ConsolePage) -> Handler:
        async def shown(request: Request) -> Response:
            view = await self._opened(request, await self._sessions.of(request), in_clusters=page.in_clusters)
            return self._shown(view, await page.handler(view))

        return self._counted("page", shown)

    def _action(self, action: Action) -> Handler:
        async def acted(request: Request) -> Response:
            session = await self._sessions.of(request)
            form = await self._form(request)
            self._sessions.check_form(request, session, form.get("csrf", ""))
            view = await self._opened(request, session, in_clusters=action.in_clusters)
            done = await action.handler(view, form)
            response = RedirectResponse(path_of(view.cluster) + own_address(done.back), _SEE_OTHER)
            notice = base64.urlsafe_b64encode(done.message[:_NOTICE_LIMIT].encode()).decode()
            response.set_cookie(
                _NOTICE,
                notice,
                max_age=_NOTICE_SECONDS,
                secure=request.url.scheme == "https",
                httponly=True,
                samesite="strict",
            )
            return response

        return self._counted("action", acted)

    async def _opened(self, request: Request, session: Session, *, in_clusters: bool) -> PageView:
        """Return the view of a request. Raises PageError: 404 if the page exists for the home fleet only."""
        if cluster_of(request) and not in_clusters:
            raise PageError(404, _HOME_ONLY)
        return await self._view(request, session, request.url.path, request.query_params, request.path_params)

    async def _view(
        self, request: Request, session: Session, path: str, query: QueryParams, params: Mapping[str, str]
    ) -> PageView:
        cluster = cluster_of(request)
        version = await self._version(session, cluster)
        rights = Rights(self._reviews, session.user, self._kinds, cluster)
        api = ApiClient(self._host.api, cluster)
        return PageView(
            request=request,
            path=path,
            query=query,
            params=params,
            session=session,
            rights=rights,
            reader=FleetReader(api, self._kinds, self.watches),
            fleet=self._index(cluster),
            api=ApiClient.of_request(self._app, request, cluster),
            kinds=self._kinds,
            describe=self._host.describe,
            audit=self._audit,
            version=version,
            now=self._host.clock.now(),
            clusters=[name async for name in self._shown_clusters(rights)],
        )

    async def _version(self, session: Session, cluster: str) -> int:
        """Return the present version of a fleet, which the watches show then."""
        await self._kinds.load(self._api)
        version = await self._api.version()
        await settle()
        for kind in ROLE_KINDS:
            self._roles_changed_at = max(self._roles_changed_at, (await self.watches.of(kind)).changed_at)
        if not cluster:
            return version
        await Rights(self._reviews, session.user, self._kinds, cluster).check_cluster()
        try:
            version = await ApiClient(self._host.api, cluster).version()
        except PageError as error:
            if error.code == _NOT_FOUND:
                self.watches.forget(cluster)
                self._fleets.pop(cluster, None)
            raise
        await settle()
        return version

    async def _shown_clusters(self, rights: Rights) -> AsyncIterator[str]:
        count = 0
        for name in await self._mirrored.names():
            if count < CLUSTERS_SHOWN and await rights.may_see_cluster(name):
                count += 1
                yield name

    def _index(self, cluster: str) -> FleetIndex:
        """Return the index of a fleet's page."""
        found = self._fleets.get(cluster)
        if found is None or found.is_over:
            found = self._fleets[cluster] = FleetIndex(self.watches, cluster)
        return found

    def _shown(self, view: PageView, content: Content) -> Response:
        notice = _notice(view.request)
        html = self._pages.page(view, content, notice=notice, behind=self._host.behind())
        response = HTMLResponse(html, content.code)
        if notice:
            response.delete_cookie(_NOTICE)
        return response

    async def _unknown(self, request: Request) -> Response:
        await self._sessions.of(request)
        raise PageError(404, "Page not found.")

    async def _file(self, request: Request) -> Response:
        found = self._static.get(request.path_params["name"])
        if found is None:
            raise PageError(404, "File not found.")
        content, media = found
        return Response(content, media_type=media, headers={"cache-control": _FOR_EVER})

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            goes_to = own_address(request.query_params.get("next", ""))
            return self._login_page(goes_to, ended="ended" in request.query_params)
        check_same_site(request)
        form = await self._form(request, _LOGIN_LIMIT, LOGIN_SECONDS)
        token, goes_to = form.get("token", "").strip(), own_address(form.get("next", ""))
        why = _unfit(token)
        if not why:
            try:
                scope = with_token({**request.scope, "headers": _without_credentials(request)}, token)
                await self._host.identify(Request(scope))
            except PageError as error:
                why = "The gateway does not accept this token." if error.code == 401 else error.message  # noqa: PLR2004 - unauthenticated
        if why:
            return self._login_page(goes_to, why=why)
        response = RedirectResponse(goes_to, _SEE_OTHER)
        remember(request, response, token)
        return response

    def _login_page(self, goes_to: str, *, ended: bool = False, why: str = "") -> Response:
        html = self._pages.bare("login.html", next=goes_to, ended=ended, why=why, limit=TOKEN_LIMIT)
        return HTMLResponse(html, 401 if why else 200)

    async def _logout(self, request: Request) -> Response:
        session = await self._sessions.of(request)
        form = await self._form(request)
        self._sessions.check_form(request, session, form.get("csrf", ""))
        response = RedirectResponse(LOGIN, _SEE_OTHER)
        forget(request, response)
        return response

    async def _live(self, request: Request) -> Response:
        session = await self._sessions.of(request)
        path, query, params, handler = self._followed(request.query_params.get("page", ""), cluster_of(request))

        async def again() -> tuple[PageView, Content]:
            present = await self._sessions.of(request)
            view = await self._view(request, present, path, query, params)
            return view, await handler(view)

        await self._version(session, cluster_of(request))  # raises if nothing can be shown yet
        opened = self._host.open_page(request)
        follower = Follower(self._pages, again, _shown_version(request))
        return StreamingResponse(
            self._followed_by(follower, opened), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )

    async def _followed_by(self, follower: Follower, opened: AbstractContextManager[None]) -> AsyncIterator[bytes]:
        with opened:
            async for event in follower.events():
                yield event

    def _followed(
        self, address: str, cluster: str
    ) -> tuple[str, QueryParams, Mapping[str, str], Callable[[PageView], Awaitable[Content]]]:
        """Return the page at an address: path, parameters, parts of the path, and what makes it."""
        if own_address(address) == address:
            parts = urlsplit(address)
            scope = {"type": "http", "method": "GET", "path": unquote(parts.path), "root_path": "", "headers": []}
            for route in self._page_routes:
                match, found = route.matches(scope)
                if match is Match.FULL and (not cluster or self._of_path[route.path].in_clusters):
                    return parts.path, QueryParams(parts.query), found["path_params"], self._of_path[route.path].handler
        raise PageError(404, "page: invalid value: must be the address of a page")

    def _counted(self, name: str, handler: Handler) -> Handler:
        """Wrap a handler: host names are checked, errors become pages, and each answer has its headers."""

        async def counted(request: Request) -> Response:
            began = time.monotonic()
            try:
                self._host.check_host(request)
                response = await handler(request)
            except LoginNeededError as error:
                response = _to_login(request, ended=error.ended)
            except PageError as error:
                response = self._failure(request, error)
            except Exception:  # noqa: BLE001 - after any error the browser gets a page, and the log gets the trace
                _log.exception("console.request_failed", method=request.method, path=request.url.path)
                response = self._failure(
                    request, PageError(500, "The gateway failed on this page. Its log has the reason.")
                )
            for header, value in _HEADERS.items():
                response.headers[header] = value
            response.headers.setdefault("cache-control", "no-store")
            seconds = time.monotonic() - began
            self._host.observe(request.method, f"console-{name}", response.status_code, seconds)
            return response

        return counted

    async def _form(self, request: Request, limit: int = _FORM_LIMIT, seconds: float = FORM_SECONDS) -> Form:
        """Return the fields of a form that has at most `limit` bytes, and comes within these seconds."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
            raise PageError(415, f"content-type: invalid value: must be {_FORM}")
        body = bytearray()
        with self._host.receiving(request) as hold:
            try:
                async with asyncio.timeout(seconds):
                    async for part in request.stream():
                        hold(len(part))
                        body += part
                        if len(body) > limit:
                            raise PageError(413, f"the form is too large: it must have at most {limit} bytes")
            except TimeoutError:
                raise PageError(408, f"the form did not come within {seconds:g} s") from None
            except ClientDisconnect:
                raise bad_request("the client disconnected before the form was read") from None
            return _fields_of(bytes(body))

    def _failure(self, request: Request, error: PageError) -> Response:
        html = self._pages.bare(
            "failure.html",
            code=error.code,
            message=error.message,
            causes=error.causes,
            user=getattr(request.state, "user", None),
            back=_referrer(request),
        )
        headers = {"retry-after": str(error.retry_after)} if error.retry_after else {}
        return HTMLResponse(html, error.code, headers=headers)


def _own(scope: Scope) -> Scope | None:
    """Return the scope of a request of the console, with the cluster whose page it is. None of a request of the API."""
    path: str = scope["path"]
    if path == "/":
        return scope if scope["method"] in _READING and _wants_page(scope) else None
    found = OWN.fullmatch(path)
    return {**scope, "path": found[2], CLUSTER: found[1] or ""} if found is not None else None


def _wants_page(scope: Scope) -> bool:
    """Return whether a browser sends the request. Programs accept JSON, or anything."""
    for name, value in scope["headers"]:
        if name == b"accept" and b"text/html" in value:
            return _most_wanted(value.decode("latin-1")) == "text/html"
    return False


def _most_wanted(accept: str) -> str:
    """Return the media type that a client wants most. Empty if it wants none of them."""
    wanted = []
    for number, clause in enumerate(accept.lower().split(",")):
        media, *parameters = (part.strip() for part in clause.split(";"))
        weight = next((part[2:] for part in parameters if part.startswith("q=")), "1")
        with contextlib.suppress(ValueError):
            if media and float(weight) > 0:
                wanted.append((-float(weight), number, media))
    return min(wanted)[2] if wanted else ""


def _to_login(request: Request, *, ended: bool) -> Response:
    """Redirect to the login, and from there back to the requested page."""
    if request.url.path == LIVE:
        return Response("log in\n", 401, media_type="text/plain")
    wanted = path_of(cluster_of(request)) + request.url.path + (f"?{request.url.query}" if request.url.query else "")
    goes_to = wanted if request.method in _READING else _referrer(request)
    query = QueryParams({"next": own_address(goes_to), **({"ended": "1"} if ended else {})})
    response = RedirectResponse(f"{LOGIN}?{query}", _SEE_OTHER)
    if ended:
        forget(request, response)
    return response


def _referrer(request: Request) -> str:
    """Return the page that a request came from, if it is one of the console."""
    with contextlib.suppress(ValueError):
        parts = urlsplit(request.headers.get("referer", ""))
        if parts.netloc == request.headers.get("host", ""):
            return own_address(parts.path + (f"?{parts.query}" if parts.query else ""))
    return "/"


def _fields_of(body: bytes) -> Form:
    """Return the fields of a form. The values of a repeated field are joined by commas."""
    try:
        pairs = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        raise PageError(400, "the form cannot be read: it must be UTF-8, with 1,000 fields at most") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields[name] = f"{fields[name]},{value}" if name in fields else value
    return fields


def _unfit(token: str) -> str:
    """Return why a text can be no token. Empty if it can."""
    if not token:
        return "Enter a token."
    if len(token.encode()) > TOKEN_LIMIT:
        return f"The token is too long: a browser keeps {TOKEN_LIMIT} bytes at most. Use a client certificate."
    return "" if token.isascii() and token.isprintable() else "Invalid token: expected printable ASCII characters."


def _without_credentials(request: Request) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request without its credentials, because the token of a form replaces them."""
    return [
        (name, value)
        for name, value in request.scope["headers"]
        if name != b"authorization" and not name.startswith(b"impersonate-")
    ]


def _notice(request: Request) -> str:
    with contextlib.suppress(ValueError):
        return base64.urlsafe_b64decode(request.cookies.get(_NOTICE, "").encode()).decode()
    return ""


def _shown_version(request: Request) -> int | None:
    """Return the version that a page shows already. None if it names none."""
    text = request.headers.get("last-event-id") or request.query_params.get("since", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004 - digits of a version
