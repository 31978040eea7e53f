"""What has ended stays on the pages, from objects that are kept: a console that starts later shows the same."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.component.gateway.double import NOW, node_ref, pod_ref
from tests.component.gateway.test_access import allow
from tests.console.test_live import following
from tests.console.test_pages import text_of
from tests.console.test_sessions import log_in, world_of
from tests.console.world import BROWSER, ConsoleWorld, KeptFront, some_cluster, some_fleet

from moorage.apiserver.http.app import create_app
from moorage.cli.local.pages import with_pages
from moorage.console.fleet_index import TargetRow
from moorage.console.pages import history
from moorage.console.pages.targets import earlier_statuses
from moorage.console.pages.trends import SPAN, a_minute, not_ready
from moorage_schemas.keys import eviction_key
from moorage_schemas.placement import PlacedTarget, PlacementState, WorkloadPlaced
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.times import format_time
from moorage_schemas.topics import EVICTIONS, PLACEMENTS

EVICTIONS_AND_ZONES = {"verbs": ["list"], "apiGroups": ["moorage.io"], "resources": ["evictions", "zones"]}


@pytest.fixture
def world() -> ConsoleWorld:
    made = ConsoleWorld()
    some_fleet(made)
    return made


def evicted(html: str) -> list[str]:
    """The workloads of the evictions in a table, in its order."""
    return re.findall(r'id="eviction-Eviction/default/([\w-]+):', html)


async def test_evictions_of_the_last_day_are_shown_by_state(world: ConsoleWorld) -> None:
    page = (await world.page("/console/evictions")).text
    assert evicted(page) == ["web-1", "web-2", "web-5"]
    assert "1 Requested , 1 Held , 1 Scheduled , 1 Completed , 1 Cancelled" in text_of(page)
    page = (await world.page("/console/evictions?state=Ended")).text
    assert evicted(page) == ["web-4", "web-3"], "the latest first"
    assert "web-3 n03 Completed 23m ago" in text_of(page)
    assert evicted((await world.page("/console/evictions?state=Completed")).text) == ["web-3"]
    assert evicted((await world.page("/console/evictions?state=Cancelled")).text) == ["web-4"]
    assert evicted((await world.page("/console/evictions?state=Ended&name=web-3")).text) == ["web-3"]
    nothing = text_of((await world.page("/console/evictions?state=Cancelled&name=none")).text)
    assert "None in the last day" in nothing


async def test_an_eviction_that_ends_stays_until_it_is_removed(world: ConsoleWorld) -> None:
    await world.page("/console/evictions")
    world.evicting("web-1", "n01", "Completed", due=-5)
    assert evicted((await world.page("/console/evictions")).text) == ["web-2", "web-5"]
    assert evicted((await world.page("/console/evictions?state=Completed")).text) == ["web-1", "web-3"]
    for name, node in (("web-1", "n01"), ("web-3", "n03")):
        key = eviction_key(pod_ref(name), node_ref(node), 1)
        world.log.append(EVICTIONS, key, node_ref(node).key, None)
    assert evicted((await world.page("/console/evictions?state=Completed")).text) == []
    html = (await world.page("/")).text
    assert "Evictions a minute. Now 0, at most 0 in the last 60 min." in html


async def test_a_workload_that_was_evicted_and_no_longer_exists_has_its_page(world: ConsoleWorld) -> None:
    world.evicting("gone-1", "n01", "Completed", due=-5, ended=-1)
    for reason, uid in (("EvictionAcknowledged", "uid-of-gone-1"), ("Scheduled", "of another pod of this name")):
        world.shown(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"gone-1.{reason}", "namespace": "default"},
                "involvedObject": {"kind": "Pod", "name": "gone-1", "namespace": "default", "uid": uid},
                "type": "Normal",
                "reason": reason,
                "message": reason,
            }
        )
    page = await world.page("/console/workloads/Pod/default/gone-1")
    assert page.status_code == 200, page.text
    shown = text_of(page.text)
    assert "This workload no longer exists." in shown
    assert "n01 Completed" in shown
    assert "EvictionAcknowledged" in shown
    assert "Scheduled" not in shown, "an Event of another pod"
    assert (await world.page("/console/workloads/Pod/default/none")).status_code == 404


async def test_a_console_that_starts_later_shows_the_same(world: ConsoleWorld) -> None:
    paths = ("/", "/console/evictions?state=Ended", "/console/history", "/console/targets/Node/n01")
    before = [text_of((await world.page(path)).text) for path in paths]
    restarted = httpx.ASGITransport(app=create_app(world.gateway, with_pages))
    async with httpx.AsyncClient(transport=restarted, base_url="http://localhost") as http:
        after = [text_of((await http.get(path, headers={"accept": BROWSER})).text) for path in paths]
    assert after == before


async def test_the_last_hour_is_drawn_with_a_table(world: ConsoleWorld) -> None:
    html = (await world.page("/")).text
    assert "Not ready. Now 3, at most 3 in the last 60 min." in html
    assert "Evictions a minute. Now 0, at most 1 in the last 60 min." in html
    assert "11:35 1 11:01 0" in text_of(html), "the eviction that was requested at 11:35"


async def test_a_target_that_is_ready_again_counts_as_long_as_it_was_not(world: ConsoleWorld) -> None:
    world.node("back", "eu/eu-1")
    world.condition("back", "True", at=NOW - timedelta(minutes=10))
    world.shown(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "back.1", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": "back"},
            "type": "Normal",
            "reason": "NodeNotReady",
            "message": "Node back status is now: NodeNotReady",
            "lastTimestamp": format_time(NOW - timedelta(minutes=30)),
        }
    )
    told = text_of((await world.page("/")).text)
    assert "11:50 0 11:30 1 11:01 0" in told


def row(state: str, since: str, name: str = "n1") -> TargetRow:
    return TargetRow("Node", name, "none", state, since, False, (), (), {})  # noqa: FBT003 - the row's own order


def minutes_ago(count: float) -> str:
    return format_time(NOW - timedelta(minutes=count))


@pytest.mark.parametrize(
    ("rows", "failures", "expected"),
    [
        ([], {}, [0] * SPAN),
        ([row("NotReady", minutes_ago(90))], {}, [1] * SPAN),
        ([row("Unknown", minutes_ago(0.5))], {}, [0] * (SPAN - 1) + [1]),
        ([row("NotReady", "")], {}, [1] * SPAN),
        ([row("Ready", minutes_ago(2))], {}, [0] * SPAN),
        ([row("Ready", minutes_ago(2))], {("Node", "n1"): minutes_ago(4)}, [0] * (SPAN - 5) + [1, 1, 0, 0, 0]),
        ([row("Ready", minutes_ago(4))], {("Node", "n1"): minutes_ago(2)}, [0] * SPAN),
        ([row("NotReady", minutes_ago(-1))], {}, [0] * (SPAN - 1) + [1]),
    ],
)
def test_not_ready_targets_by_minute(rows: list[TargetRow], failures: Any, expected: list[int]) -> None:
    assert not_ready(rows, failures, NOW) == expected


def test_evictions_by_minute_add_up_over_namespaces() -> None:
    minute = int(NOW.timestamp() // 60)
    counts = a_minute([{minute: 2, minute - SPAN: 5}, {minute: 1, minute - 59: 4}], NOW)
    assert (counts[0], counts[-1], sum(counts)) == (4, 3, 7)
    assert a_minute([], datetime(2026, 1, 1, tzinfo=UTC)) == [0] * SPAN


async def test_a_user_sees_the_history_that_they_may_list(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await allow(world, "evictions", [{"kind": "User", "name": "ann"}], EVICTIONS_AND_ZONES)
    for user in ("root", "ann", "bob"):
        world.http.cookies.clear()
        await log_in(world, user)
        html = (await world.page("/console/evictions?state=Ended")).text
        fleet = (await world.page("/")).text
        zones = (await world.page("/console/zones")).text
        assert (evicted(html) == ["web-4", "web-3"]) == (user != "bob")
        assert ("Evictions a minute" in fleet) == (user != "bob")
        assert "Not ready" in fleet
        assert ('class="picture zone-bar"' in zones) == (user != "bob")
        assert ("threshold of partial disruption" in zones) == (user == "root"), "it is in the configuration"
        if user == "bob":
            assert "You lack permission to list evictions." in html
            assert "web-3" not in html


async def test_everything_that_has_happened_is_on_one_page(world: ConsoleWorld) -> None:
    told = text_of((await world.page("/console/history")).text)
    assert "2026-01-01 11:59:55 default/web-1 from n01 Requested TaintEviction" in told
    assert "2026-01-01 11:53:00 Pod default/web-1 TaintManagerEviction Marking for deletion Pod default/web-1" in told
    assert "2026-01-01 11:56:00 Node n01 NotReady node.kubernetes.io/not-ready:NoExecute" in told
    assert "2026-01-01 11:36:40 default/web-3 from n03 Completed" in told
    assert told.index("11:59:55") < told.index("11:56:00") < told.index("11:36:40"), "the latest first"
    assert "migration Paused namespaces=batch the night of the migration" in told
    for part, there, missing in (
        ("Events", "TaintManagerEviction", "Completed"),
        ("Evictions", "Completed", "TaintManagerEviction"),
        ("Health", "NotReady", "Completed"),
        ("Pauses", "the night of the migration", "NotReady"),
    ):
        told = text_of((await world.page(f"/console/history?part={part}")).text)
        assert there in told, part
        assert missing not in told.partition("latest first")[2], part
    told = text_of((await world.page("/console/history?name=web-3")).text)
    assert "1 entry, latest first" in told
    nothing = text_of((await world.page("/console/history?name=nothing-like-this")).text)
    assert "Nothing is kept." in nothing


async def test_the_page_states_that_it_does_not_read_everything(
    world: ConsoleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "There are more Events" not in (await world.page("/console/history")).text
    monkeypatch.setattr(history, "MOST_EVENTS", 1)
    assert "There are more Events than this page reads." in (await world.page("/console/history")).text


async def test_the_history_shows_what_its_user_may_list(tmp_path: Path) -> None:
    world = await world_of(tmp_path)
    await log_in(world, "bob")
    told = text_of((await world.page("/console/history")).text)
    assert "Node n01 NotReady" in told
    for plural in ("events", "evictions", "evictionpauses"):
        assert f"You lack permission to list {plural}." in told
    for hidden in ("web-1", "the night of the migration", "TaintManagerEviction"):
        assert hidden not in told


async def test_the_history_of_a_cluster_is_its_own() -> None:
    world = ConsoleWorld()
    some_fleet(world)
    some_cluster(world)
    told = text_of((await world.page("/clusters/east/console/history")).text)
    assert "default/web-3 from n03 Completed" in told
    assert "the night of the migration" not in told


async def test_the_history_is_live() -> None:
    front = KeptFront()
    world = ConsoleWorld(front=front)
    some_fleet(world)
    await world.page("/console/history")
    async with following(front, "page=/console/history") as events:
        assert "web-3 from n03" in await events.next()
        world.evicting("web-7", "n07", "Requested", due=-1)
        while "web-7 from n07" not in (event := await events.next()):
            pass
        assert 'id="part-rows"' in event
        world.zone("eu/eu-1", "FullDisruption", not_ready=12, history=((60, "Normal"), (1, "FullDisruption")))
        while "FullDisruption</span>" not in (event := await events.next()) or "Zone eu/eu-1" not in event:
            pass


CLUSTERS: list[tuple[str, int]] = [("c1", 3), ("c2", 1)]


def divided(world: ConsoleWorld, name: str, parts: list[tuple[str, int]]) -> None:
    """Write placement's decision on a binding that several clusters run."""
    workload = WorkloadRef(kind="ResourceBinding", namespace="default", name=name)
    event = WorkloadPlaced(
        workload=workload,
        uid=f"uid-of-{name}",
        owner=workload,
        owner_uid=f"uid-of-{name}",
        generation=1,
        state=PlacementState.PLACED,
        targets=tuple(
            PlacedTarget(
                target=TargetRef(kind=TargetKind.CLUSTER, name=cluster), replicas=replicas, binding_generation=1
            )
            for cluster, replicas in parts
        ),
        reason="Scheduled",
        decided_time=NOW,
    )
    world.log.append(PLACEMENTS, workload.key, workload.key, event)


