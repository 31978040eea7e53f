"""The console of a mirrored cluster: its pages, where they lead, who sees them, and what one does there."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.component.gateway.test_access import allow
from tests.component.gateway.test_clusters import ANN
from tests.component.query.edge import ADDRESS, Edge
from tests.component.query.following import Following
from tests.component.query.test_in_clusters import world as mirrored_world
from tests.console.test_pages import PAGES_OF_A_FLEET, text_of
from tests.console.test_sessions import TOKENS, csrf_in, log_in
from tests.console.world import BROWSER, ConsoleWorld, KeptFront, some_cluster, some_fleet
from tests.support.identities import written
from tests.support.tables import table

from moorage.apiserver.http.intake.explain import Explanations
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.console.host import own_address
from moorage.console.pages import PAGES
from moorage.console.rendering import HOME_ONLY, staying_in
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import RESOURCES

EAST = "/clusters/east"
_ONLY_HOME = tuple(f"/console/{name}" for name in HOME_ONLY)
_OF_HOME = ("/", "/console/objects/evictionpauses/-/migration")
IN_CLUSTERS = tuple(path for path in PAGES_OF_A_FLEET if path not in _OF_HOME and not path.startswith(_ONLY_HOME))
READ = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["nodes"]}
GET = {"verbs": ["get"], "apiGroups": ["moorage.io"], "resources": ["clusters"], "resourceNames": ["east"]}
CHANGE = ({**READ, "verbs": ["patch"]}, {**GET, "verbs": ["update"]})


@pytest.fixture
def world() -> ConsoleWorld:
    made = ConsoleWorld()
    made.node("at-home")
    some_cluster(made)
    return made


def links(html: str) -> list[str]:
    """Where a page leads."""
    return re.findall(r'\s(?:href|action)="([^"]*)"', html)


@pytest.mark.parametrize("path", IN_CLUSTERS)
async def test_each_page_of_a_cluster_leads_to_pages_that_there_are(world: ConsoleWorld, path: str) -> None:
    answer = await world.page(EAST + path)
    assert answer.status_code == 200, answer.text
    for link in links(answer.text):
        place = link.partition("?")[0].partition("#")[0]
        if place.startswith("/console/"):
            assert place.startswith((*_ONLY_HOME, "/console/actions/pause")), link
        elif place != "/":
            assert place.startswith((f"{EAST}/console", "#")) or not place, link
            if place.startswith(EAST) and "/actions/" not in place:
                assert (await world.page(link.replace("&amp;", "&"))).status_code == 200, link
    (live,) = re.findall(r'hx-sse:connect="([^"]*)"', answer.text) or ("",)
    assert not live or live.startswith(f"{EAST}/console/live?page=%2Fconsole")


@pytest.mark.parametrize("path", [path for path in PAGES_OF_A_FLEET if path.startswith(_ONLY_HOME)])
async def test_what_is_of_the_home_fleet_is_no_page_of_a_cluster(world: ConsoleWorld, path: str) -> None:
    answer = await world.page(EAST + path)
    assert answer.status_code == 404
    assert "This page exists for the home fleet only" in answer.text


def test_pages_of_the_home_fleet_alone_keep_their_addresses() -> None:
    of_home = {page.path.split("/")[2] for page in PAGES if not page.in_clusters}
    assert of_home == set(HOME_ONLY) - {"login", "logout", "static"}
    text = '<a href="/console/zones?a=b">=&#34;/console/zones</a><a href="/console"><a href="/"><img src="/console/x">'
    assert staying_in("east", text) == (
        '<a href="/clusters/east/console/zones?a=b">=&#34;/console/zones</a><a href="/clusters/east/console">'
        '<a href="/"><img src="/console/x">'
    )
    assert staying_in("east", staying_in("east", text)) == staying_in("east", text)
    assert staying_in("", text) == text


async def test_a_cluster_at_a_glance_as_it_changes(world: ConsoleWorld) -> None:
    for _ in range(2):
        told = text_of((await world.page(f"{EAST}/console")).text)
        assert "Cluster east" in told
        assert "Nodes 37 Ready 33 Unreported 1 Unknown 2 NotReady 1 Tainted 3 Taint held 1 Cordoned 1" in told
        assert "us/us-1 PartialDisruption 12 nodes: Unknown 2 Ready 10 Tainted 2 Taint held 1" in told
        assert "1 Held , 1 Requested , 1 Scheduled" in told
        assert "default/ batch-1 3m ago 0/37 nodes are available: 37 Insufficient cpu." in told
    world.log.append(*_without_node("n01"))
    assert "Nodes 36" in text_of((await world.page(f"{EAST}/console")).text)
    home = text_of((await world.page("/")).text)
    assert "Nodes 1 " in home
    assert "No open evictions." in home


def _without_node(name: str) -> Any:
    return RESOURCES, f"east:Node//{name}", f"east:Node/{name}", None


async def test_one_chooses_a_cluster(world: ConsoleWorld) -> None:
    some_cluster(world, "west")
    chooser = re.search(r'<details class="chooser">(.*?)</details>', (await world.page("/")).text, re.DOTALL)
    assert chooser is not None
    assert links(chooser[1]) == ["/", "/clusters/east/console", "/clusters/west/console", "/console/clusters"]
    assert " ".join(text_of(chooser[1]).split()) == "Fleet: Home fleet Home fleet east west All clusters"
    there = (await world.page(f"{EAST}/console/zones")).text
    assert re.search(r'<summary><span class="unseen">[^<]*</span>east</summary>', there)
    assert '<a href="/clusters/east/console" aria-current="true">east</a>' in there
    told = (await world.page("/console/clusters")).text
    assert "east bridge/east 37 9 none since this gateway leads" in text_of(told)
    assert {"/clusters/east/console", "/clusters/west/console"} <= set(links(told))


async def test_without_clusters_there_is_nothing_to_choose() -> None:
    world = ConsoleWorld()
    some_fleet(world)
    assert "chooser" not in (await world.page("/")).text
    assert "No clusters." in text_of((await world.page("/console/clusters")).text)
    assert (await world.page(f"{EAST}/console")).status_code == 404


async def test_a_node_of_a_cluster_is_tainted_there(world: ConsoleWorld) -> None:
    page = (await world.page(f"{EAST}/console/targets/Node/n04")).text
    assert "Cordon" not in page
    assert "What if" not in page
    form = {"csrf": csrf_in(page), "key": "gpu", "value": "", "effect": "NoSchedule"}
    answer = await world.http.post(f"{EAST}/console/actions/targets/Node/n04/taint", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{EAST}/console/targets/Node/n04")
    assert "n04 is tainted with gpu:NoSchedule." in (await world.page(answer.headers["location"])).text
    shown = world.store.get(ObjectId("Node", "", "n04", "east"))
    assert shown is not None
    assert [one["key"] for one in shown.document["spec"]["taints"]] == ["gpu"]
    for path in ("targets/Node/n04/cordon", "pause"):
        answer = await world.http.post(f"{EAST}/console/actions/{path}", data={**form, "do": "cordon"})
        assert answer.status_code == 404


async def test_evictions_from_a_node_of_a_cluster_are_paused_in_the_home_fleet(world: ConsoleWorld) -> None:
    page = (await world.page(f"{EAST}/console/targets/Node/n04")).text
    (form,) = re.findall(r'<form method="post" action="/console/actions/pause">(.*?)</form>', page, re.DOTALL)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    answer = await world.http.post("/console/actions/pause", data=fields)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{EAST}/console/targets/Node/n04")
    told = (await world.page(answer.headers["location"])).text
    assert "Evictions of targets=east:Node/n04 are paused" in told
    (pause,) = world.store.all("EvictionPause")
    assert pause.document["spec"]["scope"] == {"targets": ["east:Node/n04"]}


async def world_of(folder: Path, *rules: Any) -> ConsoleWorld:
    """A console of a cluster, and `ann`, who may do what the rules say."""
    made = ConsoleWorld(settings=Settings(token_auth_file=written(folder, "tokens.csv", TOKENS)))
    some_cluster(made)
    await allow(made, "ann", ANN, *rules)
    return made


async def test_who_may_not_get_a_cluster_sees_nothing_of_it(tmp_path: Path) -> None:
    world = await world_of(tmp_path, READ)
    await log_in(world, "ann")
    answer = await world.page(f"{EAST}/console/targets")
    assert answer.status_code == 403
    assert 'clusters.moorage.io "east" is forbidden' in text_of(answer.text).replace("&#34;", '"')
    assert "chooser" not in (await world.page("/")).text
    told = text_of((await world.page("/console/clusters")).text)
    assert "You lack permission to list clusters." in told


async def test_who_may_get_a_cluster_sees_what_they_may_list(tmp_path: Path) -> None:
    world = await world_of(tmp_path, READ, GET)
    await log_in(world, "ann")
    told = text_of((await world.page(f"{EAST}/console")).text)
    assert "Nodes 37" in told
    assert "You lack permission to list evictions." in told
    page = (await world.page(f"{EAST}/console/targets/Node/n04")).text
    assert "You lack permission to change this target." in page
    form = {"csrf": csrf_in(page), "key": "gpu", "value": "", "effect": "NoSchedule"}
    answer = await world.http.post(f"{EAST}/console/actions/targets/Node/n04/taint", data=form)
    assert answer.status_code == 403
    await allow(world, "changes", ANN, *CHANGE)
    answer = await world.http.post(f"{EAST}/console/actions/targets/Node/n04/taint", data=form)
    assert answer.status_code == 303


async def test_who_logs_in_goes_on_in_the_cluster(tmp_path: Path) -> None:
    world = await world_of(tmp_path, READ, GET)
    path = f"{EAST}/console/targets?kind=Node"
    answer = await world.page(path)
    assert (answer.status_code, "next=%2Fclusters%2Feast%2Fconsole" in answer.headers["location"]) == (303, True)
    answer = await log_in(world, "ann", path)
    assert answer.headers["location"] == path


@table(
    ("address", "is_own"),
    [
        ("/console", True),
        ("/consoles", False),
        ("/clusters/east/console", True),
        ("/clusters/east/console/targets?a=b", True),
        ("/clusters/east/api/v1/nodes", False),
        ("/clusters/east/consoles", False),
        ("/clusters//console/", False),
        ("//clusters/east/console/", False),
    ],
)
def test_which_addresses_of_clusters_are_the_consoles(address: str, *, is_own: bool) -> None:
    assert (own_address(address) == address) is is_own


@pytest.mark.parametrize("path", ["", "/targets?state=NotReady"])
async def test_a_page_of_a_cluster_follows_what_changes_there(world: ConsoleWorld, path: str) -> None:
    async with world.served() as address, httpx.AsyncClient(base_url=address, headers={"accept": BROWSER}) as http:
        html = (await http.get(f"{EAST}/console{path}")).text
        (live,) = re.findall(r'hx-sse:connect="([^"]*)"', html)
        async with asyncio.timeout(120), http.stream("GET", live.replace("&amp;", "&")) as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            assert await anext(lines) == "retry: 1000"
            world.log.append(*_without_node("n01"))
            async for line in lines:
                if "part-totals" in line or "part-rows" in line:
                    break
        wrong = await http.get(f"{EAST}/console/live?page=/console/pauses")
        assert wrong.status_code == 404


async def test_nobody_is_told_of_a_cluster_that_is_gone() -> None:
    front = KeptFront()
    world = ConsoleWorld(front=front)
    key, append = "east:Node//n1", world.log.append
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u1"}}
    append(RESOURCES, key, key, ResourceDeclared(object=node, version=1, cluster="east"))
    assert (await world.page(f"{EAST}/console")).status_code == 200
    assert front.console.watches.clusters() == {"", "east"}
    append(RESOURCES, key, key, None)
    assert (await world.page(f"{EAST}/console")).status_code == 404
    await world.page("/")
    assert front.console.watches.clusters() == {""}


async def test_an_explanation_is_that_of_the_cluster() -> None:
    _, east = mirrored_world()
    following = Following(east.flow, east.settings)
    following.follow()
    world = ConsoleWorld(explanations=Explanations(ADDRESS, Edge(following).served))
    some_cluster(world)
    for name, kind in (("web", "Pod"), ("n1", "Node")):
        found = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "uid": "u"}}
        if kind == "Pod":
            found["metadata"] = {"name": name, "uid": "u", "namespace": "default"}
        declared = ResourceDeclared(object=found, version=1, cluster="east")
        world.log.append(RESOURCES, declared.key, declared.key, declared)
    html = (await world.page(f"{EAST}/console/workloads/Pod/default/web/why")).text
    assert "bound there in its cluster; the filters would rule it out" in text_of(html)
    html = (await world.page(f"{EAST}/console/targets/Node/n1/why")).text
    told = text_of(html)
    assert "Status NotReady" in told
    assert "default/ web" in told
    assert f'href="{EAST}/console/workloads/Pod/default/web"' in html
