"""What is refused when it is written, and what stays possible with objects that nobody would be allowed to write."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json, deployment, pod
from tests.support.tables import table

from moorage.apiserver.kinds.kind import named
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.topics import RESOURCES

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
FORBIDDEN = "pod updates may not change fields other than"


def causes(answer: Any) -> list[tuple[str, str]]:
    assert answer.status_code == 422, answer.text
    return [(one["field"], one["message"].partition("\n")[0]) for one in answer.json()["details"]["causes"]]


async def made(gateway: Fixture, **spec: Any) -> Json:
    return await gateway.ok("POST", PODS, {**pod(), "spec": {"containers": [{"name": "c", "image": "a:1"}], **spec}})


@pytest.mark.parametrize("dry_run", ["", "?dryRun=All"])
async def test_every_broken_rule_of_a_pod_is_a_cause(dry_run: str) -> None:
    gateway = Fixture()
    body = {**pod(), "spec": {"containers": [{"name": "A", "image": ""}], "restartPolicy": "Sometimes"}}
    fields = [field for field, _ in causes(await gateway.call("POST", f"{PODS}{dry_run}", body))]
    assert fields == ["spec.containers[0].name", "spec.containers[0].image", "spec.restartPolicy"]


@table(
    ("patch", "field"),
    [
        ({"nodeName": "n9"}, "spec"),
        ({"containers": [{"name": "c", "image": "a:1", "command": ["b"]}]}, "spec"),
        ({"containers": [{"name": "c", "image": "a:1"}, {"name": "d", "image": "a:1"}]}, "spec.containers"),
        ({"terminationGracePeriodSeconds": 5}, "spec"),
        ({"activeDeadlineSeconds": 70}, "spec.activeDeadlineSeconds"),
        ({"activeDeadlineSeconds": None}, "spec.activeDeadlineSeconds"),
        ({"tolerations": []}, "spec.tolerations"),
        ({"schedulingGates": [{"name": "a"}]}, "spec.schedulingGates[0].name"),
    ],
)
async def test_most_of_a_pod_is_immutable(patch: Json, field: str) -> None:
    gateway = Fixture()
    await made(gateway, activeDeadlineSeconds=60, tolerations=[{"key": "a", "operator": "Exists"}])
    answer = await gateway.call("PATCH", f"{PODS}/p1", {"spec": patch})
    assert [one for one, _ in causes(answer)] == [field]
    if field == "spec":
        assert FORBIDDEN in answer.json()["message"]
        changed = next(iter(patch)) if "containers" not in patch else "command"
        assert f'"{changed}"' in answer.json()["message"], "the difference is shown"


async def test_an_image_a_deadline_and_more_tolerations_may_change() -> None:
    gateway = Fixture()
    spec = (await made(gateway, activeDeadlineSeconds=60))["spec"]
    more = [*spec["tolerations"], {"key": "a", "operator": "Exists"}]
    image = [{"name": "c", "image": "a:2"}]
    patch = {"spec": {"containers": image, "activeDeadlineSeconds": 30, "tolerations": more}}
    changed = (await gateway.ok("PATCH", f"{PODS}/p1", patch))["spec"]
    assert (changed["containers"][0]["image"], changed["activeDeadlineSeconds"]) == ("a:2", 30)
    assert len(changed["tolerations"]) == len(more)


GATED = {
    "schedulingGates": [{"name": "a"}],
    "nodeSelector": {"a": "b"},
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Exists"}]}]
            }
        }
    },
}


def terms(*keys: str, of: int = 1) -> Json:
    """The change of a pod's required node affinity to terms with these keys."""
    wanted = [{"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}] * of
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}}
    }


async def test_the_nodes_of_a_gated_pod_may_become_fewer() -> None:
    gateway = Fixture()
    await made(gateway, **GATED)
    for patch in ({"nodeSelector": {"c": "d"}}, terms("x", "y")):
        await gateway.ok("PATCH", f"{PODS}/p1", {"spec": patch})
    spec = (await gateway.ok("GET", f"{PODS}/p1"))["spec"]
    assert spec["nodeSelector"] == {"a": "b", "c": "d"}
    assert spec["affinity"] == terms("x", "y")["affinity"]


_TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_Y = '{"MatchExpressions":[{"Key":"y","Operator":"Exists","Values":null}],"MatchFields":null}'


@pytest.mark.parametrize(
    ("patch", "field", "message"),
    [
        ({"nodeSelector": {"a": "c"}}, "spec.nodeSelector", 'Invalid value: {"a":"c"}: only additions'),
        ({"nodeSelector": None}, "spec.nodeSelector", "Invalid value: null: only additions"),
        ({"affinity": None}, _TERMS, "Invalid value: null: no additions/deletions"),
        (terms("y", of=2), _TERMS, f"Invalid value: [{_Y},{_Y}]: no additions/deletions"),
        (terms("y"), f"{_TERMS}[0]", f"Invalid value: {_Y}: only additions are allowed"),
    ],
)
async def test_the_nodes_of_a_gated_pod_may_not_become_others(patch: Json, field: str, message: str) -> None:
    gateway = Fixture()
    await made(gateway, **GATED)
    ((where, said),) = causes(await gateway.call("PATCH", f"{PODS}/p1", {"spec": patch}))
    assert where == field
    assert said.startswith(message)


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        (
            {"metadata": {"ownerReferences": [{"apiVersion": "a/b/c", "kind": "K", "name": "n", "uid": "u"}]}},
            "metadata.ownerReferences[0].apiVersion",
            'Invalid value: "a/b/c": must be <group>/<version> or <version>',
        ),
        ({"spec": {"podCIDR": "x"}}, "spec.podCIDRs[0]", 'Invalid value: "x": must be a valid CIDR value'),
    ],
)
async def test_a_flaw_of_a_node_is_named(body: Json, field: str, message: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})
    ((where, said),) = causes(await gateway.call("PATCH", "/api/v1/nodes/n1", body))
    assert where == field
    assert said.startswith(message)


