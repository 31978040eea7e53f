"""Objects as Go's typed clients send them: with the zero values of all fields that are not left out when empty."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from tests.component.gateway.double import Fixture, Json

from moorage.apiserver.machinery.served_kinds import served

FILE = Path(__file__).with_name("zero_values.jsonl")
"""The JSON of `encoding/json` for objects of upstream's Go types with little but names."""

OBJECTS = [orjson.loads(line) for line in FILE.read_bytes().splitlines()]


@pytest.mark.parametrize("sent", OBJECTS, ids=lambda sent: f"{sent['kind']}-{sent['metadata']['name']}")
async def test_what_a_typed_client_sends_is_taken(sent: Json) -> None:
    gateway = Fixture()
    (kind,) = (one for one in served() if (one.api_version, one.kind) == (sent["apiVersion"], sent["kind"]))
    namespace = sent["metadata"].get("namespace")
    group = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    path = f"{group}/namespaces/{namespace}/{kind.plural}" if namespace else f"{group}/{kind.plural}"
    made = await gateway.call("POST", path, sent)
    assert made.status_code == 201, made.text
    assert "misconfigured" not in made.headers.get("warning", "")
    if sent["kind"] != "Job":  # its template and selector cannot be changed
        version = {"resourceVersion": made.json()["metadata"]["resourceVersion"]}
        again = {**sent, "metadata": {**sent["metadata"], **version}}
        written = await gateway.call("PUT", f"{path}/{sent['metadata']['name']}", again)
        assert written.status_code == 200, written.text
