"""The API of a cluster, `/clusters/{name}`: its objects alone, as if it were the home fleet, and what is possible."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import orjson
from tests.component.gateway.double import NOW, Fixture, Json, node, pod
from tests.component.gateway.test_access import allow, call, gateway_of
from tests.component.gateway.test_mirror import GPU, SOURCE, gone, last, mirrored, seen_node, seen_pod, wishes
from tests.support.fleet_units import UNITS, UnitRecord
from tests.support.tables import table
from tests.support.waiting import until

from moorage.apiserver.http.messages.selectors import Selector
from moorage.apiserver.http.verbs.watch import Watch, events, start
from moorage.apiserver.kinds.kind import ServedKind, discovered
from moorage.apiserver.kinds.node import KIND as NODE_KIND
from moorage.apiserver.kinds.status.clusters import cluster_of, local_event, local_key
from moorage.apiserver.storage.cluster_store import ClusterStore
from moorage.apiserver.storage.store import Store
from moorage.apiserver.storage.tables import READ
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.keys import condition_key
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.topics import CONDITIONS, RESOURCES, TAINTS

EAST = "/clusters/east"
NODES = f"{EAST}/api/v1/nodes"
N1 = TargetRef(kind=TargetKind.NODE, name="n1", cluster="east")


async def with_east() -> Fixture:
    gateway = Fixture()
    await mirrored(gateway, seen_node(taints=[GPU], uid="e1"), seen_pod(uid="e2"), cluster="east")
    return gateway


# Records of a cluster, and the same of the home fleet


def in_cluster(value: Any, cluster: str) -> Any:
    """What a record of the home fleet is in a cluster: written here a second time, without regard to `local_event`."""
    if isinstance(value, ResourceDeclared):
        return value.model_copy(update={"cluster": cluster})
    if isinstance(value, TargetRef | WorkloadRef):
        return value.model_copy(update={"cluster": cluster})
    if isinstance(value, Model):
        return value.model_copy(
            update={name: in_cluster(getattr(value, name), cluster) for name in type(value).model_fields}
        )
    if isinstance(value, tuple):
        return tuple(in_cluster(one, cluster) for one in value)
    return value


def key_in(record: UnitRecord, cluster: str) -> str:
    parts = record.key.split("|")
    return "|".join(f"{cluster}:{part}" if "/" in part and part[0].isupper() else part for part in parts)


def records() -> list[UnitRecord]:
    """Records in every topic that gateways read, of units of every kind."""
    found = list[UnitRecord]()
    for unit in UNITS:
        if unit.name != "OCM placement":  # it needs a thousand clusters
            found += itertools.chain(unit.context(4), *map(unit.records, range(4)))
    return [one for one in found if one.topic in READ]


def shown(store: Store, cluster: str = "") -> dict[str, list[Json]]:
    """All objects of a fleet, without their versions."""
    kinds = [kind.kind for kind in discovered()]
    prefix = f"{cluster}:" if cluster else ""
    found = {kind: [orjson.loads(one.unversioned) for one in store.all(f"{prefix}{kind}")] for kind in kinds}
    return {kind: objects for kind, objects in found.items() if objects}


def gateway_with(*clusters: str) -> Fixture:
    gateway = Fixture(ready=False, namespaces=())
    for record in records():
        for cluster in clusters:
            key, event = record.key, record.event
            if cluster:
                key, event = key_in(record, cluster), in_cluster(event, cluster)
            gateway.log.append(record.topic, key, key, event)
    gateway.begin()
    return gateway


def test_the_records_of_the_test_are_in_all_topics_with_references() -> None:
    topics = {record.topic.short for record in records()}
    assert {"resources", "taints", "conditions", "bindings", "placements", "evictions", "timers"} <= topics


def test_a_gateway_that_starts_with_records_of_clusters_shows_the_home_fleet_unchanged() -> None:
    alone, beside = gateway_with(""), gateway_with("", "east", "west")
    assert shown(beside.store) == shown(alone.store)
    assert beside.store.tables.count == alone.store.tables.count


def test_a_cluster_is_shown_as_if_it_were_the_home_fleet_without_what_is_built_in() -> None:
    home, gateway = shown(gateway_with("").store), gateway_with("west", "east")
    east = shown(gateway.store, "east")
    built_in = shown(Fixture(namespaces=()).store)
    differing = {"Namespace", "ConfigMap", "ServiceAccount", "ManagedClusterSet"}  # implied by others
    for kind, objects in home.items():
        if kind not in differing:
            assert east.get(kind, []) == [one for one in objects if one not in built_in.get(kind, [])], kind
    assert set(east) <= set(home) - differing


def test_records_of_a_cluster_lose_its_name_and_nothing_else() -> None:
    for record in records():
        key, event = key_in(record, "east"), in_cluster(record.event, "east")
        assert cluster_of(record.topic.short, key) == "east"
        assert cluster_of(record.topic.short, record.key) == ""
        assert local_key(key, "east") == record.key
        assert local_event(event, "east") == record.event


def test_a_cluster_of_which_nothing_is_left_takes_no_room() -> None:
    gateway = gateway_with("", "east")
    for record in records():
        key = key_in(record, "east")
        gateway.log.append(record.topic, key, key, None)
    assert gateway.log.derivation.clusters == {}
    assert not gateway.store.has_cluster("east")
    assert shown(gateway.store) == shown(gateway_with("").store)


def test_tables_of_a_cluster_note_nothing_for_controllers() -> None:
    tables = gateway_with("east").log.derivation.clusters["east"].tables
    for index in tables.indexes():
        if (unsettled := getattr(index, "unsettled", None)) is not None:
            assert len(unsettled) == 0, index


# What the API of a cluster shows


async def test_its_api_has_discovery_tables_and_watches() -> None:
    gateway = await with_east()
    assert (await gateway.ok("GET", f"{EAST}/api/v1"))["kind"] == "APIResourceList"
    assert (await gateway.ok("GET", f"{EAST}/apis"))["kind"] == "APIGroupList"
    assert "paths" in await gateway.ok("GET", f"{EAST}/openapi/v2")
    assert "gitVersion" in await gateway.ok("GET", f"{EAST}/version")
    table = await gateway.ok("GET", NODES, headers={"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [row["cells"][0] for row in table["rows"]] == ["n1"]
    page = await gateway.ok("GET", f"{EAST}/api/v1/namespaces/shop/pods?limit=1")
    assert [one["metadata"]["name"] for one in page["items"]] == ["p1"]
    version = page["metadata"]["resourceVersion"]
    fleet = ClusterStore(gateway.store, "east")
    watched = Watch(ServedKind(NODE_KIND, "v1"), "", Selector(), int(version), timeout=0)
    await gateway.ok("POST", "/api/v1/nodes", node("n2"))
    await mirrored(gateway, seen_node("n3", uid="w3"), cluster="west")
    await mirrored(gateway, seen_node("n4", uid="e4"), cluster="east")
    chunks = [chunk async for chunk in events(fleet, watched, start(fleet, watched))]
    found = [orjson.loads(line) for line in b"".join(chunks).splitlines()]
    assert [(one["type"], one["object"]["metadata"]["name"]) for one in found] == [("ADDED", "n4")]


@table(
    "path",
    [
        "/clusters",
        "/clusters/",
        "/clusters/east",
        "/clusters/east/",
        "/clusters/east/console",
        "/clusters/east/v1/mirror",
        "/clusters/east/v1/decisions/",
        "/clusters/east/metrics",
        "/clusters/east/clusters/east/api/v1/nodes",
        "/clusters/East/api/v1/nodes",
        "/clusters/-/api/v1/nodes",
        "/clusters/west/api/v1/nodes",
    ],
)
async def test_there_is_nothing_else(path: str) -> None:
    gateway = await with_east()
    for method in ("GET", "POST"):
        answer = await gateway.call(method, path, None)
        assert answer.status_code == 404, (method, answer.text)


async def test_what_makes_a_cluster_is_not_there() -> None:
    gateway = await with_east()
    for plural in ("namespaces", "serviceaccounts", "configmaps", "secrets"):
        assert (await gateway.ok("GET", f"{EAST}/api/v1/{plural}"))["items"] == []
    rbac = f"{EAST}/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert (await gateway.ok("GET", rbac))["items"] == []
    assert await gateway.status(f"{EAST}/apis/moorage.io/v1alpha1/moorageconfigurations/cluster") == 404


async def test_only_taints_and_reports_change_something() -> None:
    gateway = await with_east()
    where = "is mirrored from cluster east by bridge/east: change it there"
    pods = f"{EAST}/api/v1/namespaces/shop/pods"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1", "namespace": "shop"}}
    for method, path, body in (
        ("POST", NODES, node("n2")),
        ("POST", pods, pod("p2")),
        ("PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}}),
        ("DELETE", f"{NODES}/n1", None),
        ("DELETE", pods, None),
        ("POST", f"{pods}/p1/eviction", eviction),
        ("POST", f"{EAST}/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "x"}, "rules": []}),
    ):
        answer = await gateway.call(method, path, body)
        assert answer.status_code == 403, (method, path, answer.text)
        assert where in answer.json()["message"] or "is in cluster east: change it there" in answer.json()["message"]
    mine = {"key": "mine", "effect": "NoSchedule"}
    changed = await gateway.ok("PATCH", f"{NODES}/n1", {"spec": {"taints": [GPU, mine]}})
    assert [one["key"] for one in changed["spec"]["taints"]] == ["gpu", "mine"]
    assert [key for key, *_ in wishes(gateway, "east:Node//n1")] == ["gpu", "mine"]
    assert (last(gateway, "east:Node//n1").cluster, last(gateway, "east:Node//n1").version) == ("east", 2)
    condition = {"type": "DiskPressure", "status": "True"}
    await gateway.ok("PATCH", f"{NODES}/n1/status", {"status": {"conditions": [condition]}})
    (report,) = gateway.log.reported
    assert isinstance(report.event, ConditionReported)
    assert (report.key, report.event.target) == ("east:Node/n1", N1)
    assert (await gateway.ok("GET", "/api/v1/nodes"))["items"] == []


async def test_what_services_decide_about_a_cluster_is_shown_there() -> None:
    gateway = await with_east()
    taint = TaintRecord(key="full", effect="NoSchedule", time_added=NOW, origins=(TaintOrigin.CONDITION,))
    tainted = TargetTainted(target=N1, target_uid="e1", generation=1, taints=(taint,), wishes_applied=1)
    gateway.log.append(TAINTS, N1.key, N1.key, tainted)
    changed = ConditionChanged(
        target=N1,
        target_uid="e1",
        type="Ready",
        status=ConditionStatus.FALSE,
        last_transition_time=NOW,
        last_heartbeat_time=NOW,
        generation=1,
    )
    gateway.log.append(CONDITIONS, condition_key(N1, "Ready"), N1.key, changed)
    found = await gateway.ok("GET", f"{NODES}/n1")
    assert [one["key"] for one in found["spec"]["taints"]] == ["full"]
    assert [one["status"] for one in found["status"]["conditions"]] == ["False"]
    (view,) = (await gateway.ok("GET", f"{EAST}/apis/moorage.io/v1alpha1/taints"))["items"]
    assert view["status"]["target"] == {"kind": "Node", "name": "n1"}
    assert (await gateway.ok("GET", "/apis/moorage.io/v1alpha1/taints"))["items"] == []


async def test_reports_about_targets_of_a_cluster_are_taken() -> None:
    gateway = await with_east()
    await gateway.ok("POST", "/api/v1/nodes", node("home-only"))
    head = {"ce-specversion": "1.0", "ce-type": "io.moorage.condition.reported.v1", "ce-source": SOURCE, "ce-id": "1"}
    for name, code in (("n1", 202), ("home-only", 404)):
        target = {"kind": "Node", "name": name, "cluster": "east"}
        body = {"target": target, "type": "Ready", "status": "False", "observedTime": NOW.isoformat()}
        answer = await gateway.call("POST", "/v1/conditions", body, headers=head)
        assert answer.status_code == code, answer.text
    (report,) = gateway.log.reported
    assert report.key == "east:Node/n1"


async def test_a_report_to_the_api_of_a_cluster_need_not_name_it() -> None:
    gateway = await with_east()
    head = {"ce-specversion": "1.0", "ce-type": "io.moorage.condition.reported.v1", "ce-source": SOURCE, "ce-id": "1"}
    answer = await gateway.call("GET", EAST)
    for named, code in (({}, 202), ({"cluster": "east"}, 202), ({"cluster": "west"}, 422)):
        target = {"kind": "Node", "name": "n1", **named}
        body = {"target": target, "type": "Ready", "status": "False", "observedTime": NOW.isoformat()}
        answer = await gateway.call("POST", f"{EAST}/v1/conditions", body, headers=head)
        assert answer.status_code == code, answer.text
    assert "data.target.cluster: invalid value 'west': must be east" in answer.json()["message"]
    assert [one.key for one in gateway.log.reported] == ["east:Node/n1"] * 2


# Who may do it

READER = {"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["nodes", "pods"]}
ANN = [{"kind": "User", "name": "ann"}]


async def permitted_gateway(tmp_path: Path, *rules: Any) -> Fixture:
    gateway = await gateway_of(tmp_path)
    body = {"source": SOURCE, "cluster": "east", "objects": [seen_node(uid="e1"), seen_pod(uid="e2")]}
    assert (await call(gateway, "root", "POST", "/v1/mirror", body)).status_code == 200
    await allow(gateway, "reader", ANN, *rules)
    return gateway


async def test_a_cluster_is_seen_by_those_who_may_get_it_and_what_they_ask(tmp_path: Path) -> None:
    cluster = {"verbs": ["get"], "apiGroups": ["moorage.io"], "resources": ["clusters"], "resourceNames": ["east"]}
    gateway = Fixture()
    for number, (rules, code) in enumerate((((READER,), 403), ((cluster,), 403), ((READER, cluster), 200))):
        folder = tmp_path / str(number)
        folder.mkdir()
        gateway = await permitted_gateway(folder, *rules)
        assert (await call(gateway, "a", "GET", NODES)).status_code == code
        assert (await call(gateway, "b", "GET", NODES)).status_code == 403
    # Whether there is such a cluster is not told to those who may not get it.
    told = (await call(gateway, "a", "GET", "/clusters/west/api/v1/nodes")).json()["message"]
    assert told.startswith('clusters.moorage.io "west" is forbidden: User "ann" cannot get resource "clusters"')
    taint = {"spec": {"taints": [GPU]}}
    assert (await call(gateway, "a", "PATCH", f"{NODES}/n1", taint)).status_code == 403


async def test_a_right_in_a_namespace_of_the_home_fleet_is_none_in_a_cluster(tmp_path: Path) -> None:
    cluster = {"verbs": ["get"], "apiGroups": ["moorage.io"], "resources": ["clusters"]}
    gateway = await permitted_gateway(tmp_path, cluster)
    root = {"authorization": "Bearer root"}
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop"
    await gateway.ok("POST", f"{rbac}/roles", {"metadata": {"name": "r"}, "rules": [READER]}, headers=root)
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": ANN,
    }
    await gateway.ok("POST", f"{rbac}/rolebindings", binding, headers=root)
    assert (await call(gateway, "a", "GET", "/api/v1/namespaces/shop/pods")).status_code == 200
    assert (await call(gateway, "a", "GET", f"{EAST}/api/v1/namespaces/shop/pods")).status_code == 403


async def test_whoever_may_update_a_cluster_and_patch_its_nodes_taints_them(tmp_path: Path) -> None:
    change = {"verbs": ["patch"], "apiGroups": [""], "resources": ["nodes"]}
    cluster = {"verbs": ["get", "update"], "apiGroups": ["moorage.io"], "resources": ["clusters"]}
    gateway = await permitted_gateway(tmp_path, change, cluster)
    answer = await call(
        gateway, "a", "PATCH", f"{NODES}/n1", {"spec": {"taints": [GPU]}}, content_type="application/merge-patch+json"
    )
    assert answer.status_code == 200, answer.text


async def test_roles_in_a_cluster_give_nothing(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    metadata = {"name": "everything", "uid": "u"}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "everything"},
        "subjects": ANN,
    }
    for cluster in ("", "east"):
        body = {"source": SOURCE, "cluster": cluster, "objects": [role, binding]}
        answer = await call(gateway, "root", "POST", "/v1/mirror", body)
        assert {one["outcome"] for one in answer.json()["results"]} == {"Refused"}
    for document in (role, binding):  # as another program might write it
        key = f"east:{document['kind']}//everything"
        gateway.log.append(RESOURCES, key, key, ResourceDeclared(object=document, version=1, cluster="east"))
    assert gateway.store.has_cluster("east")
    assert (await call(gateway, "a", "GET", "/api/v1/nodes")).status_code == 403
    assert (await call(gateway, "a", "GET", NODES)).status_code == 403


async def test_two_batches_that_cross_are_written_one_after_the_other() -> None:
    gateway = Fixture()
    gateway.log.open.clear()
    names = [f"n{number}" for number in range(20)]

    def batch(version: int, order: list[str]) -> asyncio.Task[Any]:
        objects = [
            seen_node(name, version=version, uid=name, taints=[{**GPU, "value": str(version)}]) for name in order
        ]
        return asyncio.create_task(mirrored(gateway, *objects, cluster="east"))

    first, second = batch(7, names), batch(8, names[::-1])
    await until(lambda: len(asyncio.all_tasks()) > 2)
    gateway.log.open.set()
    outcomes = {outcome for _, outcome in await first} | {outcome.partition(":")[0] for _, outcome in await second}
    assert outcomes == {"Written"}
    assert {last(gateway, f"east:Node//{name}").version for name in names} == {2}

    await mirrored(gateway, deleted=[gone(seen_node(name), uid=name) for name in names], cluster="east")
    assert not gateway.store.has_cluster("east")