async def test_workloads_by_cluster_are_a_matrix_with_their_replicas(world: ConsoleWorld) -> None:
    assert 'class="picture matrix"' not in (await world.page("/console/placements")).text, "all are on nodes"
    divided(world, "api", CLUSTERS)
    divided(world, "db", [("c2", 0)])
    html = (await world.page("/console/placements")).text
    svg = html.partition('<svg class="picture matrix"')[2].partition("</svg>")[0]
    assert "2 workloads on 2 clusters." in svg
    told = re.findall(r"<title>([^<]*)</title>", svg)
    assert sorted(told) == [
        "default/api on c1: 3 replicas",
        "default/api on c2: 1 replicas",
        "default/db on c1: no replicas",
        "default/db on c2: all replicas",
    ]
    columns = re.findall(r'<text class="small" x="[\d.]+%" y="12">(\w+)</text>', svg)
    assert columns == ["c2", "c1"], "the cluster with most workloads first"
    row = text_of(html.partition("default/</span>api")[2].partition("</tr>")[0])
    assert re.search(r"Cluster c1 . 3 , Cluster c2 . 1", row), "the table beside it has the same"


def counted(reason: str, first: float, last: float) -> dict[str, Any]:
    """An Event that counts changes between two times, in minutes ago."""
    return {
        "reason": reason,
        "firstTimestamp": format_time((NOW - timedelta(minutes=first)).replace(microsecond=0)),
        "lastTimestamp": format_time((NOW - timedelta(minutes=last)).replace(microsecond=0)),
    }


