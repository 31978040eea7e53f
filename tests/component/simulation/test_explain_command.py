"""The command `moorage explain`: the names of objects, what is refused, and the output."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import yaml
from aiokafka.errors import KafkaConnectionError
from tests.component.query.edge import Edge
from tests.component.query.following import Following
from tests.component.simulation.explained import copy
from tests.component.simulation.test_explain_history import Older
from tests.component.simulation.test_explain_managed import SelectingWorld
from tests.support.worlds.karmada import ONE, KarmadaWorld
from tests.support.worlds.nodes import NodeWorld, pod_spec
from tests.support.worlds.world import TEMPLATE
from typer.testing import CliRunner, Result

from moorage.cli.api.client import Client
from moorage.cli.app import app
from moorage.cli.commands.simulate_request import HttpxTransport
from moorage.insight.copy.snapshot import Snapshot, SnapshotError
from moorage.insight.explain import answer as reading
from moorage.insight.explain.history import complete
from moorage.runtime.settings.process_settings import Settings

Explain = Callable[..., Result]


ENVIRONMENT = {"MOORAGE_BOOTSTRAP_SERVERS": "nowhere:1", "MOORAGE_FEATURE_GATES": "Failover=true"}


def behind(monkeypatch: pytest.MonkeyPatch, answer: Callable[[httpx.Request], httpx.Response]) -> None:
    """Answer the command's requests to the gateway."""
    transport = HttpxTransport(httpx.MockTransport(answer), "http://127.0.0.1:8080")
    monkeypatch.setattr("moorage.cli.api.endpoints.Client", functools.partial(Client, transport=transport))
    monkeypatch.setenv("MOORAGE_SERVER", "http://127.0.0.1:8080")


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["explain", *words], env=ENVIRONMENT)


@pytest.fixture
def from_topics(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Explain]:
    """The command on a copy of topics in memory, or on a Kafka that answers with an error."""

    def on(flow: Any) -> Explain:
        async def load(*_: Any, **__: Any) -> Snapshot:
            if isinstance(flow, Exception):
                raise flow
            return copy(flow)

        async def from_the_copy(told: Any, present: Any, _: Any, partitions: int) -> None:
            await complete(told, present, Older(copy(flow).all()), partitions)

        monkeypatch.setattr(Snapshot, "load", load)
        monkeypatch.setattr(reading, "complete", from_the_copy)
        return lambda *words: invoke(*words, "--from-topics")

    return on


@pytest.fixture
def by_query(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Explain]:
    """The command with a gateway and a query worker on topics in memory."""

    def on(flow: Any) -> Explain:
        following = Following(flow, Settings(feature_gates="Failover=true", partitions=flow.partitions))
        following.follow()
        edge = Edge(following)

        def ask(request: httpx.Request) -> httpx.Response:
            answer = asyncio.run(edge.gateway.call(request.method, str(request.url.copy_with(host="localhost"))))
            return httpx.Response(answer.status_code, content=answer.content)

        behind(monkeypatch, ask)
        return invoke

    return on


@pytest.fixture(params=["from_topics", "by_query"])
def against(request: pytest.FixtureRequest) -> Callable[[Any], Explain]:
    """The command on topics in memory, in both ways. The output is the same."""
    found: Callable[[Any], Explain] = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def nodes(against: Callable[[Any], Explain]) -> Explain:
    world = NodeWorld("n1", "n2")
    world.taint("n2", "k", "NoSchedule")
    world.declare("Pod", "p", pod_spec())
    world.declare("Deployment", "web", {"replicas": 2, "template": TEMPLATE})
    world.run()
    return against(world.flow)


@pytest.mark.parametrize(
    "words", [("pod", "p"), ("pod/p",), ("pods", "default/p"), ("po/default/p",), ("Pod", "p", "-n", "default")]
)
def test_a_pod_by_every_way_to_name_it(nodes: Explain, words: tuple[str, ...]) -> None:
    done = nodes(*words)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Workload:       Pod default/p\nState:          Placed (Scheduled)\n")
    assert "1 of 2 nodes fit" in done.stdout
    assert "1       TaintToleration   node(s) had untolerated taint(s)" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["*", "n1", "1"] in [line[:3] for line in lines]


