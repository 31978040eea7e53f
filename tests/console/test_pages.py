"""The console's pages: what they show, to whom, and where the API's own answers stay as they were."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.component.gateway.double import Fixture
from tests.component.query.edge import ADDRESS, Edge
from tests.component.query.following import Following
from tests.component.query.test_http import nodes
from tests.console.world import ConsoleWorld, some_fleet
from tests.support.tables import table
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import lifted

from moorage.apiserver.http.intake.explain import Explanations
from moorage.console.application import POLICY
from moorage.console.pages import PAGES

PAGES_OF_A_FLEET = (
    "/",
    "/console",
    "/console/targets",
    "/console/targets/Node/n01",
    "/console/targets/Node/n01/why",
    "/console/evictions",
    "/console/history",
    "/console/placements",
    "/console/placements?state=Pending",
    "/console/workloads/Pod/default/web-1",
    "/console/workloads/Pod/default/web-1/why",
    "/console/zones",
    "/console/zones/us.us-1",
    "/console/budgets",
    "/console/search?q=web",
    "/console/objects",
    "/console/objects/pods",
    "/console/objects/poddisruptionbudgets/default/web",
    "/console/objects/evictionpauses/-/migration",
    "/console/audit",
    "/console/incidents/us.us-1",
    "/console/deadletters",
    "/console/deadletters/0-0",
    "/console/pauses",
    "/console/simulate?kind=Node&name=n04",
    "/console/clusters",
)


@pytest.fixture
def world() -> ConsoleWorld:
    made = ConsoleWorld()
    some_fleet(made)
    return made


def text_of(html: str) -> str:
    """The text of a page, with single spaces."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html.replace("<wbr>", "")))


@pytest.mark.parametrize("path", PAGES_OF_A_FLEET)
async def test_each_page_is_whole_and_may_load_only_what_is_here(world: ConsoleWorld, path: str) -> None:
    answer = await world.page(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "http://" not in answer.text
    assert "https://" not in answer.text
    assert not re.search(r"<[^>]+\s(on\w+|style)=|<script(?![^>]*\bsrc=)|<style", answer.text)


def test_each_page_is_tried() -> None:
    routes = [re.compile(re.sub(r"\{\w+\}", "[^/]+", page.path)) for page in PAGES]
    assert [
        one.pattern for one in routes if not any(one.fullmatch(path.partition("?")[0]) for path in PAGES_OF_A_FLEET)
    ] == []


async def test_the_fleet_at_a_glance(world: ConsoleWorld) -> None:
    told = text_of((await world.page("/")).text)
    assert "Nodes 37 Ready 33 Unreported 1 Unknown 2 NotReady 1 Tainted 3 Taint held 1 Cordoned 1" in told
    assert "eu/eu-2 12 nodes: NotReady 1 Ready 11 Tainted 1" in told
    assert "us/us-1 PartialDisruption 12 nodes: Unknown 2 Ready 10 Tainted 2 Taint held 1" in told
    assert "node.kubernetes.io/unreachable:NoExecute 1 1" in told
    assert "1 Held , 1 Requested , 1 Scheduled" in told
    assert "PodDisruptionBudget/default/web" in told
    assert "default/ batch-1 3m ago 0/37 nodes are available: 37 Insufficient cpu." in told


async def test_the_fleet_follows_what_changes(world: ConsoleWorld) -> None:
    await world.page("/")
    world.condition("n01", "True")
    world.evicting("web-1", "n01", "Cancelled")
    world.placed("batch-1", "n04")
    world.node("spare", "us/us-1")
    told = text_of((await world.page("/")).text)
    assert "NotReady 0" in told
    assert "none 1 node" not in told
    assert "us/us-1 PartialDisruption 13 nodes" in told
    assert "Unscheduled workloads 0 None" in told
    assert "Evictions 2" in told


async def test_a_target(world: ConsoleWorld) -> None:
    told = text_of((await world.page("/console/targets/Node/n01")).text)
    assert "NotReady" in told
    assert "node.kubernetes.io/not-ready:NoExecute" in told
    assert "Ready False 4m ago" in told
    assert "KubeletStopped: no answer for 40 s" in told
    assert "Workloads 1 default/ web-1" in told
    assert "Evictions 1" in told


async def test_a_workload(world: ConsoleWorld) -> None:
    told = text_of((await world.page("/console/workloads/Pod/default/web-1")).text)
    assert "n01 chosen 190 90 100" in told
    assert "n04 150 80 70" in told
    assert "TaintToleration 2 untolerated taint" in told
    assert "Requested" in told


async def test_zones_and_their_queues(world: ConsoleWorld) -> None:
    told = text_of((await world.page("/console/zones")).text)
    assert "us/us-1 PartialDisruption 12 2 1 every 10s 0.4 0 1 n05" in told
    told = text_of((await world.page("/console/zones/us.us-1")).text)
    assert "Waiting 1" in told
    assert "n05 50s ago" in told
    assert "PartialDisruption" in text_of((await world.page("/")).text)


async def test_what_holds_evictions(world: ConsoleWorld) -> None:
    told = text_of((await world.page("/console/budgets")).text)
    assert "migration namespaces=batch 0 the night of the migration" in told
    assert "default web 2" in told
    told = text_of((await world.page("/console/objects/poddisruptionbudgets/default/web")).text)
    assert "web-2 n02 Held" in told
    assert "minAvailable: 2" in told


async def test_names_are_found(world: ConsoleWorld) -> None:
    html = (await world.page("/console/search?q=WEB")).text
    told = text_of(html)
    assert "Names with “web”" in told
    assert told.index("PodDisruptionBudget 1") < told.index("Eviction 5")
    assert "/console/workloads/Pod/default/web-1" in html
    assert "/console/objects/poddisruptionbudgets/default/web" in html
    assert "/console/targets/Node/n01" in (await world.page("/console/search?q=n01")).text
    assert "at least 2 characters" in (await world.page("/console/search?q=w")).text
    assert "No matching objects that you may list." in (await world.page("/console/search?q=none-of-them")).text


async def test_secrets_are_not_shown() -> None:
    world = ConsoleWorld()
    data = {"password": "aHVudGVyMg=="}
    world.declare(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, "data": data}
    )
    html = (await world.page("/console/objects/secrets/default/s")).text
    assert "password" in html
    assert "7 bytes" in html
    assert "aHVudGVyMg" not in html


