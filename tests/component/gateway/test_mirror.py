"""`POST /v1/mirror`: what a bridge has seen in a real cluster, and what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, Json, deployment, later, node, pod
from tests.component.gateway.test_access import allow, call, gateway_of
from tests.support.tables import table

from moorage.apiserver.storage.durable_log import Write
from moorage.bridges.engine.target_tables import digest_of
from moorage.bridges.karmada import plane
from moorage.bridges.kubernetes import reduced as kubernetes
from moorage.bridges.ocm import hub
from moorage_schemas.dead_letter import Audited
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import AUDIT, RESOURCES

SOURCE = "bridge/east"


def seen(document: Json, *, version: int = 7, uid: str = "u1", namespace: str = "", **metadata: Any) -> Json:
    """An object as its cluster has it."""
    found = {
        **document["metadata"],
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-01-01T10:00:00Z",
        "generation": 4,
        **metadata,
    }
    return {**document, "metadata": {**found, "namespace": namespace} if namespace else found}


def seen_node(name: str = "n1", *, taints: list[Json] | None = None, version: int = 7, uid: str = "u1") -> Json:
    return seen(node(name, taints=taints), version=version, uid=uid)


def seen_pod(name: str = "p1", *, version: int = 7, uid: str = "u1", **metadata: Any) -> Json:
    return seen(pod(name, nodeName="n1"), version=version, uid=uid, namespace="shop", **metadata)


def gone(document: Json, uid: str = "u1") -> Json:
    metadata = document["metadata"]
    return {"kind": document["kind"], "namespace": metadata.get("namespace", ""), "name": metadata["name"], "uid": uid}


async def mirrored(
    gateway: Fixture,
    *objects: Json,
    deleted: list[Json] | None = None,
    cluster: str = "",
    source: str = SOURCE,
) -> list[tuple[str, str]]:
    """Send a batch. Returns the keys and the outcomes, with the message where there is one."""
    body = {"source": source, "cluster": cluster, "objects": list(objects), "deleted": deleted or []}
    found = await gateway.ok("POST", "/v1/mirror", body)
    return [(one["key"], ": ".join(filter(None, (one["outcome"], one.get("message"))))) for one in found["results"]]


def records(gateway: Fixture, key: str) -> list[ResourceDeclared | None]:
    found = [write.event for write in gateway.log.written if write.topic is RESOURCES and write.key == key]
    assert all(one is None or isinstance(one, ResourceDeclared) for one in found)
    return found  # type: ignore[return-value]  # asserted


def last(gateway: Fixture, key: str) -> ResourceDeclared:
    found = records(gateway, key)[-1]
    assert found is not None
    return found


OCM_CLUSTER: Json = {
    "apiVersion": "cluster.open-cluster-management.io/v1",
    "kind": "ManagedCluster",
    "metadata": {"name": "c1"},
    "spec": {"hubAcceptsClient": True},
}
MEMBER: Json = {
    "apiVersion": "cluster.karmada.io/v1alpha1",
    "kind": "Cluster",
    "metadata": {"name": "c1"},
    "spec": {"syncMode": "Pull"},
}


@pytest.mark.parametrize("status", [{}, {"conditions": []}], ids=["no status", "nothing of it is mirrored"])
@pytest.mark.parametrize(
    ("reduced", "document"),
    [
        (hub.reduced, seen(OCM_CLUSTER)),
        (lambda found: plane.reduced(found, "default-scheduler"), seen(MEMBER)),
        (kubernetes.reduced, {**seen_node(), "status": {}}),
        (kubernetes.reduced, seen_pod()),
    ],
    ids=["ManagedCluster", "Cluster", "Node", "Pod"],
)
async def test_a_bridge_recognizes_what_it_has_sent(
    reduced: Callable[[Json], Json], document: Json, status: Json
) -> None:
    """Otherwise it sends the same again and again, and placements wait for clusters that are known."""
    gateway, sent = Fixture(), reduced({**document, "status": status})
    ((key, outcome),) = await mirrored(gateway, sent)
    assert outcome == "Written"
    stored = last(gateway, key)
    assert stored.mirrored is not None
    assert digest_of(stored.object, stored.mirrored.taints) == digest_of(sent, ())


async def test_an_object_is_stored_as_its_cluster_has_it() -> None:
    gateway = Fixture()
    status = {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"os": "x"}}
    document = {**seen_node(), "spec": {"podCIDR": "10.0.0.0/24"}, "status": status}
    document["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    assert await mirrored(gateway, document) == [("Node//n1", "Written")]
    stored = last(gateway, "Node//n1")
    assert stored.object == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "u1", "creationTimestamp": "2026-01-01T10:00:00Z", "generation": 4},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"capacity": {"cpu": "4"}, "nodeInfo": {"os": "x"}},
    }
    assert stored.mirrored is not None
    assert (stored.version, stored.mirrored.source, stored.mirrored.resource_version) == (1, SOURCE, "7")
    shown = await gateway.ok("GET", "/api/v1/nodes/n1")
    assert (shown["metadata"]["uid"], shown["status"]["nodeInfo"]) == ("u1", {"os": "x"})
    assert "conditions" not in shown["status"]


async def test_what_has_not_changed_is_not_written_again() -> None:
    gateway = Fixture()
    await mirrored(gateway, seen_pod())
    assert await mirrored(gateway, seen_pod(version=8)) == [("Pod/shop/p1", "Unchanged")]
    assert await mirrored(gateway, seen_pod(version=9, labels={"a": "b"})) == [("Pod/shop/p1", "Written")]
    assert [one.version for one in records(gateway, "Pod/shop/p1") if one is not None] == [1, 2]


async def test_what_is_older_than_what_is_recorded_is_ignored() -> None:
    gateway = Fixture()
    await mirrored(gateway, seen_pod(version=10, uid="u2"))
    assert await mirrored(gateway, seen_pod(version=9, uid="u2", labels={"a": "b"})) == [
        ("Pod/shop/p1", "Ignored: the version 10 is recorded already, and 9 is older")
    ]
    # A pod of that name with another uid is another pod.
    assert await mirrored(gateway, seen_pod(version=9, uid="u3")) == [("Pod/shop/p1", "Written")]
    assert await mirrored(gateway, deleted=[gone(seen_pod(), uid="u2")]) == [
        ("Pod/shop/p1", "Ignored: the object with the uid u3 is recorded, and u2 is another one")
    ]
    assert await mirrored(gateway, deleted=[gone(seen_pod(), uid="u3")]) == [("Pod/shop/p1", "Written")]
    assert await mirrored(gateway, deleted=[gone(seen_pod(), uid="u3")]) == [("Pod/shop/p1", "Unchanged")]
    assert await gateway.status("/api/v1/namespaces/shop/pods/p1") == 404


async def test_a_batch_is_one_transaction_and_each_object_sees_those_before_it() -> None:
    gateway, commits = Fixture(), list[int]()
    commit = gateway.log.commit

    async def counted(writes: Sequence[Write], *, is_shown: bool = True) -> int:
        commits.append(len(writes))
        return await commit(writes, is_shown=is_shown)

    gateway.log.commit = counted  # type: ignore[method-assign]  # counts the transactions
    found = await mirrored(
        gateway, seen_node(), seen_pod(), seen_pod(version=8, labels={"a": "b"}), deleted=[gone(seen_pod())]
    )
    assert [outcome for _, outcome in found] == ["Written"] * 4
    assert commits == [5]  # four records, and the audit of the deletion
    assert await gateway.status("/api/v1/namespaces/shop/pods/p1") == 404
    assert await gateway.status("/api/v1/nodes/n1") == 200


REFUSED = [
    ("x", "'x' is not an object"),
    ({**seen_pod(), "kind": "Nothing"}, 'kind: Invalid value: "Nothing": is no kind that is mirrored'),
    ({**seen_pod(), "kind": ["Pod"]}, "is no kind that is mirrored"),
    ({**seen_pod(), "apiVersion": "v2"}, 'apiVersion: Unsupported value: "v2": supported values: "v1"'),
    ({**seen_pod(), "metadata": {"namespace": "shop", "uid": "u"}}, "metadata.name: Required value"),
    (seen_pod(uid=""), "metadata.uid: Required value"),
    (seen(pod()), "metadata.namespace: Required value"),
    (seen(pod("a|b"), namespace="shop"), "metadata.name: Invalid value"),
    (seen(node("a/b")), "metadata.name: Invalid value"),
    ({**seen_pod(), "spec": {"containers": "none"}}, "spec.containers"),
    ({**seen_pod(), "spec": {"containers": [{"name": "m", "resources": {"requests": {"cpu": "much"}}}]}}, "much"),
    ({**seen_node(), "status": {"allocatable": {"cpu": "much"}}}, "status.allocatable[cpu]"),
    (seen_pod(creationTimestamp="yesterday"), "metadata.creationTimestamp"),
    (seen_node(taints=[{"key": "a"}]), "spec.taints[0].effect: Required value"),
    (seen_node(taints=[{"key": "a", "effect": "NoSchedule"}] * 2), "spec.taints[1]: Duplicate value"),
    (
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "a", "uid": "u"}},
        "is no kind that is mirrored",
    ),
]


@table(("document", "why"), REFUSED, ids=[why[:40] for _, why in REFUSED])
async def test_what_cannot_be_read_is_refused_and_stops_nothing_else(document: Any, why: str) -> None:
    gateway = Fixture()
    (first, (_, refused), second) = await mirrored(gateway, seen_node("a"), document, seen_node("b"))
    assert refused.startswith("Refused: ")
    assert why in refused
    assert (first, second) == (("Node//a", "Written"), ("Node//b", "Written"))


async def test_an_object_that_is_too_large_is_refused_and_stops_nothing_else() -> None:
    gateway = Fixture()
    large = seen_pod("large")
    large["spec"]["containers"][0]["args"] = ["x" * 1_100_000]
    found = await mirrored(gateway, large, seen_pod("small"))
    assert [outcome.partition(":")[0] for _, outcome in found] == ["Refused", "Written"]
    assert "is too large" in found[0][1]


@pytest.mark.parametrize(
    ("gone_object", "why"),
    [
        ("x", "'x' is not an object"),
        ({"kind": "Pod", "namespace": "shop"}, "name: Required value"),
        ({"kind": "Nothing", "name": "a"}, "kind: Invalid value"),
        ({"kind": "ClusterRole", "name": "cluster-admin"}, "kind: Invalid value"),
        ({"kind": 1, "name": "a"}, "kind: Invalid value: 1: must be text"),
        ({"kind": "Pod", "namespace": "shop", "name": "p1", "uid": 3}, "uid: Invalid value: 3: must be text"),
    ],
)
async def test_a_deletion_that_cannot_be_read_is_refused(gone_object: Any, why: str) -> None:
    gateway = Fixture()
    await mirrored(gateway, seen_pod())
    (_, refused), (_, done) = await mirrored(gateway, deleted=[gone_object, gone(seen_pod())])
    assert refused.startswith("Refused: ")
    assert why in refused
    assert done == "Written"


@table(
    ("body", "code", "why"),
    [
        ([], 400, "must be a JSON object"),
        ({"source": ""}, 400, "source: invalid value ''"),
        ({"source": 1}, 400, "source: invalid value 1"),
        ({"source": "b", "cluster": "East"}, 400, "cluster: invalid value 'East'"),
        ({"source": "b", "cluster": "a:b"}, 400, "cluster: invalid value 'a:b'"),
        ({"source": "b", "cluster": None}, 400, "cluster: invalid value None"),
        ({"source": "b", "objects": {}}, 400, "objects: invalid value {}: must be a list"),
        ({"source": "b", "deleted": "x"}, 400, "deleted: invalid value 'x': must be a list"),
        ({"source": "b", "object": []}, 400, "object: unknown field"),
        ({"source": "b", "objects": [{}] * 600, "deleted": [{}] * 401}, 413, "has 1001 objects"),
    ],
)
async def test_a_batch_that_cannot_be_read_is_refused(body: Any, code: int, why: str) -> None:
    answer = await Fixture().call("POST", "/v1/mirror", body)
    assert answer.status_code == code
    assert why in answer.json()["message"]


async def test_a_batch_of_too_many_bytes_is_refused() -> None:
    body = {"source": "b", "objects": [{"x": "x" * 900_000}] * 10}
    answer = await Fixture().call("POST", "/v1/mirror", body)
    assert answer.status_code == 413


async def test_what_is_declared_here_is_not_taken_over() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", node())
    assert await mirrored(gateway, seen_node(), deleted=[gone(seen_node())]) == [
        ("Node//n1", "Refused: is declared here"),
        ("Node//n1", "Refused: is declared here"),
    ]
    assert (await gateway.ok("GET", "/api/v1/nodes/n1"))["metadata"]["uid"] != "u1"


async def test_a_bridge_with_another_name_takes_the_objects_over() -> None:
    gateway = Fixture()
    await mirrored(gateway, seen_node())
    assert await mirrored(gateway, seen_node(), source="bridge/new") == [("Node//n1", "Written")]
    stored = last(gateway, "Node//n1").mirrored
    assert stored is not None
    assert stored.source == "bridge/new"
    assert await mirrored(gateway, deleted=[gone(seen_node())]) == [("Node//n1", "Written")]


def wishes(gateway: Fixture, key: str = "Node//n1") -> list[tuple[str, bool, int, str]]:
    return [(one.key, one.present, one.generation, one.actor) for one in last(gateway, key).wishes]


GPU = {"key": "gpu", "value": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T09:00:00Z"}
DISK = {"key": "disk", "effect": "NoExecute"}


async def test_the_taints_of_others_in_the_cluster_become_wishes() -> None:
    gateway = Fixture()
    await mirrored(gateway, seen_node(taints=[GPU]))
    (gpu,) = last(gateway, "Node//n1").wishes
    assert (gpu.key, gpu.value, gpu.present, gpu.time, gpu.actor) == ("gpu", "a", True, later(-3 * 3600), SOURCE)
    assert "taints" not in last(gateway, "Node//n1").object["spec"]
    await mirrored(gateway, seen_node(taints=[GPU, DISK], version=8))
    assert wishes(gateway) == [("gpu", True, 1, SOURCE), ("disk", True, 2, SOURCE)]
    assert last(gateway, "Node//n1").wishes[1].time == NOW
    await mirrored(gateway, seen_node(taints=[DISK], version=9))
    assert wishes(gateway) == [("disk", True, 2, SOURCE), ("gpu", False, 3, SOURCE)]
    shown = await gateway.ok("GET", "/api/v1/nodes/n1")
    assert [one["key"] for one in shown["spec"]["taints"]] == ["disk"]


NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-01T09:00:00Z"}


async def test_a_batch_states_whether_the_cluster_decides_on_its_taints() -> None:
    gateway = Fixture()

    async def sent(*objects: dict[str, Any], keeps: bool = True) -> list[str]:
        body = {"source": SOURCE, "objects": objects, "deleted": [], "keepsTaints": keeps}
        return [one["outcome"] for one in (await gateway.ok("POST", "/v1/mirror", body))["results"]]

    assert await sent(seen_node(taints=[NOT_READY]), seen_pod()) == ["Written", "Written"]
    node, pod = last(gateway, "Node//n1").mirrored, last(gateway, "Pod/shop/p1").mirrored
    assert node is not None
    assert pod is not None
    assert (node.keeps_taints, pod.keeps_taints) == (True, False)
    assert wishes(gateway) == [(NOT_READY["key"], True, 1, SOURCE)]
    assert await sent(seen_node(taints=[NOT_READY], version=8), seen_pod()) == ["Unchanged", "Unchanged"]
    assert await sent(seen_node(version=8), seen_pod(), keeps=False) == ["Written", "Unchanged"]
    node = last(gateway, "Node//n1").mirrored
    assert node is not None
    assert not node.keeps_taints
    assert wishes(gateway) == [(NOT_READY["key"], False, 2, SOURCE)]
    answer = await gateway.call("POST", "/v1/mirror", {"source": SOURCE, "keepsTaints": "yes"})
    assert answer.status_code == 400
    assert "keepsTaints: invalid value 'yes': must be true or false" in answer.text


async def test_wishes_of_people_stay_and_a_node_of_the_same_name_begins_anew() -> None:
    gateway = Fixture()
    await mirrored(gateway, seen_node(taints=[GPU]))
    mine = {"key": "mine", "effect": "NoSchedule"}
    await gateway.ok("PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [GPU, mine]}})
    await mirrored(gateway, seen_node(taints=[DISK], version=8))
    assert [(key, present) for key, present, _, _ in wishes(gateway)] == [
        ("mine", True),
        ("gpu", False),
        ("disk", True),
    ]
    assert last(gateway, "Node//n1").version == 3
    await mirrored(gateway, seen_node(taints=[GPU], version=9, uid="u2"))
    assert wishes(gateway) == [("gpu", True, 1, SOURCE)]


async def test_deletions_are_audited_and_what_is_written_is_not() -> None:
    gateway = Fixture()
    await mirrored(gateway, seen_pod(), seen_node())
    await mirrored(gateway, deleted=[gone(seen_pod())])
    audited = [one.event for one in gateway.log.written if one.topic is AUDIT]
    (found,) = audited
    assert isinstance(found, Audited)
    assert (found.verb, found.resource, found.uid) == ("delete", "Pod/shop/p1", "u1")


async def test_nothing_is_written_while_nothing_can_be() -> None:
    gateway = Fixture()
    gateway.log.obstacle = "Kafka is away"
    answer = await gateway.call("POST", "/v1/mirror", {"source": SOURCE, "objects": [seen_node()]})
    assert (answer.status_code, answer.json()["message"]) == (503, "Kafka is away")


async def test_an_older_version_of_a_kind_is_stored_as_the_present_one() -> None:
    gateway = Fixture()
    api = "cluster.open-cluster-management.io"
    document = {"apiVersion": f"{api}/v1beta1", "kind": "ManagedClusterSet", "metadata": {"name": "eu"}, "spec": {}}
    found = await mirrored(gateway, seen(document))
    if found[0][1] == "Written":
        assert last(gateway, "ManagedClusterSet//eu").object["apiVersion"] == f"{api}/v1beta2"
    else:
        assert "apiVersion: Unsupported value" in found[0][1]


async def test_a_controller_and_its_pods_are_shown_as_the_cluster_has_them() -> None:
    gateway = Fixture()
    web = seen(deployment(), namespace="shop")
    web["status"] = {"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2, "observedGeneration": 4}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r1", "controller": True}
    mine = seen_pod("web-1-a", uid="u2", ownerReferences=[owner])
    mine["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "podIP": "10.0.0.7"}
    dying = seen_pod("web-1-b", uid="u3", deletionTimestamp="2026-01-01T11:00:00Z", deletionGracePeriodSeconds=30)
    dying["status"] = {"phase": "Failed", "reason": "Evicted"}
    await mirrored(gateway, web, mine, dying)
    shown = await gateway.ok("GET", "/apis/apps/v1/namespaces/shop/deployments/web")
    assert shown["status"] == web["status"]
    assert "annotations" not in shown["metadata"]
    found = await gateway.ok("GET", "/api/v1/namespaces/shop/pods/web-1-a")
    assert (found["status"]["phase"], found["status"]["podIP"], found["spec"]["nodeName"]) == (
        "Running",
        "10.0.0.7",
        "n1",
    )
    assert found["status"]["conditions"] == mine["status"]["conditions"]
    found = await gateway.ok("GET", "/api/v1/namespaces/shop/pods/web-1-b")
    assert (found["status"]["reason"], found["metadata"]["deletionTimestamp"]) == ("Evicted", "2026-01-01T11:00:00Z")


async def test_mirrored_objects_of_clusters_are_not_in_the_home_fleet() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", node())
    assert await mirrored(gateway, seen_node(uid="e1"), seen_pod(), cluster="east") == [
        ("east:Node//n1", "Written"),
        ("east:Pod/shop/p1", "Written"),
    ]
    await mirrored(gateway, seen_node(uid="w1"), cluster="west", source="bridge/west")
    assert [one["metadata"]["uid"] for one in (await gateway.ok("GET", "/api/v1/nodes"))["items"]] != ["e1"]
    assert len((await gateway.ok("GET", "/api/v1/nodes"))["items"]) == 1
    assert (await gateway.ok("GET", "/api/v1/pods"))["items"] == []
    stored = last(gateway, "east:Node//n1")
    assert (stored.cluster, stored.uid, stored.key) == ("east", "e1", "east:Node//n1")
    for cluster, uid in (("east", "e1"), ("west", "w1")):
        (found,) = (await gateway.ok("GET", f"/clusters/{cluster}/api/v1/nodes"))["items"]
        assert found["metadata"]["uid"] == uid
    assert await mirrored(gateway, deleted=[gone(seen_node(), uid="w1")], cluster="west") == [
        ("west:Node//n1", "Written")
    ]
    assert await gateway.status("/clusters/west/api/v1/nodes") == 404
    assert await gateway.status("/clusters/east/api/v1/nodes/n1") == 200


def seen_hub(name: str) -> Json:
    """A managed cluster of a hub."""
    kind = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
    return seen({**kind, "metadata": {"name": name}})


def of_cluster(uid: str, *objects: Json, source: str = SOURCE, cluster: str = "") -> Json:
    """A batch of a cluster that says which one it is."""
    return {"source": source, "cluster": cluster, "clusterUID": uid, "objects": list(objects)}


async def test_two_clusters_are_not_mirrored_under_one_name() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/v1/mirror", of_cluster("c1", seen_node()))
    kept = last(gateway, "Node//n1").mirrored
    assert kept is not None
    assert kept.cluster_uid == "c1"
    other = of_cluster("c2", seen_node("n2")) | {"deleted": [gone(seen_node())]}
    answer = await gateway.call("POST", "/v1/mirror", other)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert answer.json()["message"] == (
        f"clusterUID: invalid value 'c2': the home fleet has objects that {SOURCE} has mirrored from the cluster with "
        "the uid c1"
    )
    assert records(gateway, "Node//n2") == []
    assert await gateway.status("/api/v1/nodes/n1") == 200
    # Another bridge of the same fleet, such as that of a hub, may be of another cluster, and so may another name.
    await gateway.ok("POST", "/v1/mirror", of_cluster("c2", seen_hub("a"), source="bridge/ocm"))
    await gateway.ok("POST", "/v1/mirror", of_cluster("c2", seen_node("n2"), cluster="east"))
    answer = await gateway.call("POST", "/v1/mirror", of_cluster("c3", cluster="east"))
    assert answer.status_code == 409
    assert "the cluster east has objects" in answer.json()["message"]
    # When everything of the first one is forgotten, the other one may have its name.
    await mirrored(gateway, deleted=[gone(seen_node())])
    await gateway.ok("POST", "/v1/mirror", of_cluster("c4", seen_node("n3")))


async def test_one_cluster_is_not_mirrored_under_two_names() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/v1/mirror", of_cluster("c1", seen_node(), cluster="east"))
    for cluster, objects in (("west", [seen_node()]), ("", [seen_node("n2"), seen_pod()])):
        answer = await gateway.call("POST", "/v1/mirror", of_cluster("c1", *objects, cluster=cluster, source="b"))
        assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")
        assert answer.json()["message"] == (
            f"clusterUID: invalid value 'c1': {SOURCE} mirrors this cluster as the cluster east already (Node), and a "
            "cluster has one name"
        )
        assert answer.json()["details"] == {"group": "moorage.io", "kind": "clusters", "name": "east"}
    assert [write.key for write in gateway.log.written if write.topic is RESOURCES] == ["east:Node//n1"]
    # Other clusters may come under these names, and the cluster itself when the first name is free.
    await gateway.ok("POST", "/v1/mirror", of_cluster("c2", seen_node(), cluster="west"))
    await mirrored(gateway, deleted=[gone(seen_node())], cluster="east")
    await gateway.ok("POST", "/v1/mirror", of_cluster("c1", seen_node()))
    answer = await gateway.call("POST", "/v1/mirror", of_cluster("c1", seen_node(), cluster="east"))
    assert "mirrors this cluster as the home fleet already" in answer.json()["message"]
    assert answer.json()["details"]["name"] == "home"


async def test_a_hub_is_mirrored_beside_the_kubernetes_cluster_that_it_is() -> None:
    gateway = Fixture()
    hub = of_cluster("c1", seen_hub("a"), source="bridge/ocm")
    cluster = of_cluster("c1", seen_node(), seen_pod(), cluster="hub", source="bridge/hub")
    for _ in range(2):
        for batch in (hub, cluster, of_cluster("c1", source="bridge/ocm"), of_cluster("c1", cluster="hub")):
            await gateway.ok("POST", "/v1/mirror", batch)
    assert (await gateway.ok("GET", "/clusters/hub/api/v1/nodes"))["items"]


async def test_a_sign_of_life_is_refused_when_a_cluster_was_mirrored_under_two_names() -> None:
    gateway = Fixture(ready=False, namespaces=())
    for cluster in ("east", "west"):  # as an earlier gateway let it be
        before = Fixture()
        await before.ok("POST", "/v1/mirror", of_cluster("c1", seen_node(), cluster=cluster, source=f"b/{cluster}"))
        for write in before.declared:
            if write.topic is RESOURCES and write.key.startswith(cluster):
                gateway.log.append(write.topic, write.key, write.partition_key, write.event, write.meta)
    gateway.begin()
    for cluster, other in (("east", "west"), ("west", "east")):
        answer = await gateway.call("POST", "/v1/mirror", of_cluster("c1", cluster=cluster, source=f"b/{cluster}"))
        assert answer.status_code == 409
        assert f"b/{other} mirrors this cluster as the cluster {other} already" in answer.json()["message"]
    assert (await gateway.call("POST", "/v1/mirror", of_cluster("c1", cluster="new"))).status_code == 200
    await mirrored(gateway, deleted=[gone(seen_node())], cluster="west", source="b/west")
    await gateway.ok("POST", "/v1/mirror", of_cluster("c1", cluster="east", source="b/east"))


async def test_of_two_names_that_come_at_once_one_is_taken() -> None:
    gateway = Fixture()
    names = ("east", "west", "north", "")
    answers = await asyncio.gather(
        *(gateway.call("POST", "/v1/mirror", of_cluster("c1", seen_node(), cluster=name)) for name in names)
    )
    assert sorted(one.status_code for one in answers) == [200, 409, 409, 409]
    assert len([write for write in gateway.log.written if write.topic is RESOURCES]) == 1


async def test_of_two_clusters_that_come_at_once_one_is_mirrored() -> None:
    gateway = Fixture()
    bodies = [of_cluster(f"c{number}", seen_node(f"n{number}")) for number in range(4)]
    answers = await asyncio.gather(*(gateway.call("POST", "/v1/mirror", body) for body in bodies))
    assert sorted(one.status_code for one in answers) == [200, 409, 409, 409]
    assert len((await gateway.ok("GET", "/api/v1/nodes"))["items"]) == 1


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("clusterUID", 7, "clusterUID: invalid value 7: must be the uid of the cluster's namespace kube-system"),
        ("clusterUID", "x" * 254, "must be the uid of the cluster's namespace kube-system"),
        ("cluster", "home", "cluster: invalid value 'home': roles call the home fleet so, which is the empty name"),
    ],
)
async def test_a_batch_names_its_cluster(field: str, value: Any, message: str) -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", "/v1/mirror", {"source": SOURCE, field: value})
    assert answer.status_code == 400
    assert message in answer.json()["message"]


BRIDGE = [{"kind": "User", "name": "ann"}]


async def test_a_role_says_which_clusters_somebody_may_mirror(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    rule = {"verbs": ["update"], "apiGroups": ["moorage.io"], "resources": ["clustermirrors"]}
    await allow(gateway, "bridges", BRIDGE, {**rule, "resourceNames": ["east", "home"]})
    for cluster, code in (("east", 200), ("", 200), ("west", 403)):
        body = {"source": SOURCE, "cluster": cluster, "objects": [seen_node()]}
        answer = await call(gateway, "a", "POST", "/v1/mirror", body)
        assert answer.status_code == code, answer.text
    answer = await call(gateway, "a", "POST", "/v1/mirror", {"source": SOURCE, "cluster": "west"})
    assert answer.json()["message"] == (
        'clustermirrors.moorage.io "west" is forbidden: User "ann" cannot update resource "clustermirrors" in API '
        'group "moorage.io" at the cluster scope'
    )
    assert records(gateway, "west:Node//n1") == []
    # Who may mirror nothing is refused whatever the body says.
    answer = await call(gateway, "b", "POST", "/v1/mirror", "nonsense")
    assert answer.status_code == 403
    assert (await call(gateway, "a", "GET", "/v1/mirror")).status_code == 403
    assert (await call(gateway, "root", "GET", "/v1/mirror")).status_code == 405
