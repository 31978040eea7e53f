"""The templates that controllers have had, and what `kubectl rollout` reads of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json, deployment, later, node, node_ref, pod_ref

from moorage.decide.scheduling.nodes.workloads import daemon_index, template_hash
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import PlacementState, WorkloadBound, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import BINDINGS, PLACEMENTS

APPS = "/apis/apps/v1/namespaces/default"
PODS = "/api/v1/namespaces/default/pods"
REVISION = "deployment.kubernetes.io/revision"


def template(image: str = "app:1", **metadata: Any) -> Json:
    return {"metadata": {"labels": {"app": "web"}, **metadata}, "spec": {"containers": [{"name": "c", "image": image}]}}


def hashed(gateway: Fixture, kind: str = "Deployment") -> str:
    return template_hash(gateway.store.tables.resources[f"{kind}/default/web"].object["spec"]["template"])


def make(gateway: Fixture, name: str, *, kind: str = "Deployment", made_from: str = "", at: float = 0) -> None:
    """Write placement's records of a pod of the present template, bound to n1."""
    owner = WorkloadRef(kind=kind, namespace="default", name="web")
    ref, uid = pod_ref(name), gateway.store.tables.resources[owner.key].uid
    placed = WorkloadPlaced(
        workload=ref,
        uid=f"uid-of-{name}",
        owner=owner,
        owner_uid=uid,
        index=daemon_index("n1") if kind == "DaemonSet" else 0,
        template_hash=made_from or hashed(gateway, kind),
        generation=1,
        state=PlacementState.PLACED,
        target=node_ref("n1"),
        binding_generation=1,
        decided_time=later(at),
    )
    bound = WorkloadBound(
        workload=ref, uid=placed.uid, owner=owner, target=node_ref("n1"), generation=1, bound_time=later(at)
    )
    gateway.log.append(PLACEMENTS, ref.key, owner.key, placed)
    gateway.log.append(BINDINGS, binding_key(ref, node_ref("n1")), node_ref("n1").key, bound)


def end(gateway: Fixture, name: str, kind: str = "Deployment") -> None:
    """Write that placement has ended a pod."""
    gateway.log.append(PLACEMENTS, pod_ref(name).key, f"{kind}/default/web", None)
    gateway.log.append(BINDINGS, binding_key(pod_ref(name), node_ref("n1")), node_ref("n1").key, None)


def ready(gateway: Fixture, name: str, status: ConditionStatus = ConditionStatus.TRUE, *, at: float = 0) -> None:
    gateway.reported(pod_ref(name), node_ref("n1"), status, at=later(at))


async def deploy(gateway: Fixture, replicas: int = 2, **spec: Any) -> Json:
    body = deployment(replicas=replicas)
    return await gateway.ok("POST", f"{APPS}/deployments", {**body, "spec": {**body["spec"], **spec}})


async def set_template(gateway: Fixture, wanted: Json, plural: str = "deployments") -> None:
    shown = await gateway.ok("GET", f"{APPS}/{plural}/web")
    await gateway.ok("PUT", f"{APPS}/{plural}/web", {**shown, "spec": {**shown["spec"], "template": wanted}})


async def sets(gateway: Fixture) -> dict[str, Json]:
    """The replica sets by their revision."""
    await gateway.settled()
    items = (await gateway.ok("GET", f"{APPS}/replicasets"))["items"]
    return {one["metadata"]["annotations"][REVISION]: one for one in items}


def conditions(shown: Json) -> dict[str, tuple[str, str, str]]:
    return {
        one["type"]: (one["status"], one["reason"], one["lastTransitionTime"]) for one in shown["status"]["conditions"]
    }