def test_one_node_closely(nodes: Explain) -> None:
    done = nodes("pod", "p", "--node", "n2")
    assert "nothing tolerates k:NoSchedule" in done.stdout
    assert "RULED OUT" in done.stdout
    done = nodes("pod", "p", "--node", "n1")
    assert [line.split()[0] for line in done.stdout.splitlines() if "x " in line] == [
        *("NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "TaintToleration")
    ]


@pytest.mark.parametrize(
    "words", [("node", "n2"), ("node/n2",), ("nodes", "n2"), ("no/n2",), ("Node", "n2", "-n", "x")]
)
def test_a_node_by_every_way_to_name_it(nodes: Explain, words: tuple[str, ...]) -> None:
    done = nodes(*words)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Target:         Node n2\nState:          Unreported\n")
    (taint,) = [line.split() for line in done.stdout.splitlines() if line.startswith("  k:NoSchedule")]
    assert (taint[1], taint[-3:]) == ("explicit", ["declared", "by", "tester"])
    assert "Events behind the taint k:NoSchedule of node n2, the first one first:" in done.stdout


def test_a_node_as_json_and_yaml(nodes: Explain) -> None:
    document = json.loads(nodes("node", "n2", "-o", "json").stdout)
    assert (document["target"], document["status"], document["cordoned"]) == ("Node/n2", "Unreported", False)
    (taint,) = document["taints"]
    (origin,) = taint["origins"]
    assert (taint["taint"], origin["origin"], origin["known"]) == ("k:NoSchedule", "explicit", True)
    (steps,) = [chain["steps"] for chain in document["chains"]]
    assert [step["topic"] for step in steps] == ["resources", "taints"]
    assert steps[-1]["id"] == origin["event"]
    assert yaml.safe_load(nodes("node/n2", "-o", "yaml").stdout) == document


@pytest.mark.parametrize("words", [("node",), ("nodes.spec.taints",)])
def test_a_kind_alone_is_its_structure(nodes: Explain, words: tuple[str, ...]) -> None:
    done = nodes(*words)
    assert done.exit_code == 0, done.output
    assert "KIND:       Node" in done.stdout


def test_as_json_and_yaml(nodes: Explain) -> None:
    document = json.loads(nodes("pod", "p", "--all", "-o", "json").stdout)
    assert document["decision"]["target"] == {"kind": "Node", "name": "n1"}
    assert document["here"] == ["n1"]
    assert (document["agrees"], document["considered"], document["fitting"], document["leftOut"]) == (True, 2, 1, 0)
    assert document["ruledOut"] == [
        {"filter": "TaintToleration", "reason": "node(s) had untolerated taint(s)", "count": 1}
    ]
    first, second = document["targets"]
    assert (first["name"], first["here"], first["passed"], first["rank"]) == ("n1", True, True, 1)
    assert first["total"] == sum(one["points"] for one in first["scores"])
    assert all(one["points"] == one["score"] * one["weight"] for one in first["scores"])
    assert (second["name"], second["passed"], second["total"], second["scores"]) == ("n2", False, None, [])
    (taint,) = second["taints"]
    assert (taint["taint"]["key"], taint["keepsAway"], taint["toleration"]) == ("k", True, None)
    steps = document["chains"][0]["steps"]
    assert [one["topic"] for one in steps] == ["resources", "placements"]
    assert steps[1]["causationid"] == steps[0]["id"]
    assert steps[1]["data"] == document["decision"]
    assert yaml.safe_load(nodes("pod", "p", "--all", "-o", "yaml").stdout) == document


def test_what_makes_pods_in_short(nodes: Explain) -> None:
    done = nodes("deployment", "web")
    assert "Pods (2):" in done.stdout
    assert "Pods:           2 Placed\n" in done.stdout
    assert done.stdout.count("Scheduled") == 2
    assert "moorage explain pod default/web-" in done.stdout
    document = json.loads(nodes("deploy/web", "-o", "json").stdout)
    assert {one["decision"]["target"]["name"] for one in document["pods"]} == {"n1"}


def test_of_many_pods_those_that_wait_are_shown_first(against: Callable[[Any], Explain]) -> None:
    world = NodeWorld()
    world.node("n1", allocatable={"cpu": "30"})
    template = {**TEMPLATE, "spec": pod_spec("1")}
    world.declare("Deployment", "web", {"replicas": 32, "template": template})
    world.run()
    command = against(world.flow)
    done = command("deployment", "web")
    assert "Pods:           2 Pending, 30 Placed\n" in done.stdout
    assert "Pods (25 of 32, the others with --all):" in done.stdout
    states = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("  web-")]
    assert states == ["Pending"] * 2 + ["Placed"] * 23
    assert "Pods (32):" in command("deployment", "web", "--all").stdout


