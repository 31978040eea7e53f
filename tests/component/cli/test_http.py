"""The HTTP client of the command line, with servers on loopback."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from moorage.cli.api.http import Connections, HttpError, RefusedError, Request

Script = Callable[[socket.socket, bytes], bool]
"""Answers one request. Returns whether the connection stays open."""


class Server:
    """Accepts connections and answers each request with a script, which gets the raw bytes."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.seen: list[bytes] = []
        self.closed = threading.Event()
        """Set when the server has closed a connection."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            while request := self._request(connection):
                self.seen.append(request)
                if not self._script(connection, request):
                    break
        self.closed.set()

    @staticmethod
    def _request(connection: socket.socket) -> bytes:
        found = b""
        while b"\r\n\r\n" not in found:
            if not (more := connection.recv(65536)):
                return b""
            found += more
        head, _, body = found.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"), 0)
        while len(body) < length:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body


def ok(connection: socket.socket, _: bytes) -> bool:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-One: a\r\nx-one: b\r\ncontent-length: 2\r\n\r\n{}")
    return True


def once(connection: socket.socket, request: bytes) -> bool:
    ok(connection, request)
    return False


@pytest.fixture
def serve(request: pytest.FixtureRequest) -> Callable[[Script], Server]:
    def make(script: Script) -> Server:
        server = Server(script)
        request.addfinalizer(server.close)
        return server

    return make


Serve = Callable[[Script], Server]


def test_a_thread_keeps_its_connection(serve: Serve) -> None:
    server = serve(ok)
    with closing(Connections(server.address)) as http:
        answer = http.send(Request("GET", "/a?b=c", {"x-two": "d"}))
        http.send(Request("POST", "/b", {}, b"body"))
    assert (answer.status, answer.content, answer.all("x-one"), answer.is_error) == (200, b"{}", ["a", "b"], False)
    assert server.connections == 1
    first, second = server.seen
    assert first.startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert b"\r\nx-two: d\r\n" in first
    assert f"\r\nhost: 127.0.0.1:{server.port}\r\n".encode() in first
    assert second.endswith(b"\r\n\r\nbody")


def test_a_connection_that_the_server_has_closed_is_replaced(serve: Serve) -> None:
    server = serve(once)
    with closing(Connections(server.address)) as http:
        http.send(Request("POST", "/a", {}, b"1"))
        assert server.closed.wait(10)
        http.send(Request("POST", "/a", {}, b"2"))
    assert server.connections == 2
    assert [one[-1:] for one in server.seen] == [b"1", b"2"]  # none was sent twice


def test_a_server_that_ends_without_an_answer_is_not_asked_again(serve: Serve) -> None:
    server = serve(lambda _, __: False)
    with closing(Connections(server.address)) as http, pytest.raises(HttpError, match="without response"):
        http.send(Request("POST", "/a", {}, b"1"))
    assert len(server.seen) == 1


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with closing(Connections(f"http://127.0.0.1:{port}")) as http:
        with pytest.raises(HttpError, match="refused"):
            http.send(Request("GET", "/"))
        with pytest.raises(HttpError, match="refused"):
            next(http.lines(Request("GET", "/"), silence=30))


def chunks(*parts: bytes, whole: bool, end: bool = True) -> Script:
    """A chunked answer. It breaks off if not `whole`, and stays open without an end if not `end`."""

    def script(connection: socket.socket, _: bytes) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for part in parts:
            connection.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        if whole and end:
            connection.sendall(b"0\r\n\r\n")
        return whole

    return script


def test_lines_come_one_by_one_until_the_server_ends_them(serve: Serve) -> None:
    server = serve(chunks(b"on", b"e\ntwo\n", b"three", whole=True))
    with closing(Connections(server.address)) as http:
        assert list(http.lines(Request("GET", "/"), silence=30)) == [b"one", b"two", b"three"]


def test_lines_that_break_off_are_an_error(serve: Serve) -> None:
    server = serve(chunks(b"one\n", b"tw", whole=False))
    with closing(Connections(server.address)) as http:
        lines = http.lines(Request("GET", "/"), silence=30)
        assert next(lines) == b"one"
        with pytest.raises(HttpError):
            list(lines)


def test_a_silent_stream_counts_as_broken_off(serve: Serve) -> None:
    server = serve(chunks(b"one\n", whole=True, end=False))
    with closing(Connections(server.address)) as http:
        lines = http.lines(Request("GET", "/"), silence=0.01)
        assert next(lines) == b"one"
        with pytest.raises(HttpError, match="timed out"):
            next(lines)


def test_a_stream_that_is_refused_has_its_answer(serve: Serve) -> None:
    def gone(connection: socket.socket, _: bytes) -> bool:
        connection.sendall(b"HTTP/1.1 410 Gone\r\ncontent-length: 4\r\n\r\ngone")
        return True

    with closing(Connections(serve(gone).address)) as http, pytest.raises(RefusedError) as refused:
        list(http.lines(Request("GET", "/"), silence=30))
    assert (refused.value.answer.status, refused.value.answer.text) == (410, "gone")


def test_an_address_may_have_a_user_and_a_path(serve: Serve) -> None:
    server = serve(ok)
    with closing(Connections(f"http://ada:s%40t@127.0.0.1:{server.port}/moorage/")) as http:
        http.send(Request("GET", "/api"))
    (sent,) = server.seen
    assert sent.startswith(b"GET /moorage/api HTTP/1.1\r\n")
    assert b"\r\nauthorization: Basic " + base64.b64encode(b"ada:s@t") in sent
    assert b"s@t" not in sent


@pytest.fixture
def proxied(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Server:
    proxy = serve(once)
    for name in ("no_proxy", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", f"http://me:pw@127.0.0.1:{proxy.port}")
    return proxy


def test_a_server_elsewhere_is_asked_through_the_proxy(proxied: Server) -> None:
    with closing(Connections("http://gateway.example:8080")) as http:
        http.send(Request("GET", "/api"))
    (sent,) = proxied.seen
    assert sent.startswith(b"GET http://gateway.example:8080/api HTTP/1.1\r\n")
    assert b"\r\nhost: gateway.example:8080\r\n" in sent
    assert b"\r\nproxy-authorization: Basic " + base64.b64encode(b"me:pw") in sent


def test_a_server_here_is_not(proxied: Server, serve: Serve) -> None:
    server = serve(ok)
    with closing(Connections(server.address)) as http:
        http.send(Request("GET", "/api"))
    assert (len(server.seen), proxied.seen) == (1, [])


def test_https_goes_through_a_tunnel(proxied: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"127.0.0.1:{proxied.port}")
    # The proxy opens the tunnel, and closes it before TLS can begin.
    with closing(Connections("https://gateway.example")) as http, pytest.raises(HttpError):
        http.send(Request("GET", "/api"))
    assert proxied.seen[0].startswith(b"CONNECT gateway.example:443 HTTP/1.")


@pytest.mark.parametrize("address", ["ftp://a", "http://", "http://[bad", "http://a:port"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Connections(address)


def test_a_proxy_that_does_not_speak_http_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1080")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ValueError, match="socks5"):
        Connections("http://gateway.example")
