"""Kinds that are stored and shown alone, so that a whole directory of manifests applies."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json
from tests.support.tables import table

from moorage.apiserver.kinds.kind import discovered
from moorage.apiserver.kinds.stored import SECRET, StoredKind
from moorage.apiserver.machinery.openapi.registry import Origin, origin_of

SECRETS = "/api/v1/namespaces/default/secrets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
JOB = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}

SERVICE: Json = {
    "spec": {
        "type": "LoadBalancer",
        "clusterIP": "10.0.0.1",
        "clusterIPs": ["10.0.0.1"],
        "externalIPs": ["10.1.0.1"],
        "selector": {"app": "web"},
        "ports": [{"name": "a", "port": 80, "targetPort": "web", "nodePort": 30080}],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}},
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
    }
}

OBJECTS: dict[str, tuple[str, Json]] = {
    "CronJob": ("/apis/batch/v1/namespaces/default/cronjobs", {"spec": {"schedule": "@daily", "jobTemplate": JOB}}),
    "Endpoints": (
        "/api/v1/namespaces/default/endpoints",
        {
            "subsets": [
                {"addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}], "ports": [{"name": n, "port": 80} for n in "ab"]}
            ]
        },
    ),
    "EndpointSlice": (
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]},
    ),
    "HorizontalPodAutoscaler": (
        "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
        {
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                    }
                ],
            }
        },
    ),
    "Ingress": (
        "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
        {"spec": {"ingressClassName": "nginx", "rules": [{"host": f"{n}.example"} for n in "abcd"]}},
    ),
    "LimitRange": ("/api/v1/namespaces/default/limitranges", {"spec": {"limits": [{"type": "Pod"}]}}),
    "NetworkPolicy": (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        {"spec": {"podSelector": {"matchLabels": {"app": "web"}}, "egress": [{}]}},
    ),
    "PersistentVolume": (
        "/api/v1/persistentvolumes",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadOnlyMany", "ReadWriteOnce"],
                "hostPath": {"path": "/a"},
                "claimRef": {"namespace": "default", "name": "c"},
            }
        },
    ),
    "PersistentVolumeClaim": (
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1/priorityclasses", {"value": 7}),
    "ResourceQuota": ("/api/v1/namespaces/default/resourcequotas", {"spec": {"hard": {"pods": "3"}}}),
    "Secret": (SECRETS, {"stringData": {"a": "b"}}),
    "StorageClass": ("/apis/storage.k8s.io/v1/storageclasses", {"provisioner": "example.com/disks"}),
}
CELLS: dict[str, list[str | int]] = {
    "CronJob": ["o", "@daily", "<none>", "False", 0, "<none>"],
    "Endpoints": ["o", "10.0.0.1:80,[fd00::1]:80,10.0.0.1:80 + 1 more..."],
    "EndpointSlice": ["o", "IPv4", "80", "10.0.0.1"],
    "HorizontalPodAutoscaler": ["o", "Deployment/web", "cpu: <unknown>/50%", "1", "3", "0"],
    "Ingress": ["o", "nginx", "a.example,b.example,c.example + 1 more...", "", "80"],
    "LimitRange": ["o"],
    "NetworkPolicy": ["o", "app=web"],
    "PersistentVolume": ["o", "1Gi", "RWO,ROX", "Retain", "Pending", "default/c", "", "<unset>", ""],
    "PersistentVolumeClaim": ["o", "Pending", "", "", "", "", "<unset>"],
    "PriorityClass": ["o", 7, False],
    "ResourceQuota": ["o", "", ""],
    "Secret": ["o", "Opaque", 1],
    "StorageClass": ["o", "example.com/disks", "Delete", "Immediate", False],
}


def test_every_stored_kind_is_tried_here_and_has_the_structure_of_upstreams() -> None:
    stored = [one for one in discovered() if isinstance(one, StoredKind)]
    assert {one.kind for one in stored} == set(OBJECTS)
    assert {origin_of(one.group, one.kind) for one in stored} == {Origin.BUILT_IN}


@table("kind", sorted(OBJECTS))
async def test_it_is_stored_and_shown(kind: str) -> None:
    path, body = OBJECTS[kind]
    gateway = Fixture()
    made = await gateway.call("POST", path, {"metadata": {"name": "o"}, **body})
    assert made.status_code == 201, made.text
    warnings = made.headers.get_list("warning")
    table = await gateway.ok("GET", path, headers={"accept": TABLE})
    assert table["rows"][0]["cells"][: len(CELLS[kind])] == CELLS[kind]
    (definition,) = [one for one in discovered() if one.kind == kind]
    assert isinstance(definition, StoredKind)
    assert len(warnings) == bool(definition.without) + bool(definition.deprecation)
    again = await gateway.ok("PUT", f"{path}/o", made.json())
    assert again == made.json(), "what was shown may be sent back, and changes nothing"
    await gateway.ok("DELETE", f"{path}/o")
    assert await gateway.status(f"{path}/o") == 404


async def test_unknown_fields_of_it_are_found() -> None:
    path, body = OBJECTS["Ingress"]
    wrong = {"metadata": {"name": "o"}, "spec": {**body["spec"], "ingresClass": "x"}}
    answer = await Fixture().call("POST", f"{path}?fieldValidation=Strict", wrong)
    assert answer.status_code == 400
    assert 'unknown field "spec.ingresClass"' in answer.json()["message"]


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("CronJob", {"spec": {"concurrencyPolicy": "Maybe"}}, "spec.concurrencyPolicy"),
        ("EndpointSlice", {"addressType": None}, "addressType"),
        ("HorizontalPodAutoscaler", {"spec": {"scaleTargetRef": None}}, "spec.scaleTargetRef.kind"),
        (
            "Ingress",
            {"spec": {"rules": [{"http": {"paths": [{"path": "/"}]}}]}},
            "spec.rules[0].http.paths[0].pathType",
        ),
        ("PersistentVolumeClaim", {"spec": {"accessModes": ["Never"]}}, "spec.accessModes[0]"),
        ("StorageClass", {"provisioner": None}, "provisioner"),
    ],
)
async def test_texts_that_its_structure_does_not_allow_are_refused(kind: str, change: Json, field: str) -> None:
    path, body = OBJECTS[kind]
    gateway = Fixture()
    await gateway.ok("POST", path, {"metadata": {"name": "o"}, **body})
    refused = await gateway.call("PATCH", f"{path}/o", change)
    assert refused.status_code == 422
    assert field in [one["field"] for one in refused.json()["details"]["causes"]]


ODD: tuple[Any, ...] = (
    {},
    [],
    [{}],
    [None],
    "",
    "x",
    "-1",
    -1,
    0,
    {"a b": "-1"},
    {"cpu": ""},
    [{"matchExpressions": [{}]}],
)
"""Values that a field may get although nothing can be made of them."""


def oddities(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values in a document."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in parts:
        yield (*path, name)
        yield from oddities(one, *path, name)


IGNORED: Json = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "ports": [{"name": "a", "containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "envFrom": [{"prefix": "A", "secretRef": {"name": "s"}}],
            "volumeMounts": [{"name": "v", "mountPath": "/a"}],
            "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
            "livenessProbe": {"httpGet": {"port": "a", "httpHeaders": [{"name": "a", "value": "b"}]}},
            "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
            "securityContext": {"runAsUser": 1, "capabilities": {"add": ["A"]}},
        }
    ],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "emptyDir": {}}],
    "securityContext": {"fsGroup": 1, "sysctls": [{"name": "a", "value": "b"}]},
    "dnsConfig": {"nameservers": ["10.0.0.1"], "options": [{"name": "a"}]},
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
    "readinessGates": [{"conditionType": "a"}],
    "resourceClaims": [{"name": "r", "resourceClaimName": "s"}],
    "hostname": "h",
    "subdomain": "s",
    "runtimeClassName": "r",
}
TEMPLATE: Json = {"metadata": {"labels": {"a": "b"}}, "spec": IGNORED}
MORE: dict[str, tuple[str, Json]] = {
    "Service": ("/api/v1/namespaces/default/services", SERVICE),
    "Pod": ("/api/v1/namespaces/default/pods", {"spec": IGNORED}),
    "Deployment": (
        "/apis/apps/v1/namespaces/default/deployments",
        {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}},
    ),
}
"""Objects with fields that have no rules beside their structure."""


@pytest.mark.parametrize("kind", sorted({*OBJECTS, *MORE}))
async def test_whatever_is_in_it_is_no_error_of_the_server(kind: str) -> None:
    path, body = (OBJECTS | MORE)[kind]
    gateway, number = Fixture(), 0
    for where in oddities(body):
        for odd in ODD:
            number += 1
            sent = copy.deepcopy({"metadata": {"name": f"o{number}"}, **body})
            holder: Any = sent
            for step in where[:-1]:
                holder = holder[step]
            holder[where[-1]] = odd
            made = await gateway.call("POST", path, sent)
            assert made.status_code in {201, 400, 422}, (where, odd, made.text)
            if made.status_code == 201:
                again = await gateway.call("PUT", f"{path}/o{number}", made.json())
                assert again.status_code == 200, (where, odd, again.text)
    for media in ("application/json", TABLE):
        assert (await gateway.call("GET", path, headers={"accept": media})).status_code == 200


async def test_defaults_of_it_are_shown() -> None:
    gateway = Fixture()
    path, body = OBJECTS["CronJob"]
    made = await gateway.ok("POST", path, {"metadata": {"name": "o"}, **body})
    assert made["spec"]["concurrencyPolicy"] == "Allow"
    assert made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    path, body = OBJECTS["NetworkPolicy"]
    made = await gateway.ok("POST", path, {"metadata": {"name": "o"}, **body})
    assert made["spec"]["policyTypes"] == ["Ingress", "Egress"]


async def test_text_of_a_secret_is_data() -> None:
    gateway = Fixture()
    data = {"kept": base64.b64encode(b"1").decode(), "other": base64.b64encode(b"2").decode()}
    made = await gateway.ok(
        "POST", SECRETS, {"metadata": {"name": "s"}, "data": data, "stringData": {"other": "3", "more": "é"}}
    )
    assert "stringData" not in made
    assert {name: base64.b64decode(value).decode() for name, value in made["data"].items()} == {
        "kept": "1",
        "other": "3",
        "more": "é",
    }
    patched = await gateway.ok("PATCH", f"{SECRETS}/s", {"stringData": {"kept": "4"}})
    assert base64.b64decode(patched["data"]["kept"]) == b"4"
    chosen = await gateway.ok("GET", f"{SECRETS}?fieldSelector=type%3DOpaque")
    assert [one["metadata"]["name"] for one in chosen["items"]] == ["s"]


@pytest.mark.parametrize(
    ("change", "field"),
    [({"type": "example.com/other"}, "type"), ({"data": {"a": "Yg=="}}, "data"), ({"immutable": False}, "immutable")],
)
async def test_what_of_a_secret_may_not_change(change: Json, field: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", SECRETS, {"metadata": {"name": "s"}, "immutable": True, "data": {"a": "YQ=="}})
    answer = await gateway.call("PATCH", f"{SECRETS}/s", change)
    assert answer.status_code == 422
    assert answer.json()["details"]["causes"][0]["field"] == field


async def test_a_description_has_the_sizes_of_secrets_and_not_their_content() -> None:
    found = {"metadata": {"name": "s"}, "data": {"a": base64.b64encode(b"hidden").decode(), "broken": "?"}}

    class Nothing:
        def list(self, *_: object) -> list[Json]:
            return []

        def get(self, *_: object) -> None:
            return None

    told = str(list(SECRET.describe(found, Nothing(), datetime.now(UTC))))
    assert "6 bytes" in told
    assert "hidden" not in told
    assert found["data"]["a"] not in told


async def test_the_priority_classes_of_every_kubernetes_api_are_there() -> None:
    gateway = Fixture()
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    found = (await gateway.ok("GET", path))["items"]
    assert {one["metadata"]["name"]: one["value"] for one in found} == {
        "system-cluster-critical": 2_000_000_000,
        "system-node-critical": 2_000_001_000,
    }
    refused = await gateway.call("DELETE", f"{path}/system-node-critical")
    assert (refused.status_code, refused.json()["reason"]) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("path", "body", "patch", "field"),
    [
        (
            "/api/v1/namespaces/default/configmaps",
            {"data": {"a": "b"}, "immutable": True},
            {"data": {"a": "c"}},
            "data",
        ),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", {"value": 5}, {"value": 6}, "value"),
    ],
)
async def test_what_was_decided_at_its_creation_stays(path: str, body: Json, patch: Json, field: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", path, {"metadata": {"name": "x"}, **body})
    refused = await gateway.call("PATCH", f"{path}/x", patch)
    assert (refused.status_code, [one["field"] for one in refused.json()["details"]["causes"]]) == (422, [field])
    await gateway.ok("PATCH", f"{path}/x", {"metadata": {"labels": {"a": "b"}}})


async def test_what_it_contains_is_looked_at_when_it_changes() -> None:
    gateway = Fixture()
    path = "/api/v1/namespaces/default/configmaps"
    await gateway.ok("POST", path, {"metadata": {"name": "x"}, "data": {"a": "b"}})
    refused = await gateway.call("PATCH", f"{path}/x", {"data": {"a b": "c"}})
    assert (refused.status_code, refused.json()["details"]["causes"][0]["field"]) == (422, "data[a b]")


async def test_whoever_touches_endpoints_is_told_that_slices_take_their_place() -> None:
    gateway = Fixture()
    path, body = OBJECTS["Endpoints"]
    told = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
    for verb, place, sent in (("GET", path, None), ("GET", f"{path}/o", None), ("POST", path, {"metadata": {}})):
        answer = await gateway.call(verb, place, sent)
        assert answer.headers.get_list("warning") == [told], (verb, place, answer.status_code)
    made = await gateway.call("POST", path, {"metadata": {"name": "o"}, **body})
    assert made.headers.get_list("warning") == [told]
    assert [port["protocol"] for port in made.json()["subsets"][0]["ports"]] == ["TCP", "TCP"]
    other, slices = OBJECTS["EndpointSlice"]
    assert not (await gateway.call("POST", other, {"metadata": {"name": "o"}, **slices})).headers.get_list("warning")


async def test_what_an_older_form_of_a_slice_said_of_zones_is_dropped() -> None:
    path, body = OBJECTS["EndpointSlice"]
    old = {"endpoints": [{"addresses": ["10.0.0.1"], "deprecatedTopology": {"zone": "a"}}]}
    made = await Fixture().ok("POST", path, {"metadata": {"name": "o"}, **body, **old})
    assert made["endpoints"] == [{"addresses": ["10.0.0.1"]}]
    assert made["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]


async def test_a_volume_is_pending_from_its_creation() -> None:
    gateway = Fixture()
    path, body = OBJECTS["PersistentVolume"]
    made = await gateway.ok("POST", path, {"metadata": {"name": "o"}, **body})
    assert made["status"] == {"phase": "Pending", "lastPhaseTransitionTime": made["metadata"]["creationTimestamp"]}
    assert (made["spec"]["volumeMode"], made["spec"]["hostPath"]["type"]) == ("Filesystem", "")


async def test_a_claim_is_pending_and_an_autoscaler_counts_the_changes_of_its_spec() -> None:
    gateway = Fixture()
    path, body = OBJECTS["PersistentVolumeClaim"]
    made = await gateway.ok("POST", path, {"metadata": {"name": "o"}, **body, "status": {"phase": "Bound"}})
    assert made["status"] == {"phase": "Pending"}, "nobody binds it"
    path, body = OBJECTS["HorizontalPodAutoscaler"]
    made = await gateway.ok("POST", path, {"metadata": {"name": "o"}, **body})
    changed = await gateway.ok("PATCH", f"{path}/o", {"spec": {"maxReplicas": 9}})
    assert (made["metadata"]["generation"], changed["metadata"]["generation"]) == (1, 2)
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert "generation" not in (await gateway.ok("POST", accounts, {"metadata": {"name": "o"}}))["metadata"]


async def test_a_job_without_labels_has_those_of_its_pods() -> None:
    gateway = Fixture()
    template = {**JOB["spec"]["template"], "metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}}}
    path = "/apis/batch/v1/namespaces/default/jobs"
    made = await gateway.ok("POST", path, {"metadata": {"name": "o"}, "spec": {"template": template}})
    labels, own = made["metadata"]["labels"], made["spec"]["template"]["metadata"]["labels"]
    assert labels == own
    assert (labels["app"], labels["job-name"], "annotations" in made["metadata"]) == ("x", "o", False)
    bare = await gateway.ok("PATCH", f"{path}/o", {"metadata": {"labels": dict.fromkeys(labels)}})
    assert bare["metadata"]["labels"] == own
    other = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"template": template}}
    assert (await gateway.ok("POST", path, other))["metadata"]["labels"] == {"a": "b"}
    manual = {"manualSelector": True, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    found = await gateway.ok("POST", path, {"metadata": {"name": "q"}, "spec": manual})
    assert found["metadata"]["labels"] == {"app": "x"}
