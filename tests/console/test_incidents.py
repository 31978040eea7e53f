"""Incidents: what belongs to one, from the record of a zone; and its page, from everything that is kept."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.component.gateway.double import NOW
from tests.component.gateway.memory_records import START
from tests.component.gateway.test_access import allow
from tests.component.gateway.test_audit_events import audited
from tests.console.test_live import following
from tests.console.test_pages import text_of
from tests.console.test_sessions import log_in, world_of
from tests.console.world import ConsoleWorld, KeptFront, some_cluster, some_fleet
from tests.support.tables import table

from moorage.console.pages.incidents import incidents_of
from moorage_schemas.times import format_time

PAGE = "/console/incidents/us.us-1"
EARLIER = f"{PAGE}?since=2026-01-01T10:30:00Z"
STATES = {"N": "Normal", "P": "PartialDisruption", "F": "FullDisruption"}


def zone(letters: str) -> dict[str, Any]:
    """A zone with states of a minute each."""
    history = [
        {"state": STATES[letter], "since": format_time(NOW + timedelta(minutes=number)), "nodes": 4, "notReady": number}
        for number, letter in enumerate(letters)
    ]
    return {"metadata": {"name": "eu.eu-1"}, "status": {"history": history}}


@table(
    ("letters", "found"),
    [
        ("", ""),
        ("N", ""),
        ("NP", "P1-"),
        ("NPN", "P1-2"),
        ("NPFPN", "PFP1-4"),
        ("NPNNF", "F4- P1-2"),
        ("NPNFN", "F3-4 P1-2"),
        ("PN", "?P0-1"),
        ("FP", "?FP0-"),
        ("FPNP", "P3- ?FP0-2"),
    ],
)
def test_an_incident_is_from_normal_to_normal(letters: str, found: str) -> None:
    def minute(when: Any) -> str:
        return "" if when is None else str(int((when - NOW) / timedelta(minutes=1)))

    told = [
        f"{'' if one.is_whole else '?'}{''.join(spell.state[0] for spell in one.spells)}"
        f"{minute(one.begin)}-{minute(one.end)}"
        for one in incidents_of(zone(letters))
    ]
    assert " ".join(told) == found


@given(st.text("NPF", max_size=16))
def test_each_state_other_than_normal_is_in_one_incident(letters: str) -> None:
    found = incidents_of(zone(letters))
    assert sum(len(one.spells) for one in found) == len(letters) - letters.count("N")
    assert [one.begin for one in found] == sorted((one.begin for one in found), reverse=True)
    assert sum(one.end is None for one in found) == (not letters.endswith("N") and bool(letters))


@pytest.fixture
def world() -> ConsoleWorld:
    made = ConsoleWorld()
    some_fleet(made)
    return made


def rows(html: str) -> list[str]:
    """The rows of the timeline."""
    body = html.partition("<tbody>")[2].partition("</tbody>")[0]
    return [text_of(one).strip() for one in re.findall(r"<tr>.*?</tr>", body, re.DOTALL)]


async def test_the_timeline_has_everything_of_the_incident_in_its_order(world: ConsoleWorld) -> None:
    milliseconds = 60_000
    world.log.audit.add(0, audited("Node//n02", "patch", seconds=-60), START - milliseconds)
    world.log.audit.add(1, audited("EvictionPause//gone", "create", seconds=-120), START - 2 * milliseconds)
    world.log.audit.add(1, audited("EvictionPause//gone", "delete", seconds=-30), START - milliseconds // 2)
    world.log.audit.add(2, audited("Node//n01", "patch", seconds=-50), START - 50_000)
    world.log.audit.add(2, audited("Node//n02", "patch", seconds=-7_200), START - 120 * milliseconds)
    html = (await world.page(PAGE)).text
    told = " | ".join(rows(html))
    for line in (
        "11:56:00 Zone us/us-1 PartialDisruption 7 of 12 nodes not ready",
        "11:58:00 Health Node n02 Unknown",
        "11:59:10 Health Node n05 Unknown",
        "Taints Node n02 Tainted node.kubernetes.io/unreachable:NoExecute",
        "Evictions default/web-2 from n02 Held PodDisruptionBudget/default/web",
        "11:59:00 People nodes n02 patch by ann",
        "11:58:00 People evictionpauses gone create by ann",
        "11:59:30 People evictionpauses gone delete by ann",
    ):
        assert line in told, line
    assert "n01" not in told, "it is in another zone"
    assert told.count("People nodes n02") == 1, "the other was two hours before"
    times = [one[:8] for one in rows(html)]
    assert times == sorted(times)
    assert "Not yet" in html
    assert 'aria-label="Incident of us/us-1.' in html


async def test_an_incident_that_has_ended_ends_on_its_page(world: ConsoleWorld) -> None:
    world.log.audit.add(0, audited("Node//n02", "patch", seconds=-85 * 60), START - 85 * 60_000)
    html = (await world.page(EARLIER)).text
    assert rows(html) == [
        "10:30:00 Zone us/us-1 FullDisruption 7 of 12 nodes not ready",
        "10:35:00 People nodes n02 patch by ann",
        "10:40:00 Zone us/us-1 Normal",
    ]
    assert "Lasted 10m" in text_of(html)


async def test_history_and_zone_lead_to_incidents(world: ConsoleWorld) -> None:
    for path in ("/console/history", "/console/history?part=Zones", "/console/zones/us.us-1"):
        html = (await world.page(path)).text
        for address in ("since=2026-01-01T11%3A56%3A00Z", "since=2026-01-01T10%3A30%3A00Z"):
            assert f'href="{PAGE}?{address}"' in html, path
    assert (await world.page(f"{PAGE}?since=2026-01-01T10%3A30%3A00Z")).status_code == 200


async def test_what_does_not_exist_is_not_found(world: ConsoleWorld) -> None:
    for path, why in (
        ("/console/incidents/nowhere", "not found"),
        ("/console/incidents/eu.eu-1", "no incident is kept"),
        (f"{PAGE}?since=yesterday", "since: invalid value"),
    ):
        answer = await world.page(path)
        assert answer.status_code == 404, path
        assert why in answer.text


async def test_a_user_sees_of_an_incident_what_they_may_list(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    world.log.audit.add(0, audited("Node//n02", "patch", user="somebody-else", seconds=-60), START - 60_000)
    rule = {"verbs": ["get", "list"], "apiGroups": ["moorage.io"], "resources": ["zones"]}
    await log_in(world, "bob")
    assert (await world.page(PAGE)).status_code == 403
    await allow(world, "zones", [{"kind": "User", "name": "bob"}], rule)
    told = text_of((await world.page(PAGE)).text)
    assert "PartialDisruption" in told
    for plural in ("events", "evictions", "evictionpauses", "auditevents"):
        assert f"You lack permission to list {plural}." in told
    for hidden in ("web-2", "somebody-else", "migration"):
        assert hidden not in told


async def test_the_page_is_live() -> None:
    front = KeptFront()
    world = ConsoleWorld(front=front)
    some_fleet(world)
    await world.page(PAGE)
    async with following(front, f"page={PAGE}") as events:
        assert "Not yet" in await events.next()
        past = ((180, "Normal"), (4, "PartialDisruption"), (0, "Normal"))
        world.zone("us/us-1", history=past)
        while "Normal" not in (event := await events.next()):
            pass
        assert 'id="part-timeline"' in event
        assert "Not yet" not in event


async def test_a_cluster_has_its_own_incidents() -> None:
    world = ConsoleWorld()
    some_fleet(world)
    some_cluster(world)
    told = text_of((await world.page(f"/clusters/east{PAGE}")).text)
    assert "us/us-1" in told
    assert "default/web-2 from n02" in told
    assert "migration" not in told, "pauses are of the home fleet"
