"""The audit in the console: a page with filters and parts, and lines on the pages of objects."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.component.gateway.memory_records import START
from tests.component.gateway.test_access import allow
from tests.component.gateway.test_audit_events import audited, refused
from tests.console.test_pages import text_of
from tests.console.test_sessions import log_in, world_of
from tests.console.world import ConsoleWorld, KeptFront, some_cluster, some_fleet

from moorage.console.api import ApiClient
from moorage.console.audit_lines import FRESH, AuditLines, AuditPart

AUDITOR = {"verbs": ["get", "list"], "apiGroups": ["moorage.io"], "resources": ["auditevents"]}
OBJECTS = (
    "/console/targets/Node/n04",
    "/console/workloads/Pod/default/web-1",
    "/console/objects/evictionpauses/-/migration",
)


@pytest.fixture
def world() -> ConsoleWorld:
    made = ConsoleWorld()
    some_fleet(made)
    return made


def lines(html: str) -> list[str]:
    """User, verb and object of each line."""
    found = re.findall(r"<tr><td><time.*?</tr>", html, re.DOTALL)
    return [" ".join(text_of(one).partition(" ago ")[2].split()[:4]) for one in found]


async def test_an_act_in_the_console_is_on_the_page_and_on_that_of_its_object(world: ConsoleWorld) -> None:
    async with world.running():
        await world.ok("PATCH", "/api/v1/nodes/n04?fieldManager=tool", {"spec": {"unschedulable": True}})
        page = text_of((await world.page("/console/audit?kind=Node&name=n04")).text)
        assert "moorage:admin patch nodes n04 Success tool" in page
        html = (await world.page("/console/targets/Node/n04")).text
    section = html.partition('id="part-audit"')[2]
    assert "moorage:admin patch nodes n04 Success tool" in text_of(section)
    assert 'href="/console/targets/Node/n04"' in section


async def test_filters_and_parts(world: ConsoleWorld) -> None:
    audit = world.log.audit
    for number in range(120):
        audit.add(number % 3, audited(f"Node//n{number}", user="ann" if number % 2 else "bob"), START + number)
    audit.add(0, refused("secrets shop", user="eve"), START + 1_000)
    first = (await world.page("/console/audit")).text
    assert lines(first)[0] == "eve list secrets shop"
    assert len(lines(first)) == 50
    assert "Forbidden" in first
    older = re.search(r'href="([^"]*)" rel="next"', first)
    assert older is not None
    second = (await world.page(older[1].replace("&amp;", "&"))).text
    assert len(lines(second)) == 50
    assert not set(lines(first)) & set(lines(second))
    assert 'href="/console/audit">Newest' in second
    page = (await world.page("/console/audit?user=ann&verb=patch&name=n7")).text
    assert lines(page) == ["ann patch nodes n7"]
    assert lines((await world.page("/console/audit?outcome=Failure")).text) == ["eve list secrets shop"]
    assert lines((await world.page("/console/audit?namespace=shop")).text) == ["eve list secrets shop"]
    assert "No matching lines." in (await world.page("/console/audit?user=nobody,verb=x")).text


async def test_those_who_may_not_read_it_see_nothing_of_it(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    world.log.audit.add(0, audited("Node//n04", user="somebody-else"), START)
    everything = {"verbs": ["get", "list"], "apiGroups": ["*"], "resources": ["pods", "evictionpauses", "nodes"]}
    await allow(world, "readers", [{"kind": "User", "name": "bob"}, {"kind": "User", "name": "ann"}], everything)
    await allow(world, "auditors", [{"kind": "User", "name": "ann"}], AUDITOR)
    for user, sees in (("ann", True), ("bob", False)):
        world.http.cookies.clear()
        await log_in(world, user)
        answer = await world.page("/console/audit")
        assert answer.status_code == (200 if sees else 403)
        for path in OBJECTS:
            html = (await world.page(path)).text
            assert ("Who did what" in html) == sees, path
        assert ("somebody-else" in (await world.page(OBJECTS[0])).text) == sees


async def test_the_pages_of_a_cluster_have_its_own_lines() -> None:
    world = ConsoleWorld()
    some_fleet(world)
    some_cluster(world)
    world.log.audit.add(0, audited("east:Node//n04", user="in-east"), START)
    world.log.audit.add(0, audited("Node//n04", user="at-home"), START)
    for path, there, missing in (
        ("/clusters/east/console/targets/Node/n04", "in-east", "at-home"),
        ("/clusters/east/console/audit", "in-east", "at-home"),
    ):
        html = (await world.page(path)).text
        assert there in html
        assert missing not in html
    assert "in-east" in (await world.page("/console/audit")).text


async def test_a_page_is_shown_when_the_audit_is_not_read(world: ConsoleWorld) -> None:
    world.log.audit.fails = True
    answer = await world.page("/console/targets/Node/n04")
    assert answer.status_code == 200
    assert "audit cannot be read: no broker" in answer.text


async def test_a_live_page_reads_the_audit_seldom(world: ConsoleWorld) -> None:
    world.log.audit.add(0, audited("Node//n04"), START)
    await world.page("/console/targets/Node/n04")
    read = world.log.audit.read_positions
    assert read > 0
    for _ in range(3):
        await world.page("/console/targets/Node/n04")
    assert world.log.audit.read_positions == read


async def test_what_is_kept_of_the_audit_becomes_old() -> None:
    front, now = KeptFront(), [0.0]
    world = ConsoleWorld(front=front)
    await world.page("/")
    lines_read, kinds, api = AuditLines(lambda: now[0]), front.console._kinds, ApiClient(world.app)

    async def count() -> int:
        return len((await lines_read.read(api, kinds, {"limit": "5"})).lines)

    assert await count() == 0
    world.log.audit.add(0, audited(), START)
    now[0] = FRESH - 0.1
    assert await count() == 0, "what was read before"
    now[0] = FRESH
    assert await count() == 1


async def test_a_page_does_not_wait_long_for_the_audit() -> None:
    async def hangs(*_: Any) -> None:
        await asyncio.Event().wait()

    front = KeptFront()
    await ConsoleWorld(front=front).page("/")
    found = await AuditLines().read(ApiClient(hangs), front.console._kinds, {}, patience=0)
    assert found == AuditPart(missing="the audit was not read in time")
