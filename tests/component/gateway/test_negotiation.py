"""The forms of answers and bodies: JSON, YAML, tables and metadata alone, indented or compressed."""

from __future__ import annotations

import gzip
import json
from typing import Any

import orjson
import pytest
import yaml
from tests.component.gateway.double import Fixture, node, pod
from tests.support.tables import table

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PART = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTS = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
YAML = "application/yaml"


async def get(gateway: Fixture, path: str, accept: str, **headers: str) -> Any:
    answer = await gateway.http.get(path, headers={"accept": accept, **headers})
    assert answer.status_code == 200, answer.text
    return yaml.safe_load(answer.text) if answer.headers["content-type"].startswith(YAML) else answer.json()


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/html, */*;q=0.1", "application/json"),
        ("application/yaml;q=0.5, application/json;q=0.1", YAML),
        ("application/json;q=0.5, application/yaml", YAML),
        ("application/json;as=Table;v=v9;g=meta.k8s.io, application/yaml;q=0.2", YAML),
        ("application/json;q=0, application/yaml", YAML),
    ],
)
async def test_the_preferred_form_that_is_known_is_sent(accept: str, content_type: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    for path in (f"{NODES}/n1", NODES):
        answer = await gateway.http.get(path, headers={"accept": accept})
        assert (answer.status_code, answer.headers["content-type"].split(";")[0]) == (200, content_type)


@pytest.mark.parametrize(
    ("path", "accept", "message"),
    [
        (f"{NODES}/n1", "text/html", "406: Not Acceptable"),
        (f"{NODES}/n1", "application/*", "406: Not Acceptable"),
        (NODES, "application/json;as=Table;v=v9;g=meta.k8s.io", "only the following media types are accepted"),
        (NODES, "application/json;as=Chart;v=v1;g=meta.k8s.io", "only the following media types are accepted"),
        (NODES, PART, "the requested object is a list"),
        (f"{NODES}/n1", PARTS, "the requested object is not a list"),
        ("/apis", "text/html", "406: Not Acceptable"),
    ],
)
async def test_forms_that_cannot_be_sent_are_not_acceptable(path: str, accept: str, message: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    answer = await gateway.http.get(path, headers={"accept": accept})
    assert (answer.status_code, answer.json()["reason"]) == (406, "NotAcceptable")
    assert message in answer.json()["message"]


async def test_yaml_says_the_same_as_json() -> None:
    gateway = Fixture()
    for name in ("n1", "n2"):
        await gateway.ok("POST", NODES, node(name, unschedulable=True))
    for path in (f"{NODES}/n1", NODES, f"{NODES}?limit=1", "/api/v1/namespaces/default/configmaps", "/apis", "/api/v1"):
        assert await get(gateway, path, YAML) == await get(gateway, path, "application/json"), path


async def test_errors_are_in_the_accepted_form() -> None:
    gateway = Fixture()
    answer = await gateway.http.get(f"{NODES}/nobody", headers={"accept": YAML})
    assert answer.headers["content-type"].startswith(YAML)
    assert yaml.safe_load(answer.text)["reason"] == "NotFound"


async def test_metadata_alone() -> None:
    gateway = Fixture()
    made = await gateway.ok("POST", NODES, node(unschedulable=True))
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]}
    assert await get(gateway, f"{NODES}/n1", PART) == head
    listed = await get(gateway, NODES, PARTS)
    assert (listed["kind"], listed["items"]) == ("PartialObjectMetadataList", [head])


@pytest.mark.parametrize(
    ("include", "shown"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Pod")]
)
async def test_a_row_has_as_much_of_its_object_as_is_asked_for(include: str, shown: str) -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod())
    for path in (PODS, f"{PODS}/p1"):
        table = await get(gateway, f"{path}?includeObject={include}", TABLE)
        assert [row["object"]["kind"] for row in table["rows"]] == [shown]


async def test_a_row_may_come_without_its_object() -> None:
    gateway = Fixture()
    await gateway.ok("POST", PODS, pod())
    table = await get(gateway, f"{PODS}?includeObject=None", TABLE)
    assert [row["object"] for row in table["rows"]] == [None]
    answer = await gateway.http.get(f"{PODS}?includeObject=Half", headers={"accept": TABLE})
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


async def test_a_watch_sends_rows_and_names_its_columns_once() -> None:
    gateway = Fixture()
    for name in ("n1", "n2"):
        await gateway.ok("POST", NODES, node(name))
    answer = await gateway.http.get(f"{NODES}?watch=1&timeoutSeconds=1", headers={"accept": TABLE})
    tables = [orjson.loads(line)["object"] for line in answer.content.splitlines()]
    assert [table["rows"][0]["cells"][0] for table in tables] == ["n1", "n2"]
    assert tables[0]["columnDefinitions"][0]["name"] == "Name"
    assert tables[1]["columnDefinitions"] is None


async def test_a_watch_sends_metadata_alone() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node(unschedulable=True))
    query = "watch=1&timeoutSeconds=1&allowWatchBookmarks=1"
    answer = await gateway.http.get(f"{NODES}?{query}", headers={"accept": PART})
    events = [orjson.loads(line) for line in answer.content.splitlines()]
    assert [(one["type"], one["object"]["kind"]) for one in events] == [
        ("ADDED", "PartialObjectMetadata"),
        ("BOOKMARK", "PartialObjectMetadata"),
    ]
    assert "spec" not in events[0]["object"]


async def test_people_get_indented_json() -> None:
    gateway = Fixture()
    await gateway.ok("POST", NODES, node())
    pretty = await gateway.http.get(f"{NODES}/n1?pretty=true")
    by_agent = await gateway.http.get(f"{NODES}/n1", headers={"user-agent": "curl/8.0"})
    plain = await gateway.http.get(f"{NODES}/n1?pretty=false", headers={"user-agent": "curl/8.0"})
    assert pretty.text == by_agent.text
    assert pretty.text.startswith('{\n  "')
    assert plain.text.count("\n") == 1
    assert pretty.json() == plain.json()
    for path in (NODES, "/api/v1/configmaps"):
        pretty = await gateway.http.get(f"{path}?pretty=true")
        assert pretty.text == json.dumps(pretty.json(), indent=2) + "\n"


async def test_large_answers_are_compressed_and_small_ones_are_not() -> None:
    gateway = Fixture()
    for number in range(300):
        await gateway.ok(
            "POST",
            NODES,
            node(f"n{number:03}") | {"metadata": {"name": f"n{number:03}", "annotations": {"a": "x" * 500}}},
        )
    plain = await gateway.http.get(NODES, headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert len(plain.content) > 128 * 1024
    async with gateway.http.stream("GET", NODES, headers={"accept-encoding": "gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        raw = b"".join([part async for part in packed.aiter_raw()])
    assert gzip.decompress(raw) == plain.content
    assert len(raw) < len(plain.content) / 5
    small = await gateway.http.get(f"{NODES}/n000", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in small.headers


@pytest.mark.parametrize("media", [YAML, "application/yaml; charset=utf-8"])
async def test_bodies_may_be_yaml(media: str) -> None:
    gateway = Fixture()
    text = (
        "metadata: {name: n1, annotations: {when: 2026-01-01T00:00:00Z, port: '8080'}}\nspec: {unschedulable: true}\n"
    )
    answer = await gateway.http.post(NODES, content=text, headers={"content-type": media})
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["unschedulable"] is True
    assert answer.json()["metadata"]["annotations"] == {"when": "2026-01-01T00:00:00Z", "port": "8080"}
    gone = await gateway.http.request(
        "DELETE", f"{NODES}/n1", content="kind: DeleteOptions\napiVersion: v1\n", headers={"content-type": media}
    )
    assert gone.json()["status"] == "Success"


LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@table(
    "body",
    [
        b"a: [",
        b"[1, 2]",
        b"just text",
        b"\xff\xfe\x00",
        b"!!python/object/apply:os.system [ls]",
        b"a: .nan",
        b"? [a, b]\n: c",
        b"a: &a {b: *a}",
        b"a: " + b"[" * 5000 + b"]" * 5000,
        LAUGHS.encode(),
    ],
)
async def test_yaml_that_is_no_object_is_refused(body: bytes) -> None:
    gateway = Fixture()
    answer = await gateway.http.post(NODES, content=body, headers={"content-type": YAML})
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), answer.text
