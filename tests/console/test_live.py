"""What follows an open page: what is sent, when, and to whom."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse
from tests.component.gateway.test_access import allow
from tests.console.test_sessions import TOKENS, log_in
from tests.console.world import BROWSER, ConsoleWorld, KeptFront, some_fleet
from tests.support.identities import written

from moorage.console import live
from moorage.runtime.settings.process_settings import Settings


class Following:
    """The events of one page."""

    def __init__(self, events: AsyncIterator[Any]) -> None:
        self._events = events

    async def next(self) -> str:
        """The next event or comment."""
        async with asyncio.timeout(120):
            return bytes(await anext(self._events)).decode()

    async def is_quiet(self) -> bool:
        """Whether nothing comes for longer than two events are apart."""
        try:
            async with asyncio.timeout(3 * live.PAUSE):
                await anext(self._events)
        except TimeoutError:
            return True
        return False


@pytest.fixture
def kept() -> KeptFront:
    return KeptFront()


@contextlib.asynccontextmanager
async def following(kept: KeptFront, query: str, last: str = "", cookie: str = "") -> AsyncIterator[Following]:
    """Follow a page."""
    headers = [(b"host", b"localhost"), *([(b"last-event-id", last.encode())] if last else [])]
    headers += [(b"cookie", cookie.encode())] if cookie else []
    scope = {
        "type": "http",
        "scheme": "http",
        "method": "GET",
        "path": "/console/live",
        "query_string": query.encode(),
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
    }
    answer = await kept.console._counted("live", kept.console._live)(Request(scope))
    assert isinstance(answer, StreamingResponse), bytes(answer.body)
    assert answer.headers["cache-control"] == "no-store"
    events: Any = answer.body_iterator
    try:
        found = Following(events)
        assert await found.next() == "retry: 1000\n\n"
        yield found
    finally:
        await events.aclose()


def parts(event: str) -> list[str]:
    """The parts of a page that an event has."""
    return re.findall(r'<div id="part-(\w+)" class="part" hx-swap-oob="outerMorph">', event)


def world_of(kept: KeptFront, **settings: Any) -> ConsoleWorld:
    world = ConsoleWorld(front=kept, settings=Settings(**settings))
    world.app.middleware_stack = world.app.build_middleware_stack()  # otherwise the first request makes it
    some_fleet(world)
    return world


async def test_only_parts_that_look_different_are_sent(kept: KeptFront) -> None:
    world = world_of(kept)
    async with following(kept, f"page=/&since={world.store.version}") as page:
        world.evicting("web-3", "n03", "Requested")
        event = await page.next()
        assert parts(event) == ["trends", "evicting"]
        assert "web-3" in event
        assert f"id: {world.store.version}\n" in event
        world.condition("n03", "False")
        assert parts(await page.next()) == ["totals", "trends", "zones"]


async def test_changes_that_come_together_are_one_event(kept: KeptFront) -> None:
    world = world_of(kept)
    async with following(kept, f"page=/&since={world.store.version}") as page:
        for number in range(10, 30):
            world.condition(f"n{number}", "False")
        told = await page.next()
        assert "21" in re.sub(r"<[^>]*>", " ", told)
        assert await page.is_quiet()


async def test_a_page_that_is_dear_once_is_not_late_the_next_time(
    kept: KeptFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(kept)
    dear = {3: 60.0}  # the second time that the page is made
    spent = itertools.accumulate(dear.get(call, 0.0) for call in itertools.count())
    monkeypatch.setattr(time, "thread_time", lambda: next(spent))
    async with following(kept, f"page=/&since={world.store.version}") as page:
        for name in ("n03", "n04", "n06"):
            world.condition(name, "False")
            assert parts(await page.next()) == ["totals", "trends", "zones"]


async def test_what_the_page_does_not_show_sends_nothing(kept: KeptFront) -> None:
    world = world_of(kept)
    async with following(kept, f"page=/console/targets/Node/n04&since={world.store.version}") as page:
        world.condition("n07", "False")
        world.namespace("other")
        assert await page.is_quiet()


async def test_a_page_that_shows_the_present_gets_nothing_first(kept: KeptFront) -> None:
    world = world_of(kept)
    async with following(kept, f"page=/&since={world.store.version}") as page:
        assert await page.is_quiet()


@pytest.mark.parametrize("since", ["", "&since=1", "&since=999999", "&since=x"])
async def test_a_page_that_shows_something_else_gets_everything_first(kept: KeptFront, since: str) -> None:
    world_of(kept)
    async with following(kept, f"page=/{since}") as page:
        assert parts(await page.next()) == ["totals", "trends", "zones", "taints", "evicting", "waiting"]


async def test_a_page_goes_on_after_the_last_event_that_it_has(kept: KeptFront) -> None:
    world = world_of(kept)
    loaded = world.store.version
    world.condition("n03", "False")
    async with following(kept, f"page=/&since={loaded}", last=str(world.store.version)) as page:
        assert await page.is_quiet()
    async with following(kept, f"page=/&since={loaded}") as page:
        assert "totals" in parts(await page.next())


async def test_the_query_of_a_page_counts(kept: KeptFront) -> None:
    world = world_of(kept)
    query = "page=%2Fconsole%2Ftargets%3Fstate%3DNotReady"
    async with following(kept, f"{query}&since={world.store.version}") as page:
        world.condition("n03", "False")
        assert sorted(re.findall(r'id="target-Node-(\w+)"', await page.next())) == ["n01", "n03"]


@pytest.mark.parametrize("page", ["", "/api/v1/nodes", "/console/none", "https://evil.example/", "/console/live"])
async def test_what_is_no_page_cannot_be_followed(page: str) -> None:
    world = ConsoleWorld()
    answer = await world.http.get("/console/live", params={"page": page})
    assert answer.status_code == 404


async def test_a_page_ends_with_the_gateway(kept: KeptFront) -> None:
    world = world_of(kept)
    async with following(kept, f"page=/&since={world.store.version}") as page:
        waiting = asyncio.ensure_future(page.next())
        await asyncio.sleep(0)
        world.store.history.close()
        with pytest.raises(StopAsyncIteration):
            await waiting


async def test_a_page_follows_only_what_its_user_may_see_now(kept: KeptFront, tmp_path: Path) -> None:
    world = ConsoleWorld(front=kept, settings=Settings(token_auth_file=written(tmp_path, "tokens.csv", TOKENS)))
    some_fleet(world)
    rules = [{"verbs": ["get", "list"], "apiGroups": ["", "moorage.io"], "resources": ["nodes", "evictions"]}]
    await allow(world, "look", [{"kind": "User", "name": "bob"}], *rules)
    cookie = (await log_in(world, "bob")).headers["set-cookie"].partition(";")[0]
    async with following(kept, f"page=/&since={world.store.version}", cookie=cookie) as page:
        world.evicting("web-3", "n03", "Requested")
        event = await page.next()
        assert "web-3" in event
        root = {"authorization": "Bearer root"}
        await world.call("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/look", headers=root)
        world.evicting("web-4", "n04", "Requested")
        event = await page.next()
        assert "web-4" not in event
        assert "You lack permission to list evictions." in event


async def test_a_page_counts_as_a_watch_of_its_user(kept: KeptFront) -> None:
    world = world_of(kept, max_watches_per_user=1)
    async with following(kept, "page=/"):
        answer = await world.http.get("/console/live", params={"page": "/"})
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "1"


async def test_an_open_page_is_no_request_in_flight(kept: KeptFront) -> None:
    world = world_of(kept, max_requests_in_flight=4)
    async with (
        world.served() as address,
        httpx.AsyncClient(base_url=address, limits=httpx.Limits(max_connections=20)) as http,
        contextlib.AsyncExitStack() as pages,
    ):
        for _ in range(8):
            answer = await pages.enter_async_context(http.stream("GET", "/console/live", params={"page": "/"}))
            assert answer.status_code == 200
            assert await anext(answer.aiter_lines()) == "retry: 1000"  # its first look at the API has ended
        assert (await http.get("/", headers={"accept": BROWSER})).status_code == 200
