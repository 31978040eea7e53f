"""The audit in the API: who may read it, what an event shows of a record, and which events selectors choose."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.component.gateway.double import NOW, Fixture, Json, node
from tests.component.gateway.memory_records import START
from tests.component.gateway.test_access import allow, call, gateway_of
from tests.support.tables import table
from tests.support.waiting import until

from moorage_schemas.dead_letter import Audited
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.audit import AuditEvent
from moorage_schemas.topics import RESOURCES

EVENTS = "/apis/moorage.io/v1alpha1/auditevents"


def audited(resource: str = "Node//n1", verb: str = "patch", *, seconds: float = 0, **fields: Any) -> Audited:
    """A record about a write of ann."""
    known = {"actor": "kubectl", "user": "ann", "groups": ["builders"], "outcome": "committed", **fields}
    return Audited(verb=verb, resource=resource, time=NOW + timedelta(seconds=seconds), **known)


def refused(resource: str, **fields: Any) -> Audited:
    return audited(resource, "list", **{"outcome": "forbidden", "address": "10.0.0.7", "reason": "no", **fields})


async def shown(event: Audited) -> Json:
    """Return a record as the API shows it."""
    gateway = Fixture()
    gateway.log.audit.add(1, event)
    async with gateway.running():
        (found,) = (await gateway.ok("GET", EVENTS))["items"]
    AuditEvent.model_validate(found)
    return dict(found)


async def names(gateway: Fixture, query: str = "", path: str = EVENTS) -> list[str]:
    return [one["metadata"]["name"] for one in (await gateway.ok("GET", f"{path}?{query}"))["items"]]


async def test_a_write_is_shown_with_its_user_its_verb_and_its_object() -> None:
    gateway = Fixture()
    async with gateway.running():
        await gateway.ok("POST", "/api/v1/nodes?fieldManager=tool", {"metadata": {"name": "n1"}})
        found = next(one for one in (await gateway.ok("GET", EVENTS))["items"] if one["userAgent"] == "tool")
        name = found["metadata"]["name"]
        assert await gateway.ok("GET", f"{EVENTS}/{name}") == found
        for missing in ("9-0", "x", f"{name}-0", "0-999"):
            assert await gateway.status(f"{EVENTS}/{missing}") == 404, missing
    uid = found["objectRef"].pop("uid")
    assert uid
    assert found == {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "AuditEvent",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T12:00:00Z"},
        "level": "Metadata",
        "stage": "ResponseComplete",
        "verb": "create",
        "user": {"username": "moorage:admin", "groups": ["system:masters", "system:authenticated"]},
        "userAgent": "tool",
        "objectRef": {"resource": "nodes", "kind": "Node", "apiVersion": "v1", "name": "n1"},
        "responseStatus": {"status": "Success"},
        "requestReceivedTimestamp": "2026-01-01T12:00:00Z",
        "count": 1,
    }


@table(
    ("record", "reference"),
    [
        ("Pod/shop/web", "pods Pod  v1 shop web  "),
        ("Deployment/shop/web", "deployments Deployment apps v1 shop web  "),
        ("east:Node//n1", "nodes Node  v1  n1  east"),
        ("Gone/a/b", "gone Gone   a b  "),
        ("gateway", "gateway gateway      "),
    ],
)
async def test_the_object_of_a_write(record: str, reference: str) -> None:
    ref = (await shown(audited(record)))["objectRef"]
    fields = ("resource", "kind", "apiGroup", "apiVersion", "namespace", "name", "subresource", "cluster")
    assert [ref.get(field, "") for field in fields] == reference.split(" ")


@table(
    ("text", "reference"),
    [
        ("pods/eviction shop/web", "pods Pod  shop web eviction"),
        ("pods shop", "pods Pod  shop  "),
        ("nodes n1", "nodes Node   n1 "),
        ("nodes", "nodes Node    "),
        ("deployments.apps/scale shop/web", "deployments Deployment apps shop web scale"),
        ("things.example.com x", "things  example.com  x "),
        ("pods.example.com shop", "pods  example.com  shop "),
    ],
)
async def test_the_object_of_a_refused_request(text: str, reference: str) -> None:
    found = await shown(refused(text, count=7))
    ref = found["objectRef"]
    fields = ("resource", "kind", "apiGroup", "namespace", "name", "subresource")
    assert [ref.get(field, "") for field in fields] == reference.split(" ")
    assert found["responseStatus"] == {"status": "Failure", "code": 403, "reason": "Forbidden", "message": "no"}
    assert (found["sourceIPs"], found["count"]) == (["10.0.0.7"], 7)
    assert "userAgent" not in found, "a refused request has none in its record"


async def test_a_path_without_objects_and_a_request_without_credentials() -> None:
    found = await shown(refused("/metrics", outcome="unauthenticated", user="", groups=[]))
    assert (found["requestURI"], found["user"]) == ("/metrics", {"username": ""})
    assert (found["responseStatus"]["code"], found["responseStatus"]["reason"]) == (401, "Unauthorized")
    assert "objectRef" not in found


async def test_the_sender_is_the_user_and_the_other_is_impersonated() -> None:
    found = await shown(audited(user="bob", groups=["team"], sender="ann", verb="create/token"))
    assert found["user"] == {"username": "ann"}
    assert found["impersonatedUser"] == {"username": "bob", "groups": ["team"]}
    assert (found["verb"], found["objectRef"]["subresource"]) == ("create", "token")


async def test_nothing_of_secrets_is_shown() -> None:
    gateway = Fixture()
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
    async with gateway.running():
        await gateway.ok("POST", "/api/v1/namespaces/shop/secrets?fieldManager=password%3Dhunter2", secret)
        gateway.log.audit.add(0, refused("/x?token=hunter2", reason="token=hunter2 is wrong"))
        answer = await gateway.ok("GET", EVENTS)
    assert "hunter2" not in json.dumps(answer)
    assert any(at.get("objectRef", {}).get("resource") == "secrets" for at in answer["items"])


async def test_selectors_choose_by_user_verb_object_and_time() -> None:
    gateway = Fixture()
    audit = gateway.log.audit
    a = audit.add(0, audited("Pod/shop/web", "delete"), START)
    b = audit.add(1, audited("Node//n1", user="bob"), START + 1_000)
    c = audit.add(2, refused("pods shop", user="bob"), START + 2_000)
    d = audit.add(0, audited("east:Node//n1", "create"), START + 3_000)
    async with gateway.running():
        audit.begins[:] = [0, 0, 0]
        assert (await names(gateway))[-4:] == [d, c, b, a]
        for selector, expected in (
            ("user=bob", [c, b]),
            ("user.username=bob,verb=patch", [b]),
            ("verb=delete", [a]),
            ("kind=Node,name=n1", [d, b]),
            ("resource=pods,namespace=shop", [c, a]),
            ("objectRef.name=n1,cluster=", [b]),
            ("cluster=east", [d]),
            ("responseStatus.reason=Forbidden", [c]),
        ):
            assert await names(gateway, f"fieldSelector={selector}&limit=50") == expected, selector
        between = "sinceTime=2026-01-01T12:00:01Z&untilTime=2026-01-01T12:00:03Z"
        assert await names(gateway, between) == [c, b]
        for query, why in (
            ("fieldSelector=user.groups=x", "field label not supported: user.groups"),
            ("untilTime=tomorrow", "untilTime: invalid value 'tomorrow'"),
            ("continue=x", "it is none of a list of auditevents"),
        ):
            answer = await gateway.call("GET", f"{EVENTS}?{query}")
            assert answer.status_code == 400
            assert why in answer.text


async def test_pages_within_a_time_end_where_it_begins() -> None:
    gateway = Fixture()
    added = [gateway.log.audit.add(number % 3, audited(), START + number * 1_000) for number in range(12)]
    async with gateway.running():
        query, found, token = "sinceTime=2026-01-01T12:00:02Z&untilTime=2026-01-01T12:00:09Z&limit=3", [], ""
        while True:
            part = await gateway.ok("GET", f"{EVENTS}?{query}&continue={token}")
            found += [one["metadata"]["name"] for one in part["items"]]
            if not (token := part["metadata"].get("continue", "")):
                break
    assert found == added[2:9][::-1]


async def test_a_table_has_the_columns_of_the_kind() -> None:
    gateway = Fixture()
    gateway.log.audit.add(1, audited("Pod/shop/web", "create/eviction", user="bob", sender="ann"))
    gateway.log.audit.add(1, refused("/metrics"), START + 1)
    async with gateway.running():
        accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        found = await gateway.ok("GET", f"{EVENTS}?fieldSelector=verb!=start", headers=accept)
    titles = [one["name"] for one in found["columnDefinitions"]]
    assert titles == ["Name", "User", "Verb", "Object", "Outcome", "Age", "Agent", "Count", "Message"]
    assert [row["cells"][1:5] for row in found["rows"]] == [
        ["ann", "list", "/metrics", "Forbidden"],
        ["ann as bob", "create", "pods/eviction shop/web", "Success"],
    ]


async def test_auditors_may_read_it_and_viewers_and_operators_may_not(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    await gateway.app.state.first_content.run()
    for role, code in (("moorage:viewer", 403), ("moorage:operator", 403), ("admin", 403), ("moorage:auditor", 200)):
        binding = {
            "metadata": {"name": role.replace(":", "-")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": "bob"}],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        assert (await call(gateway, "root", "POST", path, binding)).status_code == 201
        async with gateway.running():
            await gateway.settled()
            assert (await call(gateway, "b", "GET", EVENTS)).status_code == code, role


async def test_it_is_read_and_not_written(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    everything = {"verbs": ["*"], "apiGroups": ["moorage.io"], "resources": ["*"]}
    await allow(gateway, "all", [{"kind": "User", "name": "bob"}], everything)
    for method, path in (
        ("GET", f"{EVENTS}?watch=true"),
        ("GET", "/apis/moorage.io/v1alpha1/watch/auditevents"),
        ("POST", EVENTS),
        ("DELETE", EVENTS),
        ("DELETE", f"{EVENTS}/0-0"),
        ("PATCH", f"{EVENTS}/0-0"),
    ):
        assert (await call(gateway, "b", method, path)).status_code == 405, (method, path)


async def test_a_refusal_is_there_to_be_read(tmp_path: Path) -> None:
    gateway = await gateway_of(tmp_path)
    async with gateway.running():
        await call(gateway, "b", "GET", EVENTS)
        await until(lambda: bool(gateway.log.reported))
        found = (await call(gateway, "root", "GET", f"{EVENTS}?fieldSelector=user=bob")).json()["items"]
    (event,) = found
    assert (event["objectRef"]["resource"], event["responseStatus"]["code"]) == ("auditevents", 403)


async def test_at_the_address_of_a_cluster_are_its_own() -> None:
    gateway = Fixture()
    event = ResourceDeclared(object=node("n1"), version=1, cluster="east")
    gateway.log.append(RESOURCES, "east:Node//n1", "east:Node/n1", event)
    own = gateway.log.audit.add(0, audited("east:Node//n1"))
    other = gateway.log.audit.add(1, audited("Node//n1"))
    async with gateway.running():
        path = f"/clusters/east{EVENTS}"
        assert await names(gateway, path=path) == [own]
        assert await gateway.status(f"{path}/{other}") == 404
        assert await gateway.status(f"/clusters/west{EVENTS}") == 404


async def test_a_gateway_that_cannot_read_it_answers_503(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Fixture()
    monkeypatch.setattr(gateway.log.audit, "fails", True)
    async with gateway.running():
        answer = await gateway.call("GET", EVENTS)
    assert answer.status_code == 503
    assert "audit cannot be read: no broker" in answer.text
