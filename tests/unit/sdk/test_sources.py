"""The source of decisions over HTTP, with a gateway in memory."""

from __future__ import annotations

import httpx
import pytest

from moorage_sdk.errors import TransportError
from moorage_sdk.settings import Connection
from moorage_sdk.sources import Decision, HttpSource, Item, Present, Reset
from moorage_sdk.targets import Targets


async def items(source: HttpSource) -> list[Item]:
    """What a source gives until the gateway ends the stream."""
    found = list[Item]()

    async def take() -> None:
        async for item in source.read():
            found.append(item)

    with pytest.raises(TransportError, match="has ended the stream"):
        await take()
    return found


async def test_decisions_have_the_trace_contexts_that_the_gateway_sends() -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"

    def answered(_: httpx.Request) -> httpx.Response:
        plain, traced = '{"key": "k", "value": null}', f'{{"key": "k", "value": null, "traceparent": "{trace}"}}'
        events = "".join(f"event: evictions\ndata: {data}\n\n" for data in (plain, traced))
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=events)

    source = HttpSource(Connection(server="http://h"), Targets(["Node/*"]), httpx.MockTransport(answered))
    assert await items(source) == [Decision("evictions", "k", None), Decision("evictions", "k", None, trace)]
    await source.stop()


@pytest.mark.parametrize(
    ("server", "path"),
    [
        ("http://gateway:8080/", "/v1/decisions"),
        ("https://gateway/clusters/east", "/clusters/east/v1/decisions"),
    ],
)
async def test_the_address_of_a_cluster_is_that_of_a_gateway(server: str, path: str) -> None:
    asked = list[httpx.Request]()

    def answered(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        events = "event: reset\nid\ndata: {}\n\nevent: present\nid: 7\ndata: {}\n\n"
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, text=events)

    source = HttpSource(Connection(server=server), Targets(["Node/*"]), httpx.MockTransport(answered))
    assert await items(source) == [Reset(), Present()]
    assert await items(source) == [Reset(), Present()]
    await source.stop()
    assert [request.url.path for request in asked] == [path] * 2
    assert asked[0].url.params["target"] == "Node/*"
    assert asked[1].headers["last-event-id"] == "7"
