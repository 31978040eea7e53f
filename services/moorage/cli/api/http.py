"""Requests over HTTP with the standard library, because a client library takes longer to import than a command may run.

Each thread keeps one connection open between its requests. A connection that the server has closed in the meantime is
replaced before a request is sent on it, so no request is ever sent twice.
"""

from __future__ import annotations

import http.client
import select
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from moorage.cli.api.credentials import NONE, Credentials

CONNECT_SECONDS: Final = 5.0
"""Seconds that a server may take to accept a connection."""

ANSWER_SECONDS: Final = 30.0
"""Seconds that a server may be silent while an answer is awaited or read."""

_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_FIRST_ERROR: Final = 400
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class HttpError(Exception):
    """There was no answer, or it was not HTTP. The text gives the reason."""


class RefusedError(Exception):
    """A stream was requested, and the answer is an error."""

    def __init__(self, answer: Response) -> None:
        super().__init__(f"HTTP {answer.status}")
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a server."""

    method: str
    path: str
    """With the query, quoted."""

    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A server's answer."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """In their order in the answer, with names in lower case."""

    content: bytes

    @property
    def is_error(self) -> bool:
        """Whether the request failed."""
        return self.status >= _FIRST_ERROR

    @property
    def text(self) -> str:
        """Return the content as text."""
        return self.content.decode("utf-8", "replace")

    def all(self, name: str) -> list[str]:
        """Return every value of a header."""
        return [value for known, value in self.headers if known == name]


class Transport(Protocol):
    """Carries requests to one server. Several threads may use it at once."""

    def send(self, request: Request) -> Response:
        """Send a request and return the whole answer. Raises HttpError if there was none."""

    def lines(self, request: Request, *, silence: float) -> Iterator[bytes]:
        """Send a request and return the lines of its answer as they arrive, until the server ends it.

        The server has begun to answer when this returns. The lines may raise `HttpError` if the answer is interrupted.
        After `silence` seconds without a byte, the answer counts as interrupted.

        Raises:
            RefusedError: the answer is an error.
            HttpError: there was none.
        """

    def close(self) -> None:
        """Close every connection."""


class Connections:
    """HTTP to one server. Uses the environment's proxy unless the server is on this machine.

    `server` is `http://` or `https://`, a host, and optionally a user, a port, and a path that precedes all paths. It
    may be silent for `patience` seconds. Raises ValueError if the address is invalid.
    """

    def __init__(self, server: str, *, patience: float | None = None, credentials: Credentials = NONE) -> None:
        parts = urlsplit(server)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(f"{server!r} is not http:// or https:// and a host")
        self._server = parts
        self._host = parts.hostname
        self._port = parts.port or _PORTS[parts.scheme]
        self._proxy = None if self._host in _LOOPBACK else _proxy(parts.scheme, self._host)
        self._credentials = credentials
        self._tls = credentials.tls() if parts.scheme == "https" else None
        self._headers = {"host": parts.netloc.rpartition("@")[2], **_credentials("authorization", parts)}
        self._target = parts.path.rstrip("/")
        if self._proxy is not None and parts.scheme == "http":  # the proxy reads the whole address from each request
            self._target = f"http://{self._headers['host']}{self._target}"
            self._headers |= _credentials("proxy-authorization", self._proxy)
        self._connect_seconds, self._answer_seconds = patience or CONNECT_SECONDS, patience or ANSWER_SECONDS
        self._own = threading.local()
        self._open: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()

    def send(self, request: Request) -> Response:
        """Send a request on this thread's connection and return the whole answer."""
        with _as_http_errors():
            connection: http.client.HTTPConnection | None = getattr(self._own, "connection", None)
            if connection is None or not _usable(connection):
                self._drop(connection)
                connection = self._own.connection = self._connect()
            try:
                return _whole(self._ask(connection, request))
            except BaseException:
                self._drop(connection)
                raise

    def lines(self, request: Request, *, silence: float) -> Iterator[bytes]:
        """Send a request on a connection of its own, and return the lines of its answer."""
        with _as_http_errors():
            connection = self._connect()
            try:
                response = self._ask(connection, request)
                refused = _whole(response) if response.status >= _FIRST_ERROR else None
                if connection.sock is not None:
                    connection.sock.settimeout(silence)
            except BaseException:
                self._drop(connection)
                raise
        if refused is not None:
            self._drop(connection)
            raise RefusedError(refused)
        return self._lines(connection, response)

    def _lines(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            rest = b""
            while True:
                with _as_http_errors():
                    # Not `readline`, which does not distinguish an interrupted chunked answer from one that has ended.
                    read = response.read1()
                *lines, rest = (rest + read).split(b"\n")
                yield from lines
                if not read:
                    if rest:
                        yield rest
                    return
        finally:
            self._drop(connection)

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()

    def _connect(self) -> http.client.HTTPConnection:
        if self._proxy is None:
            connection = self._connection(self._host, self._port)
        else:
            connection = self._connection(self._proxy.hostname or "", self._proxy.port or _PORTS[self._proxy.scheme])
            if self._server.scheme == "https":
                connection.set_tunnel(self._host, self._port, _credentials("proxy-authorization", self._proxy))
        connection.connect()
        connection.sock.settimeout(self._answer_seconds)
        with self._lock:
            self._open.add(connection)
        return connection

    def _connection(self, host: str, port: int) -> http.client.HTTPConnection:
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=self._connect_seconds, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=self._connect_seconds)

    def _ask(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        connection.putrequest(request.method, self._target + request.path, skip_host=True)
        for name, value in {**self._headers, **request.headers}.items():
            connection.putheader(name, value)
        for name, value in self._credentials.headers:  # of which some come more than once
            connection.putheader(name, value)
        if request.content is not None or request.method in _WITH_BODY:
            connection.putheader("content-length", str(len(request.content or b"")))
        connection.endheaders(request.content)
        return connection.getresponse()

    def _drop(self, connection: http.client.HTTPConnection | None) -> None:
        if connection is not None:
            connection.close()
            with self._lock:
                self._open.discard(connection)


def _usable(connection: http.client.HTTPConnection) -> bool:
    """Return whether an idle connection is still open. If the server has closed it, there is something to read."""
    return connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]


def _whole(response: http.client.HTTPResponse) -> Response:
    content = response.read()
    return Response(response.status, tuple((name.lower(), value) for name, value in response.getheaders()), content)


def _proxy(scheme: str, host: str) -> SplitResult | None:
    """Return the environment's proxy for a host (`HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`)."""
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415 - not needed for a local server

    known = getproxies()
    named = known.get(scheme) or known.get("all") or ""
    if not named or proxy_bypass(host):
        return None
    parts = urlsplit(named if "://" in named else f"http://{named}")
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"the proxy {named!r} is not http:// and a host")
    return parts


def _credentials(header: str, parts: SplitResult) -> dict[str, str]:
    """Return the header for the user and the password of an address. Empty if it has none."""
    if not parts.username:
        return {}
    both = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {header: f"Basic {b64encode(both.encode()).decode()}"}


@contextmanager
def _as_http_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        # The text of a system error begins with its number, which does not help a user.
        raise HttpError(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error
