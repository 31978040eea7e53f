"""A whole fleet where everybody has only what they need: a probe, a deployer, an operator and a viewer.

Gateway and Kafka ask who everybody is. Each of the four does its work, and is refused the work of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.accounts import token_of_new_account
from tests.support.commands import moorage
from tests.support.up import started
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

ROLES = ("probe", "deployer", "operator", "viewer")
FLEET = """
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}}
---
{apiVersion: v1, kind: Secret, metadata: {name: s}}
---
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  nodeName: n1
  containers: [{name: main, image: "job:1"}]
  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 0}]
"""
MERGE = {"content-type": "application/merge-patch+json"}
PODS = "/api/v1/namespaces/default/pods"
OWN = "/apis/moorage.io/v1alpha1"


def report(status: str = "False") -> dict[str, Any]:
    """A report as a CloudEvent, and its headers."""
    head = {
        "ce-specversion": "1.0",
        "ce-type": "io.moorage.condition.reported.v1",
        "ce-source": "probe/rack",
        "ce-id": str(uuid.uuid4()),
    }
    target = {"kind": "Node", "name": "n1"}
    event = {"target": target, "type": "Ready", "status": status, "observedTime": datetime.now(UTC).isoformat()}
    return {"headers": head, "json": event}


def taint(key: str) -> dict[str, Any]:
    return {"headers": MERGE, "content": json.dumps({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}})}


PAUSE = {"apiVersion": "moorage.io/v1alpha1", "kind": "EvictionPause", "metadata": {"name": "p"}, "spec": {}}
BINDING = {
    "metadata": {"name": "mine"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "Group", "name": "system:authenticated"}],
}
NEW_POD = {"metadata": {"name": "new"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

# What is asked, and by whom of the four it may be.
CELLS: list[tuple[str, str, str, dict[str, Any], set[str]]] = [
    ("report a condition", "POST", "/v1/conditions", report("True"), {"probe", "deployer", "operator"}),
    ("read nodes", "GET", "/api/v1/nodes", {}, {"operator", "viewer"}),
    ("read pods", "GET", PODS, {}, {"deployer", "operator", "viewer"}),
    ("read bindings", "GET", f"{OWN}/bindings", {}, {"deployer", "operator", "viewer"}),
    ("read evictions", "GET", f"{OWN}/evictions", {}, {"deployer", "operator", "viewer"}),
    ("explain", "GET", "/v1/explain?kind=Pod&name=job", {}, {"operator", "viewer"}),
    ("read secrets", "GET", "/api/v1/namespaces/default/secrets/s", {}, set()),
    ("taint a node", "PATCH", "/api/v1/nodes/n2", taint("a"), {"operator"}),
    ("delete a node", "DELETE", "/api/v1/nodes/n2?dryRun=All", {}, set()),
    ("create a pod", "POST", f"{PODS}?dryRun=All", {"json": NEW_POD}, set()),
    ("evict a pod", "POST", f"{PODS}/none/eviction", {"json": {"metadata": {"name": "none"}}}, {"operator"}),
    ("pause", "POST", f"{OWN}/evictionpauses?dryRun=All", {"json": PAUSE}, {"operator"}),
    ("read dead letters", "GET", f"{OWN}/deadletters", {}, {"operator"}),
    ("read a dead letter", "GET", f"{OWN}/deadletters/0-0", {}, {"operator"}),
    ("send a dead letter again", "POST", f"{OWN}/deadletters/0-0/replay", {}, {"operator"}),
    ("read the audit", "GET", f"{OWN}/auditevents", {}, set()),
    ("simulate", "POST", "/v1/simulate", {"json": {"failing": ["Node/n2"], "seconds": 60}}, {"operator"}),
    ("bind a role", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"json": BINDING}, set()),
    ("act for others", "GET", PODS, {"headers": {"impersonate-user": "moorage:admin"}}, set()),
    ("read metrics", "GET", "/metrics", {}, set()),
    ("find out what is served", "GET", "/apis", {}, set(ROLES)),
]


@contextlib.asynccontextmanager
async def decisions(http: httpx.AsyncClient) -> AsyncIterator[asyncio.Queue[Any]]:
    """The events of the stream of decisions. The queue has an exception at its end if the stream fails."""
    found: asyncio.Queue[Any] = asyncio.Queue()

    async def follow() -> None:
        try:
            async with http.stream("GET", "/v1/decisions", timeout=None) as answer:
                assert answer.status_code == 200, await answer.aread()
                async for line in answer.aiter_lines():
                    if line.startswith("data:"):
                        found.put_nowait(json.loads(line.removeprefix("data:")))
        except Exception as error:  # noqa: BLE001 - whoever waits for the next event raises it
            found.put_nowait(error)

    task = asyncio.create_task(follow())
    try:
        yield found
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_each_does_its_work_and_is_refused_that_of_others(topic_prefix: str, tmp_path: Path) -> None:
    async with started(None, topic_prefix, tmp_path, "--secure-gateway", "--secure-kafka") as up:
        server = json.loads(up.run_file.read_text())["server"]
        alone = {"MOORAGE_STATE_DIR": str(tmp_path), "MOORAGE_BOOTSTRAP_SERVERS": "", "MOORAGE_SERVER": ""}
        applied = await moorage("apply", "-f", "-", env=alone, text=FLEET)
        assert applied.code == 0, applied.err
        trusted = ssl.create_default_context(cafile=str(tmp_path / "gateway-identities" / "ca.crt"))
        clients: dict[str, httpx.AsyncClient] = {}
        async with contextlib.AsyncExitStack() as stack:
            for role in ROLES:
                token = await token_of_new_account(server, tmp_path, role, f"moorage:{role}")
                client = httpx.AsyncClient(
                    base_url=server,
                    verify=trusted,
                    trust_env=False,
                    timeout=30,
                    headers={"authorization": f"Bearer {token}"},
                )
                clients[role] = await stack.enter_async_context(client)
            wrong = []
            for what, method, path, options, allowed in CELLS:
                for role, client in clients.items():
                    answer = await client.request(method, path, **options)
                    if (answer.status_code != 403) is not (role in allowed):
                        wrong.append((what, role, answer.status_code, answer.text[:200]))
            assert wrong == []
            await what_would_be(clients["operator"])
            await the_way_of_one_event(clients)


def has_to_leave(event: Any) -> bool:
    """Whether an event of the stream says that the pod leaves.

    The binding of a bare pod ends with the request. The stream tells states that follow each other fast as one, so the
    first that is heard may be Completed.
    """
    if isinstance(event, Exception):
        raise event
    value = event.get("value") or {}
    return value.get("state") in {"Requested", "Completed"} and value["workload"]["name"] == "job"


async def what_would_be(operator: httpx.AsyncClient) -> None:
    """The query worker simulates with what its user may in Kafka: the pod has to leave a node that fails."""
    asked = {"failing": ["Node/n1"], "status": "False", "seconds": 60}
    answer = await operator.post("/v1/simulate", json=asked, timeout=120)
    assert answer.status_code == 200, answer.text
    assert [one["target"] for one in answer.json()["leaving"]] == ["Node/n1"]


async def the_way_of_one_event(clients: dict[str, httpx.AsyncClient]) -> None:
    """The probe reports, the pod has to leave, and the deployer hears of it. The viewer sees both."""
    async with decisions(clients["deployer"]) as heard:
        reported = await clients["probe"].post("/v1/conditions", **report())
        assert reported.status_code == 202, reported.text
        async with asyncio.timeout(120):
            while not has_to_leave(await heard.get()):
                pass

    async def tainted() -> bool:
        node = (await clients["viewer"].get("/api/v1/nodes/n1")).json()
        return any(one["key"] == "node.kubernetes.io/not-ready" for one in node["spec"].get("taints") or [])

    await until(tainted)
