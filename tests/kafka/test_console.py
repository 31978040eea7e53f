"""The console of two gateways on a real broker, with HTTPS and tokens: a session counts at both, and both are live."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import httpx
import pytest
from tests.kafka.test_gateway_identities import ROOT, context, settings_of
from tests.support.brokers import Broker
from tests.support.certificates import Authority
from tests.support.gateways import running_gateway

from moorage.cli.local.pages import with_pages

pytestmark = pytest.mark.kafka

BROWSER = {"accept": "text/html,*/*;q=0.8"}


async def test_a_session_counts_at_every_gateway_and_each_follows_what_changes(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "pki")
    settings, trusted = settings_of(broker, topic_prefix, tmp_path, authority), context(authority)
    async with (
        running_gateway(settings, front=with_pages, verify=trusted) as leading,
        running_gateway(settings, front=with_pages, verify=trusted) as other,
    ):
        answer = await leading.post("/console/login", data={"token": "root-token", "next": "/"})
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"].partition(";")[0]
        assert cookie.startswith("__Host-")
        shown = {**BROWSER, "cookie": cookie}
        pages = [await one.get("/", headers=shown) for one in (leading, other)]
        assert [page.status_code for page in pages] == [200, 200]
        values = {re.findall(r'name="csrf" value="(\w+)"', page.text)[0] for page in pages}
        assert len(values) == 1, "a form of one gateway counts at the other"
        assert (await other.get("/", headers=BROWSER)).status_code == 303
        assert "/api" in (await other.get("/", headers=ROOT)).json()["paths"]

        (address,) = re.findall(r'hx-sse:connect="([^"]+)"', pages[1].text)
        async with other.stream("GET", address.replace("&amp;", "&"), headers=shown) as stream:
            events = stream.aiter_text()
            assert (await anext(events)).startswith("retry:")
            made = await leading.post("/api/v1/nodes", json={"metadata": {"name": "n-new"}}, headers=ROOT)
            assert made.status_code == 201
            began = time.monotonic()
            async with asyncio.timeout(120):
                while "n-new" not in await anext(events):
                    pass
            waited = time.monotonic() - began
            assert waited < 10, waited


async def test_a_page_of_another_site_writes_nothing_through_a_gateway_that_forwards(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    authority = Authority(tmp_path / "pki")
    settings, trusted = settings_of(broker, topic_prefix, tmp_path, authority), context(authority)
    ann = context(authority, authority.sign("ann"))
    async with (
        running_gateway(settings, front=with_pages, verify=trusted),
        running_gateway(settings, front=with_pages, verify=trusted) as other,
        httpx.AsyncClient(base_url=other.base_url, verify=ann) as http,
    ):
        for headers in ({"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}):
            answer = await http.post("/api/v1/nodes", json={"metadata": {"name": "n1"}}, headers=headers)
            assert answer.status_code == 403
            assert "pages of other sites" in answer.json()["message"]