async def test_a_changed_selector_is_named_beside_the_rules_that_the_change_breaks() -> None:
    gateway = Fixture()
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    patch = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    assert causes(await gateway.call("PATCH", f"{DEPLOYMENTS}/web", patch)) == [
        ("spec.template.metadata.labels", 'Invalid value: {"app":"web"}: `selector` does not match template `labels`'),
        ("spec.selector", 'Invalid value: {"matchLabels":{"app":"other"}}: field is immutable'),
    ]


async def test_a_pod_that_was_written_past_the_gateway_gets_labels_and_goes() -> None:
    gateway = Fixture()
    metadata = {"name": "old", "namespace": "default", "uid": "u1", "generation": 1}
    flawed = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}
    key = resource_key("Pod", "default", "old")
    gateway.log.append(RESOURCES, key, key, ResourceDeclared(object=flawed, version=1))
    assert (await gateway.ok("GET", f"{PODS}/old"))["spec"]["containers"] == []
    labelled = await gateway.ok("PATCH", f"{PODS}/old", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["labels"] == {"a": "b"}
    assert (await gateway.ok("DELETE", f"{PODS}/old"))["kind"] == "Pod"


@pytest.mark.parametrize(
    ("prefix", "kind", "name", "spec"),
    [
        ("/api/v1", "Service", "a.b", {"ports": [{"port": 0}]}),
        ("/apis/networking.k8s.io/v1", "Ingress", "old", {"rules": [{"host": "A"}]}),
        ("/apis/networking.k8s.io/v1", "NetworkPolicy", "old", {"policyTypes": ["Foo"]}),
        ("/apis/autoscaling/v2", "HorizontalPodAutoscaler", "old", {"maxReplicas": -1}),
    ],
)
async def test_what_was_accepted_once_gets_labels_and_loses_its_finalizers(
    prefix: str, kind: str, name: str, spec: Json
) -> None:
    gateway = Fixture()
    definition = named(kind)
    assert definition is not None
    path = f"{prefix}/namespaces/default/{definition.plural}/{name}"
    metadata = {"name": name, "namespace": "default", "uid": "u1", "finalizers": ["a.b/c"]}
    flawed = {"apiVersion": definition.api_versions[0], "kind": kind, "metadata": metadata, "spec": spec}
    key = resource_key(kind, "default", name)
    gateway.log.append(RESOURCES, key, key, ResourceDeclared(object=flawed, version=1))
    await gateway.ok("PATCH", path, {"metadata": {"labels": {"a": "b"}}})
    await gateway.ok("DELETE", path)
    await gateway.ok("PATCH", path, {"metadata": {"finalizers": None}})
    assert await gateway.status(path) == 404


async def test_built_in_namespaces_are_as_old_as_the_fleet() -> None:
    gateway = Fixture()
    path = "/api/v1/namespaces/default"
    assert "creationTimestamp" not in (await gateway.ok("GET", path))["metadata"]
    first = {"metadata": {"name": "cluster"}, "spec": {}}
    begun = await gateway.ok("POST", "/apis/moorage.io/v1alpha1/moorageconfigurations", first)
    shown = await gateway.ok("GET", path)
    assert shown["metadata"]["creationTimestamp"] == begun["metadata"]["creationTimestamp"]


async def test_the_answer_to_a_deletion_is_the_object_where_it_is_in_kubernetes() -> None:
    gateway = Fixture()
    await made(gateway)
    await gateway.ok("POST", DEPLOYMENTS, deployment())
    assert (await gateway.ok("DELETE", f"{PODS}/p1"))["kind"] == "Pod"
    assert (await gateway.ok("DELETE", f"{DEPLOYMENTS}/web"))["kind"] == "Status"


async def test_a_stateful_set_keeps_its_service_its_order_and_its_claims() -> None:
    gateway = Fixture()
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    body = deployment("db")
    await gateway.ok("POST", path, {**body, "kind": "StatefulSet", "spec": {**body["spec"], "serviceName": "a"}})
    claim = {"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    wanted = {"serviceName": "b", "podManagementPolicy": "Parallel", "volumeClaimTemplates": [claim]}
    answer = await gateway.call("PATCH", f"{path}/db", {"spec": wanted})
    assert [field for field, _ in causes(answer)] == [
        "spec.volumeClaimTemplates",
        "spec.serviceName",
        "spec.podManagementPolicy",
    ]
    await gateway.ok("PATCH", f"{path}/db", {"spec": {"minReadySeconds": 4, "ordinals": {"start": 3}}})


async def test_a_template_without_a_spec_lacks_its_containers_alone() -> None:
    body = deployment("web")
    template = {"metadata": body["spec"]["template"]["metadata"]}
    path = "/apis/apps/v1/namespaces/default/deployments"
    answer = await Fixture().call("POST", path, {**body, "spec": {**body["spec"], "template": template}})
    assert [field for field, _ in causes(answer)] == ["spec.template.spec.containers"]
