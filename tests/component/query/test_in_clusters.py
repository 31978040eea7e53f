"""Explanations of what is in a cluster that is mirrored under a name, from tables, a copy and through the gateway."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.component.query.edge import Edge
from tests.component.query.following import Following
from tests.support.worlds.mirrored import BRIDGE, MirroredWorld, controller
from tests.support.worlds.world import WITNESS, lifted

from moorage.insight.explain.question import Question, QuestionError


def world() -> tuple[MirroredWorld, MirroredWorld]:
    """A cluster beside the home fleet. Both have a node n1 and a pod web."""
    settings = lifted(partitions=3)
    home = MirroredWorld("n1", settings=settings)
    east = MirroredWorld("n1", WITNESS, settings=settings, cluster="east", beside=home)
    home.pod("web", on="n1")
    east.taint("n1", "for", "NoSchedule", "others")
    east.run()
    east.pod("web", on="n1")
    east.report("n1", "Ready", "False", source=BRIDGE)
    east.run()
    return home, east


def follow(of: MirroredWorld) -> Following:
    following = Following(of.flow, of.settings)
    following.follow()
    return following


async def asked(following: Following, **question: Any) -> Any:
    """The explanation, which is the same from tables that follow and from a copy."""
    found = Question(**question)
    text = await following.explained(found)
    assert text == await following.from_topics(found)
    return json.loads(text)


async def test_a_pod_is_explained_with_the_nodes_of_its_cluster() -> None:
    home, east = world()
    following = follow(east)
    told = await asked(following, kind="Pod", namespace="default", name="web", every=True, within="east")
    assert (told["workload"], told["considered"]) == ("east:Pod/default/web", 2)
    assert {one["name"]: one["outcome"].partition(":")[0] for one in told["targets"]} == {
        "n1": "bound there in its cluster; the filters would rule it out",
        WITNESS: "1st best",
    }
    assert [one["about"] for one in told["chains"]] == ["the decision", "the eviction from node n1"]
    at_home = await asked(following, kind="Pod", namespace="default", name="web", every=True)
    assert (at_home["workload"], at_home["considered"], len(at_home["targets"])) == ("Pod/default/web", 1, 1)
    assert home.pods()["web"].workload.key == at_home["workload"]


async def test_a_node_is_explained_with_what_was_reported_of_it_there() -> None:
    _, east = world()
    following = follow(east)
    told = await asked(following, kind="Node", namespace="", name="n1", within="east")
    assert (told["target"], told["status"]) == ("east:Node/n1", "NotReady")
    assert [one["key"] for one in told["taints"]] == [
        "for",
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/not-ready",
    ]
    assert (await asked(following, kind="Node", namespace="", name="n1"))["taints"] == []


def test_what_is_decided_on_in_the_home_fleet_alone_is_not_asked_about_in_a_cluster() -> None:
    with pytest.raises(QuestionError, match="a Placement is decided on in the home fleet only"):
        Question("Placement", "default", "p", within="east")
    with pytest.raises(QuestionError, match="no policy places what is in cluster east"):
        Question("Pod", "default", "p", cluster="member1", within="east")


async def test_the_cluster_is_in_the_path_alone() -> None:
    _, east = world()
    edge = Edge(follow(east))
    answer = await edge.gateway.call("GET", "/clusters/east/v1/explain?kind=Pod&name=web")
    assert answer.json()["explanation"]["workload"] == "east:Pod/default/web"
    answer = await edge.gateway.call("GET", "/v1/explain?kind=Pod&name=web")
    assert answer.json()["explanation"]["workload"] == "Pod/default/web"
    for path in ("/v1/explain", "/clusters/west/v1/explain"):
        answer = await edge.gateway.call("GET", f"{path}?kind=Pod&name=web&within=east")
        assert (answer.status_code, answer.json()["message"]) == (
            400,
            "within: must be in the path: /clusters/NAME/v1/explain",
        )
    answer = await edge.gateway.call("GET", "/clusters/east/v1/simulate")
    assert answer.status_code == 404


async def test_who_asks_needs_the_cluster_and_the_right_for_all_of_its_namespaces() -> None:
    _, east = world()
    edge = Edge(follow(east))
    async with edge.gateway.running() as gateway:
        await gateway.app.state.first_content.run()
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        ann = {"impersonate-user": "ann"}
        path = "/clusters/east/v1/explain?kind=Node&name=n1"
        wanted = [
            ({"apiGroups": ["moorage.io"], "resources": ["explanations"], "verbs": ["get"]}, "explanations"),
            ({"apiGroups": ["moorage.io"], "resources": ["clusters"], "verbs": ["get"]}, "clusters"),
            ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}, "nodes"),
        ]
        for number in range(len(wanted) + 1):
            rules = [rule for rule, _ in wanted[:number]]
            role = {"metadata": {"name": f"r{number}"}, "rules": rules}
            await gateway.ok("POST", f"{rbac}/clusterroles", role)
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"r{number}"}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}
            binding = {"metadata": {"name": f"b{number}"}, "roleRef": reference, "subjects": [subject]}
            await gateway.ok("POST", f"{rbac}/clusterrolebindings", binding)
            await gateway.settled()
            answer = await gateway.call("GET", path, headers=ann)
            assert answer.status_code == (200 if number == len(wanted) else 403), number


@pytest.mark.parametrize("cluster", ["", "east"])
async def test_a_mirrored_controller_is_explained_with_its_pods(cluster: str) -> None:
    """Whose they are is said by their owners in the cluster: a Deployment has a ReplicaSet, and that has pods."""
    home, east = world()
    of = east if cluster else home
    for kind, name in (("Deployment", "shop"), ("ReplicaSet", "shop-1"), ("StatefulSet", "db")):
        of.mirror(kind, name, {"replicas": 1})
    of.own("ReplicaSet", "shop-1", controller("Deployment", "shop"))
    for name, owner in (("shop-1-a", controller("ReplicaSet", "shop-1")), ("db-0", controller("StatefulSet", "db"))):
        of.pod(name, on="n1")
        of.own("Pod", name, owner)
    of.run()
    following = follow(of)

    async def pods(kind: str, name: str, within: str = cluster) -> list[str]:
        found = await asked(following, kind=kind, namespace="default", name=name, within=within)
        return [one["workload"].rpartition("/")[2] for one in found["pods"]]

    assert await pods("Deployment", "shop") == ["shop-1-a"]
    assert await pods("ReplicaSet", "shop-1") == ["shop-1-a"]
    assert await pods("StatefulSet", "db") == ["db-0"]
    of.own("Pod", "db-0", controller("StatefulSet", "other"))
    of.run()
    following.follow()
    assert await pods("StatefulSet", "db") == []