async def test_why_a_workload_is_where_it_is() -> None:
    world = ConsoleWorld(explanations=Explanations(ADDRESS, Edge(nodes()).served))
    world.node("n1")
    world.pod("p")
    html = (await world.page("/console/workloads/Pod/default/p/why")).text
    told = text_of(html)
    assert "If decided again now, the result would be the same." in told
    assert "1 of 2 targets fit." in told
    assert "n1 here 1" in told
    assert "TaintToleration" in told
    assert 'class="chain"' in html
    assert (await world.page("/console/workloads/Pod/default/p/why?all=1")).status_code == 200


async def test_why_of_a_workload_that_was_evicted_and_no_longer_exists() -> None:
    world = ConsoleWorld(explanations=Explanations(ADDRESS, Edge(nodes()).served))
    world.node("n1")
    world.evicting("gone", "n1", "Completed", due=-5)
    told = text_of((await world.page("/console/workloads/Pod/default/gone/why")).text)
    assert "No explanation available: gone no longer exists." in told
    assert (await world.page("/console/workloads/Pod/default/none/why")).status_code == 404


async def test_without_a_query_worker_a_page_says_so(world: ConsoleWorld) -> None:
    told = text_of((await world.page("/console/workloads/Pod/default/web-1/why")).text)
    assert "No explanation available: the gateway has no query worker: MOORAGE_QUERY_SERVER is not set" in told


def failing_node() -> ConsoleWorld:
    """A console in front of a query worker that has followed the failure of a node, from which a pod has to leave."""
    settings = lifted(partitions=3)
    fleet = NodeWorld("n1", "n2", settings=settings)
    waits = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}]
    fleet.declare("Pod", "p", pod_spec(nodeName="n1", tolerations=waits))
    for name in ("n1", "n2"):
        fleet.report(name, status="True", source="probe/rack")
    fleet.run()
    fleet.report("n1", status="False", source="probe/rack", reason="KubeletStopped")
    fleet.taint("n1", "example.com/mine", "NoSchedule")
    fleet.run()
    following = Following(fleet.flow, settings)
    following.follow()
    world = ConsoleWorld(explanations=Explanations(ADDRESS, Edge(following).served))
    world.node("n1")
    return world


async def test_why_a_target_is_as_it_is() -> None:
    world = failing_node()
    overview = (await world.page("/console/targets/Node/n1")).text
    assert 'href="/console/targets/Node/n1/why"' in overview
    html = (await world.page("/console/targets/Node/n1/why")).text
    told = text_of(html)
    assert "Status NotReady" in told
    assert "Ready False" in told
    assert "probe/rack KubeletStopped" in told
    assert "example.com/mine:NoSchedule explicit" in told
    assert "declared by tester" in told
    assert "Evictions 1 Scheduled" in told
    assert "default/ p Scheduled" in told
    assert "Causes of the taint node.kubernetes.io/not-ready:NoExecute of node n1" in told
    assert "Causes of the eviction of pod default/p from node n1" in told
    anchors = set(re.findall(r'href="#(chain-\d+)"', html))
    assert anchors
    assert anchors <= set(re.findall(r'id="(chain-\d+)"', html))
    assert len(re.findall(r'id="([^"]+)"', html)) == len(set(re.findall(r'id="([^"]+)"', html)))
    assert (await world.page("/console/targets/Node/n1/why?all=1")).status_code == 200


