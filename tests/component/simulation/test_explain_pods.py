"""`explain pod` on the records that all services have written on a virtual clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.component.simulation.explained import chain, copy, of, said, topics
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import TEMPLATE, lifted, node, pod

from moorage.insight.explain.answer import summary_of
from moorage.insight.explain.explanation import Explanation, NotFoundError, Until, Wanted, eviction_ends
from moorage.insight.explain.grounds import SnapshotGrounds
from moorage.insight.explain.pod_reasons import explain_pod
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import PLACEMENTS, RESOURCES

ALL = Wanted(every=True)


def grounds(world: NodeWorld, **settings: Any) -> SnapshotGrounds:
    return SnapshotGrounds(copy(world.flow), lifted(partitions=3, **settings))


def explained(world: NodeWorld, name: str, wanted: Wanted | None = None, **settings: Any) -> Explanation:
    return explain_pod(grounds(world, **settings), "default", name, wanted)


def on(world: NodeWorld, node: str) -> str:
    """The name of the pod on a node."""
    return next(name for name, one in world.pods().items() if one.target is not None and one.target.name == node)


def test_a_pod_that_has_just_been_placed_agrees_with_its_decision() -> None:
    world = NodeWorld("n1", "n2", "n3")
    world.declare("Deployment", "web", {"replicas": 4, "template": TEMPLATE})
    world.run()
    for name, placed in world.pods().items():
        told = explained(world, name, ALL)
        assert told.record == placed
        assert told.owner == "Deployment/default/web"
        assert (told.considered, told.fitting, told.left_out) == (3, 3, 0)
        assert [one.name for one in told.targets if one.here] == [placed.target.name if placed.target else ""]
        assert topics(chain(told, "the decision")) == ["resources", "placements"]
    last = max(world.flow.events(PLACEMENTS), key=lambda event: int(event.index))
    told = explained(world, last.workload.name)
    assert told.agrees, "nothing came after it"
    assert told.differences == ()
    assert {one.prioritizer: one.points for one in told.targets[0].verdict.scores} == last.scores[0].scores


def test_which_taint_keeps_a_pod_away_and_until_when_it_stays() -> None:
    world = NodeWorld("n1", "n2", "n3")
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    world.run()
    for name in ("n1", "n2", "n3"):
        world.report(name, status="True")
    world.flow.advance(10)
    stays = on(world, "n2")
    leaves = on(world, "n1")
    world.report("n1", status="False")
    world.flow.advance(20)
    told = explained(world, leaves)
    assert not told.agrees
    (until,) = told.until
    assert until.when == world.flow.now + timedelta(seconds=280)
    assert "has to leave node n1" in until.what
    here = of(told, "n1")
    assert not here.verdict.passed
    assert here.outcome.startswith("would be ruled out: TaintToleration")
    assert any("node n1 would be ruled out now, but filters do not move pods" in one for one in told.differences)
    way = topics(chain(told, "the eviction from node n1"))
    assert (way[0], way[1], way[-2], way[-1]) == ("condition-reports", "conditions", "taints", "evictions")
    assert all(one.whole for one in told.chains)

    told = explained(world, stays, Wanted("n1"))
    assert told.agrees
    assert told.until[0].when is None
    (only,) = told.targets
    assert (only.name, only.verdict.rank, told.left_out) == ("n1", None, 2)
    text = said(told, closely=True)
    assert "nothing tolerates node.kubernetes.io/not-ready:NoSchedule" in text
    assert "is for NoExecute only" in text
    assert topics(chain(told, "the taints of node n1"))[:2] == ["condition-reports", "conditions"]


def test_the_whole_way_of_a_replica_that_had_to_leave() -> None:
    world = NodeWorld("n1", "n2", "n3")
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    for name in ("n1", "n2", "n3"):
        world.report(name, status="True")
    world.run()
    gone = on(world, "n1")
    world.report("n1", status="False")
    world.flow.advance(400)
    told = explained(world, on(world, "n3"))
    way = topics(chain(told, "the decision"))
    assert way[:2] == ["condition-reports", "conditions"]
    assert way[-5:] == ["taints", "timers", "timer-fired", "evictions", "placements"]
    assert f"it replaces Pod/default/{gone}" in told.notes
    text = said(told)
    assert "Before on:      n1" in text
    assert "fired, 0 ms after its time" in text


def test_a_step_that_was_compacted_away_is_told_as_lost() -> None:
    world = NodeWorld("n1", "n2")
    for name in ("n1", "n2"):
        world.report(name, status="True")
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    world.run()
    world.report("n1", status="False")
    world.flow.advance(400)
    world.report("n1", status="False")
    world.run()
    name = next(name for name, one in world.pods().items() if one.replaces)
    assert chain(explained(world, name), "the decision").whole
    world.flow.compact()
    told = explained(world, name)
    behind = chain(told, "the decision")
    assert not behind.whole
    assert topics(behind)[-1] == "placements"
    lost = next(step for step in behind.steps if step.record is None)
    assert "its record no longer exists" in lost.note
    assert len(behind.steps) > 2, "it goes on with what is there of the same chain"
    assert "lost" in said(told)


def test_a_pod_that_waits_is_told_what_is_short() -> None:
    world = NodeWorld()
    world.node("small", allocatable={"cpu": "1"}, labels={"disk": "ssd"})
    world.node("big", allocatable={"cpu": "8"}, labels={"disk": "hdd"})
    world.declare("Pod", "p", pod_spec("2", nodeSelector={"disk": "ssd"}))
    world.run()
    told = explained(world, "p", ALL)
    assert told.agrees
    assert (told.considered, told.fitting) == (2, 0)
    assert {(one.filter, one.count) for one in told.reasons} == {("NodeAffinity", 1), ("NodeResourcesFit", 1)}
    small, big = of(told, "small"), of(told, "big")
    assert [one.filter for one in small.verdict.filters if not one.passed] == ["NodeResourcesFit"]
    (short,) = [one for one in small.verdict.filters if not one.passed]
    assert "cpu: 2 requested, 1 of 1 left" in short.details
    assert [one.filter for one in big.verdict.filters if not one.passed] == ["NodeAffinity"]
    assert "is decided again when a node is added" in told.until[0].what
    assert "nodeSelector disk=ssd fails: it is 'hdd'" in said(explained(world, "p", Wanted("big")), closely=True)
    world.node("new", allocatable={"cpu": "4"}, labels={"disk": "ssd"})
    told = explained(world, "p")
    assert not told.agrees, "the services have not seen the new node yet"
    assert "node new fits now" in told.differences
    assert of(told, "new").outcome == "best: it would go here"


def test_a_pod_on_a_named_node_was_never_filtered() -> None:
    world = NodeWorld("n1", "n2")
    world.taint("n1", "k", "NoSchedule")
    world.declare("Pod", "p", pod_spec(nodeName="n1"))
    world.run()
    told = explained(world, "p")
    assert told.agrees
    assert of(told, "n1").outcome == "spec.nodeName names it, so no filter applies"
    assert not of(told, "n1").verdict.passed


def test_a_daemon_pod_belongs_on_one_node() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("DaemonSet", "d", {"template": TEMPLATE})
    world.run()
    told = explained(world, on(world, "n2"), ALL)
    assert (told.considered, told.fitting, told.agrees) == (1, 1, True)
    assert "the pod belongs on node n2 alone" in of(told, "n1").outcome


def test_an_evicted_bare_pod_is_told_why_it_went() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("Pod", "p", pod_spec(nodeSelector={}))
    world.run()
    where = world.pods()["p"].target
    assert where is not None
    world.taint(where.name, "k", "NoExecute")
    world.run()
    told = explained(world, "p")
    assert told.record is not None
    assert told.record.state.value == "Evicted"
    assert any("a bare pod is not replaced" in note for note in told.notes)
    assert topics(chain(told, "the decision")) == ["resources", "taints", "evictions", "placements"]


def test_an_eviction_that_is_held_says_by_what() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("Deployment", "web", {"replicas": 1, "template": TEMPLATE})
    world.run()
    pause = {"apiVersion": "moorage.io/v1alpha1", "kind": "EvictionPause", "metadata": {"name": "all", "uid": "u"}}
    event = ResourceDeclared(object={**pause, "spec": {}}, version=1)
    world.flow.produce(RESOURCES, event.key, event)
    world.run()
    ((name, placed),) = world.pods().items()
    assert placed.target is not None
    world.taint(placed.target.name, "k", "NoExecute")
    world.flow.advance(5)
    told = explained(world, name)
    (until,) = told.until
    assert until.held_by == ("EvictionPause/all",)
    assert until.what.count("EvictionPause/all") == 1
    assert "held by EvictionPause/all" in said(told)


def test_pods_of_a_controller_in_short() -> None:
    world = NodeWorld("n1", "n2")
    world.declare("Deployment", "web", {"replicas": 3, "template": TEMPLATE})
    world.run()
    told = summary_of(grounds(world), "Deployment/default/web", "deployments.apps")
    assert {row.workload.rpartition("/")[2] for row in told.rows} == set(world.pods())
    with pytest.raises(NotFoundError, match=r'deployments.apps "gone" not found'):
        summary_of(grounds(world), "Deployment/default/gone", "deployments.apps")


@pytest.mark.parametrize(
    ("name", "wanted", "message"), [("gone", Wanted(), 'pods "gone" not found'), ("p", Wanted("n9"), 'nodes "n9" not')]
)
def test_what_is_not_there_is_not_found(name: str, wanted: Wanted, message: str) -> None:
    world = NodeWorld("n1")
    world.declare("Pod", "p", pod_spec())
    world.run()
    with pytest.raises(NotFoundError, match=message):
        explained(world, name, wanted)


def test_of_many_nodes_the_chosen_and_the_ten_best_are_shown() -> None:
    world = NodeWorld(*(f"n{number:02}" for number in range(30)))
    world.taint("n29", "k", "NoSchedule")
    world.declare("Pod", "p", pod_spec())
    world.run()
    told = explained(world, "p")
    assert (len(told.targets), told.left_out, told.fitting) == (11, 19, 29)
    assert "11 shown, 19 more with --all" in said(told)
    assert len(explained(world, "p", ALL).targets) == 30


def test_a_pod_whose_owner_is_gone_or_made_again() -> None:
    world = NodeWorld("n1")
    world.declare("Deployment", "web", {"replicas": 1, "template": TEMPLATE})
    world.run()
    (name,) = world.pods()
    world.declare("Deployment", "web", {"replicas": 1, "template": TEMPLATE}, uid="another")
    assert "made again since" in explained(world, name).notes[0]
    world.delete("Deployment", "web")
    told = explained(world, name)
    assert not told.agrees
    assert "no longer declared" in told.notes[0]


def test_a_taint_that_had_to_wait_for_its_zones_turn_is_traced_to_the_report() -> None:
    nodes = [f"n{number}" for number in range(6)]
    world = NodeWorld(*nodes, settings=lifted(partitions=3, node_eviction_rate=0.1))
    world.declare("Deployment", "web", {"replicas": 6, "template": TEMPLATE})
    for name in nodes:
        world.report(name, status="True")
    world.run()
    for name in ("n1", "n2"):
        world.report(name, status="False")
    world.flow.advance(1)
    waits = [one.what for name in ("n1", "n2") for one in explained(world, on(world, name)).until]
    assert sum("not-ready:NoExecute is wanted on node" in one for one in waits) == 1
    assert not any("until something changes" in one for one in waits)
    assert sum("at least until that taint is added" in one for one in waits) == 1
    world.flow.advance(59)
    for name in ("n1", "n2"):
        behind = chain(explained(world, on(world, name)), f"the eviction from node {name}")
        assert behind.whole
        assert topics(behind) == [
            *("condition-reports", "conditions", "zone-members", "zone-grants", "taints", "evictions")
        ]


def test_a_source_that_fell_silent_is_traced_through_its_timer() -> None:
    world = NodeWorld("n1", "n2", settings=lifted(partitions=3, node_monitor_grace_period=40))
    patient = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    world.declare("Pod", "p", pod_spec(nodeName="n1", tolerations=[patient]))
    for name in ("n1", "n2"):
        world.report(name, status="True")
    world.flow.advance(30)
    world.report("n2", status="True")
    world.flow.advance(20)
    behind = chain(explained(world, "p", Wanted("n1")), "the eviction from node n1")
    assert behind.whole
    way = topics(behind)
    assert way[:5] == ["condition-reports", "timers", "timer-fired", "condition-reports", "conditions"]
    assert way[-2:] == ["taints", "evictions"]
    assert "HeartbeatStopped" in said(explained(world, "p"))


def test_a_pod_beside_others_is_told_which_constraints_keep_it_away() -> None:
    world = NodeWorld()
    world.node("n1", zone="a", labels={"host": "n1"})
    world.node("n2", zone="b", labels={"host": "n2"})
    port = {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]}
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    term = {"topologyKey": "host", **selector}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.declare("Pod", "one", {**pod_spec(), **port, "nodeSelector": {"host": "n1"}}, labels={"app": "web"})
    world.declare("Pod", "shy", {**pod_spec(), "nodeSelector": {"host": "n2"}, "affinity": anti}, labels={"app": "db"})
    world.run()
    even = [{"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule", **selector}]
    spec = {**pod_spec(), **port, "topologySpreadConstraints": even, "affinity": anti}
    world.declare("Pod", "p", spec, labels={"app": "web"})
    world.run()
    told = explained(world, "p", ALL)
    assert told.agrees
    assert told.fitting == 0
    n1, n2 = ({one.filter: one for one in of(told, name).verdict.filters if not one.passed} for name in ("n1", "n2"))
    assert set(n1) == {"NodePorts", "PodTopologySpread", "InterPodAffinity"}
    assert set(n2) == {"InterPodAffinity"}
    assert n1["NodePorts"].details == ("host port 80/TCP on 0.0.0.0: taken by another pod",)
    assert n1["PodTopologySpread"].details == ("host n1: 1 matching, with the pod at most 1 more than the fewest, 0",)
    assert n1["InterPodAffinity"].details == ("anti-affinity to app=web by host: 1 there",)
    assert n2["InterPodAffinity"].details[1:] == ("1 there with anti-affinity to app=web by host",)
    world.delete("Pod", "one")
    world.run()
    again = explained(world, "p", ALL)
    assert again.agrees, "its own port and its own labels do not count against it"
    assert again.here == ("n1",)
    assert of(again, "n1").verdict.passed


@pytest.mark.parametrize(
    ("held_by", "message", "told"),
    [
        ((), "untolerated taint k; waits for a grant", "untolerated taint k; waits for a grant"),
        ((), "", "waits for a grant"),
        (("EvictionBudget/b",), "held by EvictionBudget/b: full", "held by EvictionBudget/b: full"),
        (("UpstreamLag",), "placement lags", "held by UpstreamLag: placement lags"),
        (("UpstreamLag",), "", "held by UpstreamLag"),
    ],
)
def test_a_held_eviction_is_explained_by_the_reason_of_its_record(
    held_by: tuple[str, ...], message: str, told: str
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    event = EvictionDecided(
        workload=pod("p"),
        owner=pod("p"),
        target=node("n1"),
        generation=1,
        revision=1,
        state=EvictionState.HELD,
        held_by=held_by,
        message=message,
        deadline=now,
        decided_time=now,
    )
    assert eviction_ends(event) == Until(f"was due to leave node n1, {told}", now, held_by)
