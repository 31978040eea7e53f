"""ReplicationControllers: replica sets in their older form, whose selector is a map of labels."""

from __future__ import annotations

from tests.component.gateway.double import Fixture, Json

from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import PLACEMENTS

PATH = "/api/v1/namespaces/default/replicationcontrollers"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def controller(gateway: Fixture, **spec: object) -> Json:
    return await gateway.ok("POST", PATH, {"metadata": {"name": "rc"}, "spec": {"template": TEMPLATE, **spec}})


def place(gateway: Fixture, name: str, owner_uid: str) -> None:
    """Write that placement has made a pod of the controller."""
    ref = WorkloadRef(kind="Pod", namespace="default", name=name)
    placed = WorkloadPlaced(
        workload=ref,
        uid=f"uid-of-{name}",
        owner=WorkloadRef(kind="ReplicationController", namespace="default", name="rc"),
        owner_uid=owner_uid,
        generation=1,
        state=PlacementState.PENDING,
        target=None,
        binding_generation=0,
        decided_time=gateway.clock.now(),
    )
    gateway.log.append(PLACEMENTS, ref.key, placed.owner.key, placed)


async def test_it_selects_the_pods_of_its_template_and_has_their_labels() -> None:
    gateway = Fixture()
    made = await controller(gateway)
    assert (made["metadata"]["labels"], made["spec"]["selector"]) == ({"app": "x"}, {"app": "x"})
    assert (made["spec"]["replicas"], made["metadata"]["generation"]) == (1, 1)
    assert [one["metadata"]["name"] for one in (await gateway.ok("GET", f"{PATH}?labelSelector=app=x"))["items"]] == [
        "rc"
    ]
    labels = {"app": "x", "more": "y"}
    await gateway.ok("PATCH", f"{PATH}/rc", {"spec": {"template": {"metadata": {"labels": labels}}}})
    assert (await gateway.ok("GET", f"{PATH}/rc"))["spec"]["selector"] == {"app": "x"}, "as it was when it was made"


async def test_it_is_scaled_and_counts_its_pods() -> None:
    gateway = Fixture()
    made = await controller(gateway, selector={"app": "x"})
    place(gateway, "rc-1", made["metadata"]["uid"])
    scale = await gateway.ok("PATCH", f"{PATH}/rc/scale", {"spec": {"replicas": 3}})
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 1, "selector": "app=x"})
    assert (await gateway.ok("GET", f"{PATH}/rc"))["status"] == {
        "replicas": 1,
        "fullyLabeledReplicas": 1,
        "observedGeneration": 2,
    }
    found = await gateway.ok("GET", f"{PATH}?fieldSelector=status.replicas%3D1", headers={"accept": TABLE})
    (row,) = found["rows"]
    assert [*row["cells"][:4], row["cells"][-1]] == ["rc", 3, 1, 0, "app=x"]


async def test_its_pods_stay_selected() -> None:
    gateway = Fixture()
    place(gateway, "rc-1", (await controller(gateway))["metadata"]["uid"])
    pod = await gateway.ok("PATCH", f"{PODS}/rc-1", {"metadata": {"labels": {"tier": "front"}}})
    assert pod["metadata"]["labels"] == {"app": "x", "tier": "front"}
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"]) == ("v1", "ReplicationController", "rc")
    answer = await gateway.call("PATCH", f"{PODS}/rc-1", {"metadata": {"labels": {"app": "other"}}})
    assert answer.status_code == 422


async def test_its_selector_may_change_and_has_to_select_its_template() -> None:
    gateway = Fixture()
    await controller(gateway)
    wider: Json = {"spec": {"selector": {"app": "y"}, "template": {"metadata": {"labels": {"app": "y"}}}}}
    assert (await gateway.ok("PATCH", f"{PATH}/rc", wider))["spec"]["selector"] == {"app": "y"}
    answer = await gateway.call("PATCH", f"{PATH}/rc", {"spec": {"selector": {"app": "x"}}})
    assert [one["field"] for one in answer.json()["details"]["causes"]] == ["spec.template.metadata.labels"]