def test_a_claimed_resource_and_its_binding(against: Callable[[Any], Explain]) -> None:
    world = KarmadaWorld("oslo", "paris")
    world.deploy("web", 2)
    world.policy(placement=ONE)
    world.run()
    command = against(world.flow)
    done = command("rb", "default/web-deployment")
    assert done.exit_code == 0, done.output
    assert "Clusters:       oslo (2)" in done.stdout
    assert command("deployment", "web").stdout == done.stdout
    assert "the spread constraints take others" in command("deployment/web", "--cluster", "paris").stdout
    done = command("deployment/web", "--node", "oslo")
    assert (done.exit_code, done.stderr) == (2, "error: --node: deployment web is placed on clusters, not on nodes\n")


def test_a_placement(against: Callable[[Any], Explain]) -> None:
    world = SelectingWorld("a", "b")
    world.place(numberOfClusters=1)
    command = against(world.flow)
    done = command("placement", "ns/p")
    assert done.exit_code == 0, done.output
    assert "Placement ns/p" in done.stdout
    assert "2 of 2 clusters of its sets fit" in done.stdout
    assert "Clusters:       a\n" in done.stdout
    document = json.loads(command("placement", "p", "-n", "ns", "--cluster", "b", "-o", "json").stdout)
    (only,) = document["targets"]
    assert [one["filter"] for one in only["filters"]] == ["ManagedClusterSets", "Predicate", "TaintToleration"]
    assert {one["prioritizer"] for one in only["scores"]} == {"Balance", "Steady"}
    assert command("placementdecision", "ns/p-decision-1").stdout == command("placement", "ns/p").stdout
    done = command("placement", "gone")
    assert done.stderr.startswith("Error from server (NotFound): placements.cluster.open-cluster-management.io")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("pod", "gone"), 1, 'Error from server (NotFound): pods "gone" not found\n'),
        (("pod", "p", "--node", "n9"), 1, 'Error from server (NotFound): nodes "n9" not found\n'),
        (("deployment", "gone"), 1, 'Error from server (NotFound): deployments.apps "gone" not found\n'),
        (
            ("rb", "gone"),
            1,
            'Error from server (NotFound): resourcebindings.work.karmada.io "gone" not found\n',
        ),
        (
            ("crb", "gone"),
            1,
            'Error from server (NotFound): clusterresourcebindings.work.karmada.io "gone" not found\n',
        ),
        (
            ("crb", "shop/web"),
            2,
            "error: name: invalid value 'shop/web': must be NAME, because a ClusterResourceBinding",
        ),
        (("pod", "p", "q"), 2, "error: explain needs one object"),
        (("pod", "a/b/c"), 2, "error: name: invalid value 'a/b/c': must be NAME or NAMESPACE/NAME"),
        (
            ("zone", "z1"),
            2,
            "error: kind: invalid value 'zone': must be one of placement, placementdecision, rollout, resourcebinding",
        ),
        (("node", "gone"), 1, 'Error from server (NotFound): nodes "gone" not found\n'),
        (("node", "default/n1"), 2, "error: name: invalid value 'default/n1': must be NAME, because a Node has no"),
        (("node", "n1", "--node", "n2"), 2, "error: node: invalid value 'n2': node n1 is a target itself\n"),
        (("frog", "n1"), 1, 'error: the server doesn\'t have a resource type "frog"'),
        (("pod", "p", "--node", "n1", "--cluster", "c"), 2, "error: --node and --cluster cannot be used together"),
        (("pod", "p", "--node", "n1", "--all"), 2, "error: --all cannot be used together with"),
        (("pod", "p", "--cluster", "c"), 2, "error: --cluster: no policy places pod p on clusters\n"),
        (("deployment", "web", "--node", "n1"), 2, "error: --node: deployment web has pods; ask about one of them"),
    ],
)
def test_what_cannot_be_told(nodes: Explain, words: tuple[str, ...], code: int, message: str) -> None:
    done = nodes(*words)
    assert done.exit_code == code
    assert done.stderr.startswith(message)


