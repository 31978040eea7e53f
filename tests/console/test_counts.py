"""Counts and names agree wherever they are shown: console, API, `moorage get nodes` and `moorage status`."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from tests.component.gateway.double import NOW
from tests.console.test_pages import text_of
from tests.console.world import UNREACHABLE, ConsoleWorld

from moorage.decide.kubernetes.object_texts import node_status
from moorage.insight.survey.fleet_survey import FleetSurvey


def mixed() -> ConsoleWorld:
    """A fleet in which targets that are not ready are held, cordoned, or both."""
    world = ConsoleWorld()
    for number in range(1, 6):
        world.node(f"n{number}", "eu/eu-1" if number < 4 else "", **({"unschedulable": True} if number > 3 else {}))
        world.condition(f"n{number}", "False")
        world.taint(f"n{number}", UNREACHABLE, held="" if number < 3 else "zone eu/eu-1 grants 0.1/s")
    world.node("n6", "eu/eu-1", unschedulable=True)
    world.condition("n6", "True")
    world.node("n7", "eu/eu-1")
    world.zone("/", not_ready=2, nodes=2)
    return world


async def objects(world: ConsoleWorld, path: str) -> list[dict[str, Any]]:
    answer = await world.http.get(path)
    assert answer.status_code == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def test_a_held_or_cordoned_target_counts_by_its_health() -> None:
    world = mixed()
    survey = FleetSurvey(NOW)
    survey.add_targets("nodes", await objects(world, "/api/v1/nodes"))
    assert survey.document()["targets"]["nodes"] == {
        "Ready": 1,
        "NotReady": 5,
        "Unknown": 0,
        "Unreported": 1,
        "Cordoned": 3,
    }
    shown = Counter(node_status(one).partition(",")[0] for one in await objects(world, "/api/v1/nodes"))
    assert shown == {"NotReady": 5, "Ready": 1, "Unreported": 1}
    page = text_of((await world.page("/")).text)
    assert "Nodes 7 Ready 1 Unreported 1 Unknown 0 NotReady 5 Tainted 5 Taint held 3 Cordoned 3" in page
    html = (await world.page("/console/targets?state=NotReady")).text
    assert len(re.findall(r'id="target-Node-', html)) == 5


async def test_nodes_without_a_zone_are_in_the_zone_none_everywhere() -> None:
    world = mixed()
    zones = await objects(world, "/apis/moorage.io/v1alpha1/zones")
    assert [one["metadata"]["name"] for one in zones] == ["none"]
    for path in (
        "/",
        "/console/zones",
        "/console/zones/none",
        "/console/targets?zone=none",
        "/console/targets/Node/n4",
    ):
        page = text_of((await world.page(path)).text)
        assert re.search(r"\bnone\b", page), path
        assert "No zone" not in page
    assert re.findall(r'id="target-Node-(\w+)"', (await world.page("/console/targets?zone=none")).text) == ["n4", "n5"]
    assert "Zone none" in text_of((await world.page("/console/targets/Node/n4")).text)


async def test_the_map_shows_taints_what_is_held_and_what_is_cordoned() -> None:
    world = mixed()
    world.taint("n7", "example.com/slow", effect="PreferNoSchedule")
    html = (await world.page("/")).text
    cells = dict(re.findall(r'<(?:a|span) class="(s-[\w -]+)"[^>]* title="(\w+):', html))
    assert cells == {
        "s-notready t-evicts": "n2",
        "s-notready t-evicts t-held": "n3",
        "s-notready t-evicts t-held t-cordoned": "n5",
        "s-ready t-cordoned": "n6",
        "s-unreported t-avoided": "n7",
    }
    for word in ("Legend", "NoExecute", "NoSchedule", "PreferNoSchedule", "Taint held: a taint waits"):
        assert word in text_of(html)