async def test_without_a_query_worker_the_page_of_a_target_says_so(world: ConsoleWorld) -> None:
    told = text_of((await world.page("/console/targets/Node/n01/why")).text)
    assert "No explanation available: the gateway has no query worker: MOORAGE_QUERY_SERVER is not set" in told


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=NotReady", ["n01"]),
        ("state=Unknown", ["n02", "n05"]),
        ("zone=us/us-1&mark=Held", ["n05"]),
        ("mark=Tainted", ["n01", "n02", "n05"]),
        ("mark=Cordoned&state=Ready", ["n09"]),
        ("zone=none", ["spare"]),
        ("taint=node.kubernetes.io/unreachable:NoExecute", ["n02", "n05"]),
        ("name=PAR", ["spare"]),
        ("kind=Cluster", []),
        ("name=n0&page=9", ["n01", "n02", "n05", "n09", "n03", "n06", "n04", "n07", "n08"]),
    ],
)
async def test_targets_are_found(world: ConsoleWorld, query: str, expected: list[str]) -> None:
    html = (await world.page(f"/console/targets?{query}")).text
    assert sorted(re.findall(r'id="target-Node-(\w+)"', html)) == sorted(expected)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/console/none", 404),
        ("/console/targets/Node/none", 404),
        ("/console/targets/Pod/web-1", 404),
        ("/console/targets/Node/none/why", 404),
        ("/console/targets/Pod/web-1/why", 404),
        ("/console/workloads/Pod/default/none", 404),
        ("/console/workloads/None/default/web-1", 404),
        ("/console/static/none.css", 404),
        ("/console/static/..%2f..%2frights.py", 404),
    ],
)
async def test_what_is_not_there(world: ConsoleWorld, path: str, code: int) -> None:
    answer = await world.page(path)
    assert answer.status_code == code
    assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("accept", ["*/*", "application/json", "application/json, text/html;q=0.9", "", "text/plain"])
async def test_programs_get_the_paths_of_the_api(accept: str) -> None:
    plain, fronted = Fixture(), ConsoleWorld()
    headers = {"accept": accept}
    before, after = [await one.http.get("/", headers=headers) for one in (plain, fronted)]
    assert after.json() == before.json()
    assert "/api/v1" in after.json()["paths"]
    assert dict(after.headers) == dict(before.headers)


async def test_a_gateway_that_is_not_ready_says_so() -> None:
    answer = await ConsoleWorld(ready=False).page("/")
    assert answer.status_code == 503
    assert "not ready" in answer.text


HOSTILE = "<img src=x onerror=alert(1)>\"'`{{1337*1337}}</script>\u2028"


def hostile_fleet() -> ConsoleWorld:
    """A fleet in which everything that somebody else writes is markup."""
    world = ConsoleWorld()
    world.declare(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": HOSTILE,
                "labels": {
                    "topology.kubernetes.io/region": HOSTILE,
                    "topology.kubernetes.io/zone": HOSTILE,
                    HOSTILE: HOSTILE,
                },
                "creationTimestamp": HOSTILE,
            },
        }
    )
    world.node("n1")
    world.condition("n1", "False", reason=HOSTILE, message=HOSTILE)
    world.taint("n1", HOSTILE, held=HOSTILE, effect=HOSTILE)
    world.pod("p")
    world.placed("p", reason=HOSTILE, message=HOSTILE)
    world.evicting("p", "n1", "Held", held_by=(HOSTILE,))
    event: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": HOSTILE,
        "message": HOSTILE,
        "type": HOSTILE,
        "lastTimestamp": HOSTILE,
        "source": {"component": HOSTILE},
    }
    world.shown(event)
    return world


@table(
    "path",
    [
        "/",
        "/console/targets",
        "/console/targets/Node/n1",
        "/console/targets/Node/n1/why",
        "/console/targets/Node/%3Cimg%20src=x%20onerror=alert(1)%3E%22'%60%7B%7B1337*1337%7D%7D%3C%2Fscript%3E%E2%80%A8",
        f"/console/targets?name={HOSTILE}&zone={HOSTILE}&taint={HOSTILE}&page=2",
        "/console/evictions",
        "/console/history",
        f"/console/evictions?name={HOSTILE}",
        "/console/placements",
        "/console/workloads/Pod/default/p",
        "/console/workloads/Pod/default/p/why",
        "/console/zones",
        "/console/budgets",
        f"/console/search?q={HOSTILE[:30]}",
        "/console/objects/nodes",
        "/console/objects/nodes/-/n1",
        "/console/objects/evictions",
        f"/console/login?next={HOSTILE}",
        f"/console/workloads/{HOSTILE}/default/p",
    ],
)
async def test_what_others_write_is_text(path: str) -> None:
    answer = await hostile_fleet().page(path)
    assert answer.status_code in {200, 404}, answer.text
    assert "<img src=x" not in answer.text
    assert "1787569" not in answer.text
    assert answer.text.count("<script") == answer.text.count("</script>") <= 3