@pytest.mark.parametrize(
    ("events", "since", "expected"),
    [
        ([], 5, []),
        ([counted("NodeReady", 5, 5)], 5, []),
        ([counted("NodeNotReady", 20, 20), counted("NodeReady", 5, 5)], 5, [("False", 20, 5)]),
        (
            [counted("NodeNotReady", 50, 20), counted("NodeReady", 40, 5)],
            5,
            [("False", 50, 40), ("True", 40, 20), ("False", 20, 5)],
        ),
        ([counted("NodeHasDiskPressure", 20, 20)], 5, []),
        ([counted("NodeNotReady", 20, 20)], None, []),
    ],
)
def test_earlier_statuses_of_a_condition_follow_from_events(
    events: list[dict[str, Any]], since: float | None, expected: list[tuple[str, float, float]]
) -> None:
    # The change itself is a little after the second that its Event has.
    when = NOW - timedelta(minutes=since) + timedelta(milliseconds=300) if since is not None else None
    found = earlier_statuses("Node", "Ready", when, events)

    def ago(time: datetime) -> float:
        return round((NOW - time) / timedelta(minutes=1))

    assert [(one.status, ago(one.since), ago(one.until)) for one in found] == expected


async def test_the_strip_of_a_condition_has_what_was_before_its_last_change(world: ConsoleWorld) -> None:
    world.condition("n04", "True", at=NOW - timedelta(minutes=10))
    assert "was False" not in (await world.page("/console/targets/Node/n04")).text
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "n04.1", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": "n04", "uid": "n04"},
        "type": "Normal",
        **counted("NodeNotReady", 30, 30),
    }
    world.shown(event)
    assert "Ready was False from 11:30:00 to 11:50:00" in (await world.page("/console/targets/Node/n04")).text