def test_without_kafka_or_topics_that_is_said(from_topics: Callable[[Any], Explain]) -> None:
    done = from_topics(KafkaConnectionError("nobody"))("pod", "p")
    assert done.exit_code == 1
    assert "Kafka at nowhere:1 does not answer" in done.stderr
    done = from_topics(SnapshotError("no such topic: moorage.taints.v1"))("pod", "p")
    assert done.exit_code == 1
    assert "no such topic: moorage.taints.v1.\nCreate the topics with `moorage topics apply`" in done.stderr


def status(code: int, message: str, **more: Any) -> httpx.Response:
    reason = {404: "NotFound", 421: "MisdirectedRequest"}.get(code, "ServiceUnavailable")
    return httpx.Response(code, json={"kind": "Status", "code": code, "message": message, "reason": reason, **more})


def refused(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


@pytest.mark.parametrize(
    ("gateway", "why"),
    [
        (refused, "the gateway at http://127.0.0.1:8080 does not answer (refused)"),
        (lambda _: status(503, "the query worker is not ready: its tables are read to 7%"), "the query worker is not"),
        (
            lambda _: status(404, "the server could not find the requested resource"),
            "the gateway is an older version that cannot explain",
        ),
    ],
)
def test_where_nobody_can_be_asked_the_topics_are_read_and_that_is_said(
    gateway: Callable[[httpx.Request], httpx.Response],
    why: str,
    from_topics: Callable[[Any], Explain],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = NodeWorld("n1")
    world.declare("Pod", "p", pod_spec())
    world.run()
    wanted = from_topics(world.flow)("pod", "p")
    assert (wanted.exit_code, wanted.stderr) == (0, "")
    behind(monkeypatch, gateway)
    done = invoke("pod", "p")
    assert (done.exit_code, done.stdout) == (0, wanted.stdout)
    assert done.stderr.startswith(why)
    assert done.stderr.endswith("; reading the topics instead, which takes longer\n")


def test_what_the_gateway_refuses_for_other_reasons_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    behind(monkeypatch, lambda _: status(421, "host: invalid value 'x'"))
    done = invoke("pod", "p")
    assert (done.exit_code, done.stderr) == (1, "Error from server (MisdirectedRequest): host: invalid value 'x'\n")
    behind(monkeypatch, lambda _: httpx.Response(200, json={"items": []}))
    assert "is not a gateway of Moorage" in invoke("pod", "p").stderr


def test_a_table_of_many_nodes_stays_short(against: Callable[[Any], Explain]) -> None:
    world = NodeWorld(*(f"n{number:03}" for number in range(300)))
    world.declare("Pod", "p", pod_spec())
    world.run()
    done = against(world.flow)("pod", "p")
    assert "(11 shown, 289 more with --all)" in done.stdout
    assert len(done.stdout.splitlines()) < 40
    assert len(against(world.flow)("pod", "p", "--all").stdout.splitlines()) > 300
