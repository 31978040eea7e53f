"""EvictionRequests of a kube-apiserver with the gate EvictionRequestAPI, and those of the gateway: the same answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from tests.component.gateway.double import Fixture, Json
from tests.component.gateway.test_eviction_requests import CHANGES, INVALID, REQUESTS, request
from tests.conformance.patching_plane import connection
from tests.planes import plane as planes

pytestmark = pytest.mark.kafka

FLAGS: Final = "--feature-gates=EvictionRequestAPI=true --runtime-config=lifecycle.k8s.io/v1alpha1=true"
HEAD: Final = {"apiVersion": "lifecycle.k8s.io/v1alpha1", "kind": "EvictionRequest"}
MERGE: Final = {"content-type": "application/merge-patch+json"}
TABLE: Final = {"accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}


def told(answer: httpx.Response) -> tuple[int, Any, Any]:
    """The part of an answer that must be the same."""
    found: Json = answer.json()
    return answer.status_code, found.get("message"), (found.get("details") or {}).get("causes")


async def test_a_real_api_server_answers_the_same(tmp_path: Path) -> None:
    async with planes.started(tmp_path) as plane:
        await plane.up(flags={"APISERVER_FLAGS": FLAGS})
        async with httpx.AsyncClient(**connection(plane.folder)) as real:
            for name, (body, _) in INVALID.items():
                there = await real.post(REQUESTS, json=HEAD | body)
                here = await Fixture().call("POST", REQUESTS, HEAD | body)
                assert told(here) == told(there), name
            for name, (change, _) in CHANGES.items():
                gateway = Fixture()
                assert (await real.post(REQUESTS, json=HEAD | request())).status_code == 201
                await gateway.ok("POST", REQUESTS, HEAD | request())
                patch = {"spec": change}
                there = await real.patch(f"{REQUESTS}/bar", json=patch, headers=MERGE)
                here = await gateway.call("PATCH", f"{REQUESTS}/bar", patch, headers=MERGE)
                assert here.status_code == there.status_code, name
                if there.status_code != 200:
                    assert told(here) == told(there), name
                await real.delete(f"{REQUESTS}/bar")
            tables = [
                (await real.get(REQUESTS, headers=TABLE)).json(),
                await Fixture().ok("GET", REQUESTS, headers=TABLE),
            ]
            columns = [
                [(one["name"], one["type"], one["format"], one["priority"]) for one in table["columnDefinitions"]]
                for table in tables
            ]
            assert columns[0] == columns[1]
