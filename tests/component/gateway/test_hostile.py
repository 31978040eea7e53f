"""Requests that no honest client sends are refused. None of them is answered with 500, and none costs much."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.component.gateway.double import Fixture, node
from tests.support.tables import table

from moorage.apiserver.http.messages import answers, bodies

NODES = "/api/v1/nodes"
JSON = "application/json"
YAML = "application/yaml"
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)
MERGES = "a0: &a0 {k0: 1, k1: 2}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 8)}]}}\n" for n in range(1, 12)
)
HUGE = b'{"metadata": {"name": "n"}, "spec": {"podCIDR": %s}}'


@table(
    ("content", "media"),
    [
        (b"", JSON),
        (b"\x00", JSON),
        (b"\xff\xfe", JSON),
        (b"null", JSON),
        (b"7", JSON),
        (b'"text"', JSON),
        (b"{" * 5000, JSON),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, JSON),
        (b"[" * 200_000, JSON),
        (b'{"metadata": {"name": "\xed\xa0\x80"}}', JSON),
        (b'{"metadata": {"name": "\\ud800"}}', JSON),
        (b'{"metadata": {"name": NaN}}', JSON),
        (b'{"metadata": {"generation": 1e999}}', JSON),
        (b'{"metadata": {"generation": ' + b"9" * 4000 + b"}}", JSON),
        (b'{"metadata": {"name": "n", "labels": {"\\u0000": "a"}}}', JSON),
        (HUGE % b"1", JSON),
        (LAUGHS.encode(), YAML),
        (MERGES.encode(), YAML),
        (b"metadata: {name: n, annotations: {a: &a [" + b"x," * 400 + b"]}}\nb: [" + b"*a," * 400 + b"]", YAML),
        (b"a: &a {b: *a}", YAML),
        (b"- " * 5000, YAML),
        (b"!!python/object/apply:os.system [ls]", YAML),
        (b"metadata: {name: .inf}", YAML),
        (b"metadata: {name: n, generation: 1" + b"0" * 400 + b"}", YAML),
        (b"%YAML 9.9\n---\n", YAML),
        (b"\x1f\x8b\x08\x00", YAML),
    ],
)
async def test_bodies(content: bytes, media: str) -> None:
    gateway = Fixture()
    for method, path in (("POST", NODES), ("PUT", f"{NODES}/n")):
        answer = await gateway.http.request(method, path, content=content, headers={"content-type": media})
        assert 400 <= answer.status_code < 500, (method, answer.text)
        assert answer.json()["kind"] == "Status"
    assert gateway.log.written == []


@table(
    "path",
    [
        "/api/v1/nodes/..%2f..%2fetc",
        "/api/v1/nodes/%00",
        "/api/v1/nodes/%ff",
        "/api/v1/nodes/" + "a" * 20_000,
        "/api/v1/namespaces/%2e%2e/pods/p",
        "/api/v1/namespaces//pods",
        "/apis//v1/deployments",
        "/apis/apps/v1/" + "a/" * 3000,
        "//api/v1/nodes/x",
        f"{NODES}?labelSelector=" + "a," * 20_000,
        f"{NODES}?labelSelector=" + "(" * 20_000,
        f"{NODES}?fieldSelector=metadata.name=" + "a" * 20_000 + ",x",
        f"{NODES}?continue=" + "A" * 20_000,
        f"{NODES}?limit=" + "9" * 5000,
        f"{NODES}?watch=1&resourceVersion=" + "9" * 5000,
        f"{NODES}?resourceVersion=-1",
        f"{NODES}?timeoutSeconds=1e9&watch=1",
        f"{NODES}?labelSelector=%ff%fe",
    ],
)
async def test_paths_and_queries(path: str) -> None:
    answer = await Fixture().http.get(path)
    assert 400 <= answer.status_code < 500, answer.text
    assert len(answer.content) < 50_000


@pytest.mark.parametrize(
    "headers",
    [
        {"accept": "application/json;" * 3000},
        {"accept": "a" * 30_000},
        {"accept": ",".join(["text/html"] * 3000)},
        {"accept": "application/json;q=NaN"},
        {"accept": "application/json;q=-1"},
        {"accept": "application/json;charset=latin-1"},
        {"content-type": "application/json; charset=" + "x" * 5000},
    ],
)
async def test_headers(headers: dict[str, str]) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    answer = await gateway.http.get(f"{NODES}/n1", headers=headers)
    assert answer.status_code in {200, 406}, answer.text


async def test_a_body_that_does_not_come_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.05)
    waits = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"{"
        await waits.wait()

    answer = await Fixture().http.post(NODES, content=endless(), headers={"content-type": JSON})
    assert (answer.status_code, answer.json()["reason"]) == (504, "Timeout")


async def test_warnings_of_names_that_no_header_can_have() -> None:
    """What is sent as the name of a field comes back in a header. It neither breaks it nor begins another one."""
    gateway = Fixture()
    hostile = "a\r\nset-cookie: b\x00\x0b\u2028é"
    answer = await gateway.call("POST", NODES, {**node(), hostile: 1, "metadata": {"name": "n1", hostile: 1}})
    assert answer.status_code == 201
    assert "set-cookie" not in answer.headers
    for value in answer.headers.get_list("warning"):
        assert value.isascii()
        assert value.isprintable(), value
    assert len(answer.headers.get_list("warning")) == 2


async def test_warnings_are_no_more_than_clients_take() -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", NODES, {**node(), **{f"unknown-{n}": 1 for n in range(90)}})
    assert len(answer.headers.get_list("warning")) == answers.MOST_WARNINGS
    answer = await gateway.call("POST", NODES, {**node("n2"), **{f"{n}" * 3000: 1 for n in range(10, 90)}})
    told = answer.headers.get_list("warning")
    assert answer.status_code == 201
    assert len(told) > 2
    assert sum(map(len, told)) <= answers.MOST_WARNED


@pytest.mark.parametrize(
    "body", [{"spec": []}, {"metadata": []}, {"metadata": {"labels": [1]}}, {"spec": {"taints": {}}}]
)
async def test_parts_of_the_wrong_type(body: Any) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    for media in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
        answer = await gateway.call("PATCH", f"{NODES}/n1", body, headers={"content-type": media})
        assert 400 <= answer.status_code < 500, answer.text
    named = {"metadata": {"name": "n2"}, **body}
    assert 400 <= (await gateway.call("POST", NODES, named)).status_code < 500


async def test_many_owners_that_want_to_be_the_controller_get_no_long_answer() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": f"p{n}", "uid": f"u{n}", "controller": True} for n in range(2000)
    ]
    body = {"metadata": {"name": "a", "ownerReferences": owners}}
    answer = await Fixture().call("POST", "/api/v1/namespaces/default/configmaps", body)
    assert answer.status_code == 422
    assert "Only one reference can have Controller set to true" in answer.json()["message"]
    # The message and the causes show the owners once each, and their quotes are escaped in one of them.
    assert len(answer.content) < 5 * len(json.dumps(owners))


@pytest.mark.parametrize("text", [LAUGHS, MERGES], ids=["aliases", "merge keys"])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_aliases_that_stand_for_too_much_are_refused_at_once(text: str, method: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", node())
    media = "application/yaml" if method == "POST" else "application/apply-patch+yaml"
    path = "/api/v1/nodes" if method == "POST" else "/api/v1/nodes/n1?fieldManager=m"
    before = time.process_time()
    answer = await gateway.http.request(method, path, content=text, headers={"content-type": media})
    assert time.process_time() - before < 1
    assert answer.status_code == 400
    assert "document contains excessive aliasing" in answer.text


async def test_a_json_patch_has_at_most_so_many_operations_and_copies() -> None:
    gateway = Fixture()
    await gateway.ok("POST", "/api/v1/nodes", node())
    headers = {"content-type": "application/json-patch+json"}
    many = [{"op": "test", "path": "/kind", "value": "Node"}] * 10_001
    answer = await gateway.http.patch("/api/v1/nodes/n1", json=many, headers=headers)
    assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
    doubling = [
        {"op": "add", "path": "/metadata/annotations", "value": {"a0": "x" * 1000}},
        *({"op": "copy", "from": "/metadata", "path": f"/metadata/a{n}"} for n in range(40)),
    ]
    answer = await gateway.http.patch("/api/v1/nodes/n1", json=doubling, headers=headers)
    assert answer.status_code == 422


@pytest.mark.parametrize("query", ["labelSelector", "fieldSelector"])
async def test_selectors_have_at_most_so_many_requirements(query: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    word = "a!=b" if query == "labelSelector" else "metadata.name!=b"
    assert len((await gateway.ok("GET", NODES, params={query: ",".join([word] * 1000)}))["items"]) == 1
    answer = await gateway.http.get(NODES, params={query: ",".join([word] * 1001)})
    assert answer.status_code == 400
    assert "the selectors have 1001 requirements: they may have at most 1000" in answer.json()["message"]
