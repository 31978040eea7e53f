"""Writes that the server asks to be sent again."""

from __future__ import annotations

import httpx
import pytest

from moorage.cli.api import client as api
from moorage.cli.api.client import Client
from moorage.cli.api.kinds import find
from moorage.cli.commands.simulate_request import HttpxTransport
from moorage.cli.errors import ServerError

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}


class Server:
    """A server that cannot take a number of requests, and says when to come back."""

    def __init__(self, *, refusals: int, code: int = 503, after: str | None = "2") -> None:
        self.requests: list[tuple[str, bytes]] = []
        self.pauses: list[float] = []
        self._refusals, self._code = refusals, code
        self._headers = {} if after is None else {"retry-after": after}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append((request.method, request.content))
        if len(self.requests) > self._refusals:
            return httpx.Response(201, json=NODE)
        status = {"kind": "Status", "message": "no gateway leads", "code": self._code}
        return httpx.Response(self._code, headers=self._headers, json=status)

    def client(self) -> Client:
        transport = HttpxTransport(httpx.MockTransport(self))
        return Client("http://127.0.0.1:1", transport=transport, wait=self.pauses.append)


def test_a_write_is_sent_again_as_it_was() -> None:
    server = Server(refusals=3)
    with server.client() as client:
        assert client.create(find("nodes"), "", NODE) == NODE
    assert len(server.requests) == 4
    assert len(set(server.requests)) == 1
    assert server.pauses == [2.0, 2.0, 2.0]


def test_it_is_not_sent_for_ever() -> None:
    server = Server(refusals=1000, after="999999999999999")
    with server.client() as client, pytest.raises(ServerError, match="no gateway leads"):
        client.create(find("nodes"), "", NODE)
    assert len(server.requests) == api.TRIES
    assert server.pauses == [api.LONGEST_PAUSE] * (api.TRIES - 1)


@pytest.mark.parametrize(
    ("code", "after"), [(503, None), (503, "soon"), (503, "-1"), (429, "1"), (504, "1"), (409, "1")]
)
def test_other_refusals_are_told_at_once(code: int, after: str | None) -> None:
    server = Server(refusals=1, code=code, after=after)
    with server.client() as client, pytest.raises(ServerError):
        client.create(find("nodes"), "", NODE)
    assert len(server.requests) == 1
    assert server.pauses == []


def test_a_read_is_not_sent_again() -> None:
    server = Server(refusals=1)
    with server.client() as client, pytest.raises(ServerError):
        client.get(find("nodes"), "", "n1")
    assert len(server.requests) == 1
