"""The Kubernetes API's verbs, errors, and compare-and-set."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, deployment, node, node_ref, pod, pod_ref
from tests.support.tables import table

from moorage.apiserver.http.messages import bodies
from moorage.runtime.service import Input
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.topics import AUDIT, PLACEMENTS, RESOURCES

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"


async def test_what_is_created_can_be_read_listed_and_deleted() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, node())
    assert made["metadata"]["uid"]
    assert made["metadata"]["generation"] == 1
    assert made["metadata"]["creationTimestamp"] == "2026-01-01T12:00:00Z"
    assert await gateway.ok("GET", f"{NODES}/n1") == made
    listed = await gateway.ok("GET", NODES)
    assert (listed["kind"], listed["items"]) == ("NodeList", [made])
    gone = await gateway.ok("DELETE", f"{NODES}/n1")
    assert (gone["status"], gone["details"]["uid"]) == ("Success", made["metadata"]["uid"])
    assert (await gateway.call("GET", f"{NODES}/n1")).status_code == 404


async def test_every_write_is_one_record_of_the_resource_and_one_of_the_audit() -> None:
    gateway = Fixture()
    await gateway.ok("POST", f"{NODES}?fieldManager=ann", node())
    await gateway.ok("DELETE", f"{NODES}/n1")
    assert [(write.topic, write.key) for write in gateway.log.written] == [
        (RESOURCES, "Node//n1"),
        (AUDIT, "Node//n1"),
        (RESOURCES, "Node//n1"),
        (AUDIT, "Node//n1"),
    ]
    assert [write.partition_key for write in gateway.declared] == ["Node/n1", "Node/n1"]
    assert gateway.declared[1].event is None
    audited = gateway.log.written[1].event
    assert audited is not None
    shown = audited.model_dump(mode="json")
    assert (shown["actor"], shown["verb"], shown["version"]) == ("ann", "create", 1)


@table(
    ("method", "path", "body", "code", "reason"),
    [
        ("GET", f"{NODES}/nobody", None, 404, "NotFound"),
        ("DELETE", f"{NODES}/nobody", None, 404, "NotFound"),
        ("PUT", f"{NODES}/nobody", node("nobody"), 404, "NotFound"),
        ("PATCH", f"{NODES}/nobody", {}, 404, "NotFound"),
        ("GET", "/api/v1/unicorns", None, 404, "NotFound"),
        ("GET", "/apis/apps/v9/deployments", None, 404, "NotFound"),
        ("GET", "/api/v1/nodes/n1/status/x", None, 404, "NotFound"),
        ("GET", "/api/v1/nothing", None, 404, "NotFound"),
        ("POST", NODES, node(), 409, "AlreadyExists"),
        ("POST", f"{NODES}/n1", node(), 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/pods", None, 405, "MethodNotAllowed"),
        ("DELETE", "/api/v1/namespaces", None, 405, "MethodNotAllowed"),
        ("POST", "/api/v1/pods", pod(), 405, "MethodNotAllowed"),
        ("POST", "/apis/moorage.io/v1alpha1/taints", {}, 405, "MethodNotAllowed"),
        ("POST", NODES, [1], 400, "BadRequest"),
        ("POST", NODES, {"kind": "Pod"}, 400, "BadRequest"),
        ("POST", NODES, {"apiVersion": "v2"}, 400, "BadRequest"),
        ("POST", NODES, {"metadata": 7}, 400, "BadRequest"),
        ("POST", NODES, node() | {"spec": {"unschedulable": "perhaps"}}, 400, "BadRequest"),
        ("POST", PODS, pod() | {"metadata": {"name": "p", "namespace": "other"}}, 400, "BadRequest"),
        ("PUT", f"{NODES}/n1", node("n2"), 400, "BadRequest"),
        ("POST", f"{NODES}?dryRun=Some", node("n2"), 422, "Invalid"),
        ("GET", f"{NODES}?labelSelector=a=(", None, 400, "BadRequest"),
        ("GET", f"{NODES}?labelSelector=,", None, 400, "BadRequest"),
        ("GET", f"{NODES}?labelSelector=a=1,", None, 400, "BadRequest"),
        ("GET", f"{NODES}?fieldSelector=spec.color=red", None, 400, "BadRequest"),
        ("GET", f"{NODES}?fieldSelector=,", None, 400, "BadRequest"),
        ("GET", f"{NODES}?watch=1&resourceVersion=abc", None, 400, "BadRequest"),
        ("POST", NODES, {"metadata": {}}, 422, "Invalid"),
        ("POST", NODES, node("UPPER"), 422, "Invalid"),
        ("POST", "/api/v1/namespaces/Bad_Name/pods", pod(), 404, "NotFound"),
        ("DELETE", "/api/v1/namespaces/default", None, 403, "Forbidden"),
    ],
)
async def test_errors_are_status_objects(method: str, path: str, body: Any, code: int, reason: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    answer = await gateway.call(method, path, body)
    status = answer.json()
    assert (answer.status_code, status["code"], status["reason"]) == (code, code, reason), status
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    assert len(gateway.declared) == 1


@pytest.mark.parametrize(
    ("path", "body", "field", "message"),
    [
        (NODES, node("n2", taints=[{"key": "a"}]), "spec.taints[0].effect", "Required value"),
        (
            NODES,
            node("n2", taints=[{"key": "a", "effect": "Sometimes"}]),
            "spec.taints[0].effect",
            'Unsupported value: "Sometimes"',
        ),
        (
            PODS,
            pod(tolerations=[{"operator": "Exists", "value": "x", "key": "a"}]),
            "spec.tolerations[0].operator",
            "value must be empty when `operator` is 'Exists'",
        ),
        (
            PODS,
            pod() | {"metadata": {"name": "p", "annotations": {"a b": "c"}}},
            "metadata.annotations",
            'value: "a b"',
        ),
        (PODS, pod() | {"metadata": {"name": "p", "labels": {"a b": "c"}}}, "metadata.labels", 'Invalid value: "a b"'),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            {
                "metadata": {"name": "d"},
                "spec": {
                    "selector": {"matchLabels": {"app": "d"}},
                    "template": {"metadata": {"labels": {"app": "d"}}, "spec": {}},
                },
            },
            "spec.template.spec.containers",
            "Required value",
        ),
        (
            "/apis/moorage.io/v1alpha1/dedicatednodes",
            {"metadata": {"name": "d"}, "spec": {}},
            "spec.value",
            "Required value",
        ),
    ],
)
async def test_invalid_objects_name_field_value_and_rule(path: str, body: Any, field: str, message: str) -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", path, body)
    assert answer.status_code == 422, answer.text
    causes = answer.json()["details"]["causes"]
    assert [cause["field"] for cause in causes] == [field]
    assert message in causes[0]["message"]
    assert f"{field}: " in answer.json()["message"]


async def test_media_types_and_broken_json_are_refused() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    text = await gateway.http.post(NODES, content=b"x", headers={"content-type": "text/plain"})
    unknown = await gateway.call("PATCH", f"{NODES}/n1", {}, headers={"content-type": "application/json"})
    broken = await gateway.http.post(NODES, content=b'{"a":', headers={"content-type": "application/json"})
    deep = await gateway.http.post(
        NODES, content=b'{"a":' * 150 + b"1" + b"}" * 150, headers={"content-type": "application/json"}
    )
    assert [text.status_code, unknown.status_code, broken.status_code, deep.status_code] == [415, 415, 400, 400]


async def test_a_large_body_is_refused_and_not_read_for_ever() -> None:
    gateway = Fixture()
    taken = 0

    async def endless() -> Any:
        nonlocal taken
        while True:
            taken += 10_000
            yield b"x" * 10_000

    announced = await gateway.http.post(NODES, content=b"x" * 2_000_000)
    streamed = await gateway.http.post(NODES, content=endless(), headers={"content-type": "application/json"})
    assert [announced.status_code, streamed.status_code] == [413, 413]
    assert streamed.json()["reason"] == "RequestEntityTooLarge"
    assert taken < bodies.BODY_LIMIT + bodies.DRAINED + 100_000


async def test_names_are_generated_on_request() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", PODS, pod() | {"metadata": {"generateName": "job-"}})
    assert made["metadata"]["name"].startswith("job-")
    assert len(made["metadata"]["name"]) == len("job-") + 5


async def test_generation_grows_with_the_spec_alone() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    labelled = await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    cordoned = await gateway.ok("PATCH", f"{NODES}/n1", {"spec": {"unschedulable": True}})
    assert cordoned["metadata"]["generation"] == 2
    assert cordoned["metadata"]["labels"] == {"a": "b"}
    assert int(cordoned["metadata"]["resourceVersion"]) > int(labelled["metadata"]["resourceVersion"])


async def test_a_change_that_changes_nothing_writes_nothing() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, node())
    assert await gateway.ok("PATCH", f"{NODES}/n1", {"spec": {}}) == made
    assert await gateway.ok("PUT", f"{NODES}/n1", made) == made
    assert len(gateway.declared) == 1


async def test_a_merge_patch_removes_with_null() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node() | {"metadata": {"name": "n1", "labels": {"a": "1", "b": "2"}}})
    patched = await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"labels": {"a": None, "c": "3"}}})
    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}


async def test_a_stale_version_or_another_uid_conflicts() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, node())
    await gateway.ok("PATCH", f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}})
    stale = made["metadata"]["resourceVersion"]
    put = await gateway.call("PUT", f"{NODES}/n1", made)
    patch = await gateway.call("PATCH", f"{NODES}/n1", {"metadata": {"resourceVersion": stale, "labels": {"a": "c"}}})
    gone = await gateway.call("DELETE", f"{NODES}/n1", {"preconditions": {"resourceVersion": stale}})
    other = await gateway.call("DELETE", f"{NODES}/n1", {"preconditions": {"uid": "another"}})
    assert [answer.status_code for answer in (put, patch, gone, other)] == [409] * 4
    assert {answer.json()["reason"] for answer in (put, patch, gone, other)} == {"Conflict"}
    assert (await gateway.ok("GET", f"{NODES}/n1"))["metadata"]["labels"] == {"a": "b"}


async def test_of_concurrent_updates_of_one_version_exactly_one_wins() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, node())
    gateway.log.open.clear()
    attempts = [
        asyncio.create_task(
            gateway.call("PUT", f"{NODES}/n1", {**made, "metadata": {**made["metadata"], "labels": {"n": str(i)}}})
        )
        for i in range(10)
    ]
    await asyncio.sleep(0)
    gateway.log.open.set()
    codes = sorted(answer.status_code for answer in await asyncio.gather(*attempts))
    assert codes == [200] + [409] * 9


async def test_nothing_is_answered_before_the_tables_are_read() -> None:
    gateway = Fixture(ready=False)
    ready = await gateway.call("GET", "/readyz")
    assert (ready.status_code, "reading" in ready.text) == (503, True)
    assert (await gateway.call("GET", "/healthz")).status_code == 200
    for method, path, body in (("GET", NODES, None), ("POST", NODES, node()), ("DELETE", f"{NODES}/n1", None)):
        answer = await gateway.call(method, path, body)
        assert (answer.status_code, answer.json()["reason"]) == (503, "ServiceUnavailable")


async def test_a_gateway_that_cannot_write_says_so_and_still_reads() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    gateway.log.obstacle = "fenced out"
    answer = await gateway.call("POST", NODES, node("n2"))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "fenced out" in answer.json()["message"]
    assert "fenced out" in (await gateway.call("GET", "/readyz")).text
    assert len((await gateway.ok("GET", NODES))["items"]) == 1


async def test_pods_get_their_defaults_and_hold_their_immutable_fields() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", PODS, pod(tolerations=[{"key": "mine", "operator": "Exists"}]))
    keys = [toleration["key"] for toleration in made["spec"]["tolerations"]]
    assert keys == ["mine", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert (made["status"]["phase"], made["metadata"]["namespace"]) == ("Pending", "default")

    more = [*made["spec"]["tolerations"], {"key": "new", "operator": "Exists"}]
    more[1] = {**more[1], "tolerationSeconds": 5}
    added = await gateway.ok("PATCH", f"{PODS}/p1", {"spec": {"tolerations": more}})
    assert added["spec"]["tolerations"] == more
    removed = await gateway.call("PATCH", f"{PODS}/p1", {"spec": {"tolerations": more[1:]}})
    moved = await gateway.call("PATCH", f"{PODS}/p1", {"spec": {"nodeName": "n9"}})
    assert [removed.status_code, moved.status_code] == [422, 422]
    assert removed.json()["details"]["causes"][0]["field"] == "spec.tolerations"
    assert "nodeName" in moved.json()["message"]


async def test_a_dedicated_rule_reaches_pods_that_are_created_after_it() -> None:
    gateway = Fixture()
    rule = {"metadata": {"name": "gpu"}, "spec": {"value": "gpu"}}
    await gateway.ok("POST", "/apis/moorage.io/v1alpha1/dedicatednodes", rule)
    made = await gateway.ok("POST", PODS, pod())
    assert {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"} in made["spec"][
        "tolerations"
    ]


async def test_a_dedicated_rule_does_not_stand_in_the_way_of_older_pods() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod())
    rule = {"metadata": {"name": "gpu"}, "spec": {"value": "gpu"}}
    await gateway.ok("POST", "/apis/moorage.io/v1alpha1/dedicatednodes", rule)
    labelled = await gateway.ok("PATCH", f"{PODS}/p1", {"metadata": {"labels": {"a": "b"}}})
    assert "affinity" not in labelled["spec"]


def placed(name: str, uid: str, state: PlacementState, **more: Any) -> WorkloadPlaced:
    own = {
        "workload": pod_ref(name),
        "uid": uid,
        "owner": pod_ref(name),
        "owner_uid": uid,
        "generation": 1,
        "state": state,
        "decided_time": NOW,
    }
    return WorkloadPlaced.model_validate({**own, **more})


async def test_a_pod_shows_where_it_was_placed_and_why_not() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", PODS, pod()))["metadata"]["uid"]
    key = "Pod/default/p1"
    waits = placed("p1", uid, PlacementState.PENDING, reason="Unschedulable", message="0/3 nodes are available")
    gateway.log.append(PLACEMENTS, key, key, waits)
    pending = await gateway.ok("GET", f"{PODS}/p1")
    assert pending["status"]["phase"] == "Pending"
    assert pending["status"]["conditions"][0]["reason"] == "Unschedulable"
    gateway.log.append(PLACEMENTS, key, key, placed("p1", uid, PlacementState.PLACED, target=node_ref("n1")))
    bound = await gateway.ok("GET", f"{PODS}/p1")
    assert (bound["spec"]["nodeName"], bound["status"]["phase"]) == ("n1", "Pending")
    conditions = {one["type"]: one["status"] for one in bound["status"]["conditions"]}
    assert (conditions["PodScheduled"], conditions["Ready"]) == ("True", "False")
    found = await gateway.ok("GET", "/api/v1/pods?fieldSelector=spec.nodeName=n1")
    assert [item["metadata"]["name"] for item in found["items"]] == ["p1"]
    # A pod that is sent back as it was shown is not bound to its node by that.
    await gateway.ok("PUT", f"{PODS}/p1", {**bound, "metadata": {**bound["metadata"], "labels": {"a": "b"}}})
    event = gateway.declared[-1].event
    assert isinstance(event, ResourceDeclared)
    assert "nodeName" not in event.object["spec"]


async def test_an_evicted_bare_pod_is_gone_and_its_resource_is_deleted() -> None:
    gateway = Fixture()
    uid = (await gateway.ok("POST", PODS, pod()))["metadata"]["uid"]
    async with gateway.app.router.lifespan_context(gateway.app):
        key = "Pod/default/p1"
        gateway.log.append(PLACEMENTS, key, key, placed("p1", uid, PlacementState.EVICTED))
        assert (await gateway.call("GET", f"{PODS}/p1")).status_code == 404
        async with asyncio.timeout(60):
            while key in gateway.store.tables.resources:
                await gateway.store.history.wait()
    assert gateway.declared[-1].event is None
    again = await gateway.ok("POST", PODS, pod())
    assert again["metadata"]["uid"] != uid


async def test_pods_of_a_controller_are_shown_with_its_counts_and_cannot_be_changed() -> None:
    gateway = Fixture()
    path = "/apis/apps/v1/namespaces/default/deployments"
    made = await gateway.ok("POST", path, deployment())
    owner = {"kind": "Deployment", "namespace": "default", "name": "web"}
    for index, target in enumerate((node_ref("n1"), None)):
        state = PlacementState.PLACED if target else PlacementState.PENDING
        event = placed(
            f"web-{index}", f"u{index}", state, owner=owner, owner_uid=made["metadata"]["uid"], target=target
        )
        gateway.log.append(PLACEMENTS, f"Pod/default/web-{index}", "Deployment/default/web", event)
    status = (await gateway.ok("GET", f"{path}/web"))["status"]
    assert (status["replicas"], status["scheduledReplicas"], status.get("readyReplicas")) == (2, 1, None)
    pods = (await gateway.ok("GET", f"{PODS}?labelSelector=app=web"))["items"]
    assert [(item["metadata"]["name"], item["status"]["phase"]) for item in pods] == [
        ("web-0", "Pending"),
        ("web-1", "Pending"),
    ]
    assert [item["spec"].get("nodeName") for item in pods] == ["n1", None]
    assert pods[0]["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    refused = await gateway.call("PATCH", f"{PODS}/web-0", {"spec": {"activeDeadlineSeconds": 5}})
    assert (refused.status_code, "Deployment/default/web" in refused.json()["message"]) == (405, True)
    views = await gateway.ok("GET", "/apis/moorage.io/v1alpha1/workloadplacements")
    assert [item["metadata"]["name"] for item in views["items"]] == ["web-0", "web-1"]
    await gateway.ok("DELETE", f"{path}/web")
    assert (await gateway.ok("GET", PODS))["items"] == []


async def test_a_controller_is_counted_once_for_records_that_come_together() -> None:
    gateway = Fixture()
    path = "/apis/apps/v1/namespaces/default/deployments"
    made = await gateway.ok("POST", path, deployment())
    owner = {"kind": "Deployment", "namespace": "default", "name": "web"}
    since = gateway.store.history.count
    records = [
        Input(
            PLACEMENTS,
            0,
            index,
            f"Pod/default/web-{index}",
            placed(
                f"web-{index}",
                f"u{index}",
                PlacementState.PLACED,
                owner=owner,
                owner_uid=made["metadata"]["uid"],
                target=node_ref("n1"),
            ),
            Meta(id=f"e{index}", source="test", type=PLACEMENTS.event_type),
        )
        for index in range(5)
    ]
    gateway.log.fold(records)
    changes = [change for change in gateway.store.history.since(since) if change.object_id.kind == "Deployment"]
    assert [change.last.document["status"]["replicas"] for change in changes] == [5]
    versions = [change.version for change in gateway.store.history.since(since)]
    assert versions == sorted(versions)


@table(
    ("selector", "names"),
    [
        ("a=1", ["n1"]),
        ("a==1,b", ["n1"]),
        ("a!=1", ["n2", "n3"]),
        ("a in (1,2)", ["n1", "n2"]),
        ("a notin (1)", ["n2", "n3"]),
        ("a", ["n1", "n2"]),
        ("!a", ["n3"]),
        ("", ["n1", "n2", "n3"]),
    ],
)
async def test_label_selectors(selector: str, names: list[str]) -> None:
    gateway = Fixture()
    for name, labels in (("n1", {"a": "1", "b": "x"}), ("n2", {"a": "2"}), ("n3", {})):
        await gateway.ok("POST", NODES, node() | {"metadata": {"name": name, "labels": labels}})
    found = await gateway.ok("GET", NODES, params={"labelSelector": selector})
    assert [item["metadata"]["name"] for item in found["items"]] == names


async def test_discovery_lists_what_is_served() -> None:
    gateway = Fixture()
    core = {item["name"]: item for item in (await gateway.ok("GET", "/api/v1"))["resources"]}
    assert core["nodes"]["namespaced"] is False
    assert core["pods"]["shortNames"] == ["po"]
    groups = [group["name"] for group in (await gateway.ok("GET", "/apis"))["groups"]]
    assert groups == [
        "apps",
        "batch",
        "moorage.io",
        "events.k8s.io",
        "autoscaling",
        "networking.k8s.io",
        "policy",
        "machine.openshift.io",
        "cluster.karmada.io",
        "policy.karmada.io",
        "lifecycle.k8s.io",
        "cluster.open-cluster-management.io",
        "addon.open-cluster-management.io",
        "coordination.k8s.io",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "discovery.k8s.io",
        "work.karmada.io",
        "clusterview.open-cluster-management.io",
        "apiextensions.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
    ]
    managed = await gateway.ok("GET", "/apis/cluster.open-cluster-management.io/v1alpha1")
    served = {item["name"]: item["verbs"] for item in managed["resources"]}
    assert served["placementdecisions"] == ["create", "get", "list", "patch", "watch"]
    assert "create" in served["placements"]
    assert (await gateway.ok("GET", "/apis/apps"))["preferredVersion"]["version"] == "v1"
    own = {item["name"]: item["verbs"] for item in (await gateway.ok("GET", "/apis/moorage.io/v1alpha1"))["resources"]}
    assert own["evictions"] == ["get", "list", "watch"]
    assert (await gateway.ok("GET", "/version"))["major"] == "1"
    assert (await gateway.ok("GET", "/api"))["versions"] == ["v1"]


@pytest.mark.parametrize(
    ("host", "code"), [("localhost:8080", 200), ("127.0.0.1", 200), ("[::1]:8080", 200), ("evil.example", 421)]
)
async def test_a_name_that_is_not_the_gateways_is_refused(host: str, code: int) -> None:
    gateway = Fixture()
    assert (await gateway.call("GET", NODES, headers={"host": host})).status_code == code


@pytest.mark.parametrize(
    ("origin", "code"),
    [("http://localhost:8080", 200), ("http://127.0.0.1", 200), ("https://evil.example", 403), ("null", 403)],
)
async def test_pages_of_other_sites_are_refused(origin: str, code: int) -> None:
    gateway = Fixture()
    assert (await gateway.call("GET", NODES, headers={"origin": origin})).status_code == code


async def test_metrics_count_requests_and_records() -> None:
    gateway = Fixture(namespaces=())
    await gateway.ok("POST", NODES, node())
    text = (await gateway.call("GET", "/metrics")).text
    assert 'moorage_gateway_table_records{topic="resources"} 1.0' in text
    assert "moorage_gateway_ready 1.0" in text