async def test_a_deployment_has_a_replica_set_to_which_its_pods_belong() -> None:
    async with Fixture().running() as gateway:
        made = await deploy(gateway, replicas=3)
        make(gateway, f"web-{hashed(gateway)}-aaaaa")
        (one,) = (await sets(gateway)).values()
        name = f"web-{hashed(gateway)}"
        assert one["metadata"]["name"] == name
        assert one["metadata"]["labels"] == {"app": "web", "pod-template-hash": hashed(gateway)}
        annotations = one["metadata"]["annotations"]
        assert annotations["deployment.kubernetes.io/desired-replicas"] == "3"
        assert annotations["deployment.kubernetes.io/max-replicas"] == "4"
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("Deployment", made["metadata"]["uid"], True)
        assert one["spec"]["replicas"] == 3
        assert one["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": hashed(gateway)}
        assert one["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == hashed(gateway)
        assert (one["status"]["replicas"], one["status"].get("readyReplicas", 0)) == (1, 0)
        shown = await gateway.ok("GET", f"{PODS}/{name}-aaaaa")
        (owner,) = shown["metadata"]["ownerReferences"]
        assert (owner["apiVersion"], owner["kind"], owner["name"]) == ("apps/v1", "ReplicaSet", name)
        assert owner["uid"] == one["metadata"]["uid"]
        ready(gateway, f"{name}-aaaaa")
        assert (await gateway.ok("GET", f"{APPS}/replicasets/{name}"))["status"]["readyReplicas"] == 1
        assert (await gateway.ok("GET", f"{APPS}/deployments/web"))["metadata"]["annotations"][REVISION] == "1"


async def test_an_older_template_is_kept_and_can_come_back() -> None:
    async with Fixture().running() as gateway:
        await deploy(gateway, 1)
        make(gateway, "web-old-a")
        first = (await sets(gateway))["1"]
        await set_template(gateway, template("app:2"))
        make(gateway, "web-new-a")
        both = await sets(gateway)
        assert list(both) == ["1", "2"]
        assert [both[number]["spec"]["replicas"] for number in both] == [1, 1]
        older = await gateway.ok("GET", f"{PODS}/web-old-a")
        assert older["metadata"]["ownerReferences"][0]["name"] == first["metadata"]["name"]
        assert older["spec"]["containers"][0]["image"] == "app:1", "an older pod has the older template"
        end(gateway, "web-old-a")
        both = await sets(gateway)
        assert (both["1"]["spec"]["replicas"], both["1"]["status"]["replicas"]) == (0, 0)

        # As `kubectl rollout undo` does: the template of the older set without its label, read into types and written.
        wanted = both["1"]["spec"]["template"]
        del wanted["metadata"]["labels"]["pod-template-hash"]
        wanted["metadata"]["creationTimestamp"] = None
        wanted["spec"]["containers"][0]["resources"] = {}
        await set_template(gateway, wanted)
        again = await sets(gateway)
        assert list(again) == ["2", "3"] or sorted(again) == ["2", "3"]
        assert again["3"]["metadata"]["uid"] == first["metadata"]["uid"], "it is the first set again"
        assert (await gateway.ok("GET", f"{APPS}/deployments/web"))["metadata"]["annotations"][REVISION] == "3"


async def test_a_template_with_empty_fields_is_the_same_one() -> None:
    gateway = Fixture()
    await deploy(gateway)
    before = gateway.store.tables.resources["Deployment/default/web"]
    wanted = {**before.object["spec"]["template"]}
    wanted["metadata"] = {**wanted["metadata"], "creationTimestamp": None, "annotations": {}}
    await set_template(gateway, wanted)
    after = gateway.store.tables.resources["Deployment/default/web"]
    assert after.object["spec"] == before.object["spec"]
    assert after.object["metadata"]["generation"] == before.object["metadata"]["generation"]


async def test_templates_without_pods_are_kept_up_to_the_limit() -> None:
    async with Fixture().running() as gateway:
        await deploy(gateway, 1, revisionHistoryLimit=2)
        make(gateway, "web-0")
        await sets(gateway)
        for number in range(1, 5):
            await set_template(gateway, template(f"app:{number + 1}"))
            make(gateway, f"web-{number}")
            await sets(gateway)
            if number > 1:  # the pod of the first template stays
                end(gateway, f"web-{number - 1}")
        assert sorted(await sets(gateway)) == ["1", "3", "4", "5"]


async def test_annotations_of_the_deployment_are_those_of_its_set() -> None:
    async with Fixture().running() as gateway:
        await deploy(gateway, 1)
        make(gateway, "web-0")
        why = {"metadata": {"annotations": {"kubernetes.io/change-cause": "because"}}}
        await gateway.ok("PATCH", f"{APPS}/deployments/web", why)
        found = (await sets(gateway))["1"]["metadata"]["annotations"]
        assert found["kubernetes.io/change-cause"] == "because"
        declared = gateway.store.tables.resources["Deployment/default/web"].object
        assert REVISION not in declared["metadata"]["annotations"], "the number follows from the sets"


async def test_nobody_scales_the_set_of_a_deployment() -> None:
    async with Fixture().running() as gateway:
        await deploy(gateway, 1)
        make(gateway, "web-0")
        name = (await sets(gateway))["1"]["metadata"]["name"]
        await gateway.ok("PATCH", f"{APPS}/replicasets/{name}/scale", {"spec": {"replicas": 7}})
        assert gateway.store.tables.resources[f"ReplicaSet/default/{name}"].object["spec"]["replicas"] == 0
        assert (await gateway.ok("GET", f"{APPS}/replicasets/{name}"))["spec"]["replicas"] == 1


async def test_sets_go_with_their_deployment_and_stay_as_orphans() -> None:
    async with Fixture().running() as gateway:
        await deploy(gateway, 2)
        make(gateway, "web-0")
        name = (await sets(gateway))["1"]["metadata"]["name"]
        await gateway.ok("DELETE", f"{APPS}/deployments/web", {"propagationPolicy": "Orphan"})
        await gateway.settled()
        assert await gateway.status(f"{APPS}/deployments/web") == 404
        left = gateway.store.tables.resources[f"ReplicaSet/default/{name}"].object
        assert (left["spec"]["replicas"], "ownerReferences" in left["metadata"]) == (2, False)
        await gateway.ok("DELETE", f"{APPS}/replicasets/{name}")
        end(gateway, "web-0")
        await deploy(gateway, 2)
        make(gateway, "web-1")
        assert len(await sets(gateway)) == 1
        await gateway.ok("DELETE", f"{APPS}/deployments/web")
        await gateway.settled()
        assert await sets(gateway) == {}


async def test_what_a_policy_places_on_clusters_has_no_set() -> None:
    async with Fixture().running() as gateway:
        made = await deploy(gateway)
        owner = WorkloadRef(kind="Deployment", namespace="default", name="web")
        binding = WorkloadRef(kind="ResourceBinding", namespace="default", name="web-deployment")
        placed = WorkloadPlaced(
            workload=binding,
            uid="u",
            owner=owner,
            owner_uid=made["metadata"]["uid"],
            generation=1,
            state=PlacementState.PLACED,
            decided_time=later(0),
        )
        gateway.log.append(PLACEMENTS, binding.key, owner.key, placed)
        assert await sets(gateway) == {}


async def test_a_gateway_that_starts_keeps_what_nobody_has_kept() -> None:
    before = Fixture()
    await deploy(before, 1)
    after = Fixture(ready=False, namespaces=())
    for write in before.declared:
        after.log.append(write.topic, write.key, write.partition_key, write.event, write.meta)
    make(after, "web-0")
    after.begin()
    async with after.running():
        assert list(await sets(after)) == ["1"]
        shown = await after.ok("GET", f"{PODS}/web-0")
        assert shown["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"


async def test_a_deployment_is_available_when_enough_of_its_pods_are_ready() -> None:
    gateway = Fixture()
    await deploy(gateway, 4)  # a quarter of them may be unavailable
    for number in range(4):
        make(gateway, f"web-{number}", at=10)
    shown = await gateway.ok("GET", f"{APPS}/deployments/web")
    assert conditions(shown) == {
        "Available": ("False", "MinimumReplicasUnavailable", "2026-01-01T12:00:10Z"),
        "Progressing": ("True", "ReplicaSetUpdated", "2026-01-01T12:00:00Z"),
    }
    for number in range(3):
        ready(gateway, f"web-{number}", at=20 + number)
    shown = await gateway.ok("GET", f"{APPS}/deployments/web")
    assert conditions(shown)["Available"] == ("True", "MinimumReplicasAvailable", "2026-01-01T12:00:22Z")
    assert conditions(shown)["Progressing"][1] == "ReplicaSetUpdated"
    ready(gateway, "web-3", at=30)
    shown = await gateway.ok("GET", f"{APPS}/deployments/web")
    assert conditions(shown)["Progressing"][:2] == ("True", "NewReplicaSetAvailable")
    status = shown["status"]
    assert (status["updatedReplicas"], status["availableReplicas"], status.get("unavailableReplicas")) == (4, 4, None)
    ready(gateway, "web-0", ConditionStatus.FALSE, at=40)
    ready(gateway, "web-1", ConditionStatus.FALSE, at=50)
    shown = await gateway.ok("GET", f"{APPS}/deployments/web")
    assert conditions(shown)["Available"][0::2] == ("False", "2026-01-01T12:00:50Z")


async def test_pods_of_an_older_template_are_not_updated() -> None:
    gateway = Fixture()
    await deploy(gateway, 2)
    older = hashed(gateway)
    await set_template(gateway, template("app:2"))
    make(gateway, "web-0", made_from=older)
    make(gateway, "web-1")
    for number in range(2):
        ready(gateway, f"web-{number}")
    shown = await gateway.ok("GET", f"{APPS}/deployments/web")
    assert (shown["status"]["replicas"], shown["status"]["updatedReplicas"]) == (2, 1)
    assert conditions(shown)["Progressing"][1] == "ReplicaSetUpdated"
    await gateway.ok("PATCH", f"{APPS}/deployments/web", {"spec": {"paused": True}})
    shown = await gateway.ok("GET", f"{APPS}/deployments/web")
    assert conditions(shown)["Progressing"][:2] == ("Unknown", "DeploymentPaused")


@pytest.mark.parametrize(("kind", "plural"), [("StatefulSet", "statefulsets"), ("DaemonSet", "daemonsets")])
async def test_other_controllers_have_revisions(kind: str, plural: str) -> None:
    async with Fixture().running() as gateway:
        await gateway.ok("POST", "/api/v1/nodes", node("n1"))
        made = await gateway.ok("POST", f"{APPS}/{plural}", {**deployment(replicas=1), "kind": kind})
        assert made["spec"]["updateStrategy"]["type"] == "RollingUpdate"
        make(gateway, "web-0", kind=kind)
        older = hashed(gateway, kind)
        await gateway.settled()
        await set_template(gateway, template("app:2"), plural)
        shown = (await gateway.ok("GET", f"{APPS}/{plural}/web"))["status"]
        if kind == "StatefulSet":
            assert shown["currentRevision"] == f"web-{older}"
            assert shown["updateRevision"] == f"web-{hashed(gateway, kind)}"
            assert (shown.get("updatedReplicas", 0), shown["currentReplicas"]) == (0, 1)
        else:
            assert shown.get("updatedNumberScheduled", 0) == 0
        make(gateway, "web-0", kind=kind)
        await gateway.settled()
        found = (await gateway.ok("GET", f"{APPS}/controllerrevisions"))["items"]
        numbers = {one["revision"]: one for one in found}
        assert sorted(numbers) == [1, 2]
        kept = numbers[1]["data"]["spec"]["template"]
        assert (kept["$patch"], kept["spec"]["containers"][0]["image"]) == ("replace", "app:1")
        assert numbers[1]["metadata"]["labels"] == {"app": "web"}
        shown = (await gateway.ok("GET", f"{APPS}/{plural}/web"))["status"]
        if kind == "StatefulSet":
            assert shown["currentRevision"] == shown["updateRevision"]
        else:
            assert shown["updatedNumberScheduled"] == 1


async def test_a_deployment_is_told_of_its_first_pods() -> None:
    async with Fixture().running() as gateway:
        await gateway.ok("POST", f"{APPS}/deployments", deployment(replicas=2))
        make(gateway, "web-0")
        await gateway.settled()
        found = await gateway.ok("GET", "/api/v1/namespaces/default/events?fieldSelector=reason=ScalingReplicaSet")
        (told,) = found["items"]
        assert told["message"] == f"Scaled up replica set web-{hashed(gateway)} from 0 to 2"
        assert (told["involvedObject"]["kind"], told["involvedObject"]["name"]) == ("Deployment", "web")


async def test_pods_of_a_controller_say_how_their_names_are_made() -> None:
    gateway = Fixture()
    sets = deployment() | {"kind": "StatefulSet"}
    sets["spec"] = {**sets["spec"], "serviceName": "peers", "template": template(), "replicas": 1}
    await gateway.ok("POST", f"{APPS}/statefulsets", sets)
    make(gateway, "web-0", kind="StatefulSet")
    pod = await gateway.ok("GET", f"{PODS}/web-0")
    assert pod["metadata"]["generateName"] == "web-"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-0", "peers")


async def test_a_job_selects_its_own_pods() -> None:
    gateway = Fixture()
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    job: Json = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "web"},
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "app:1"}]}},
        },
    }
    made = await gateway.ok("POST", jobs, job)
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert made["spec"]["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "web",
        "controller-uid": uid,
        "job-name": "web",
    }
    make(gateway, "web-x", kind="Job")
    listed = await gateway.ok("GET", f"{PODS}?labelSelector=job-name=web")
    assert [one["metadata"]["name"] for one in listed["items"]] == ["web-x"]
    again = await gateway.ok("PATCH", f"{jobs}/web", {"spec": {"suspend": True}})
    assert again["spec"]["selector"] == made["spec"]["selector"]
    by_hand: Json = {**job, "metadata": {"name": "own"}, "spec": {**job["spec"], "manualSelector": True}}
    by_hand["spec"]["selector"] = {"matchLabels": {"a": "b"}}
    by_hand["spec"]["template"] = {**job["spec"]["template"], "metadata": {"labels": {"a": "b"}}}
    own = await gateway.ok("POST", jobs, by_hand)
    assert own["spec"]["selector"] == {"matchLabels": {"a": "b"}}
    assert own["spec"]["template"]["metadata"]["labels"] == {"a": "b"}


async def test_a_daemon_set_counts_its_templates() -> None:
    gateway = Fixture()
    path, note = f"{APPS}/daemonsets", "deprecated.daemonset.template.generation"
    template = {"metadata": {"labels": {"app": "ds"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    body = {"metadata": {"name": "ds"}, "spec": {"selector": {"matchLabels": {"app": "ds"}}, "template": template}}
    made = await gateway.ok("POST", path, body)
    patches: list[Json] = [
        {"metadata": {"labels": {"a": "b"}}},
        {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}}},
        {"metadata": {"annotations": {note: "7"}}},
        {"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}},
        {"metadata": {"annotations": None}},
    ]
    found = [made, *[await gateway.ok("PATCH", f"{path}/ds", patch) for patch in patches]]
    assert [one["metadata"]["annotations"][note] for one in found] == ["1", "1", "2", "2", "3", "3"]
