"""The commands that kubectl has as well, on a running gateway and without kubectl."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.support.brokers import Broker
from tests.support.live import Live, running
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

SECONDS = 120.0
PDB = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}}
NOTED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def live(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Live]:
    async with running(broker.bootstrap, f"{RUN}-hand", tmp_path_factory.mktemp("hand")) as found:
        yield found


def deployment(name: str, host: str, replicas: int, **container: Any) -> dict[str, Any]:
    pod = {"nodeSelector": {"host": host}, "containers": [{"name": "main", "image": "web:1", **container}]}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"host": name}}}


async def value(live: Live, what: str, path: str) -> str:
    return (await live.here("get", what, "-o", f"jsonpath={path}")).out


async def test_what_kubectl_has_applied_goes_when_it_is_left_out(live: Live) -> None:
    kubectls = deployment("both", "nowhere", 1, env=[{"name": "A", "value": "1"}])
    noted = json.dumps({**kubectls, "metadata": {**kubectls["metadata"], "annotations": {}}})
    there = {**kubectls, "metadata": {**kubectls["metadata"], "annotations": {NOTED: noted}}}
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    async with httpx.AsyncClient(base_url=live.server) as http:
        params = {"fieldManager": "kubectl-client-side-apply"}
        (await http.post(deployments, json=there, params=params)).raise_for_status()
    await live.here("annotate", "deployment", "both", "team=x")
    text = yaml.safe_dump(deployment("both", "nowhere", 3))

    changed = (await live.here("diff", "-f", "-", text=text, code=1)).out
    assert "-  replicas: 1\n+  replicas: 3\n" in changed
    dry = await live.here("apply", "-f", "-", "--dry-run=server", text=text)
    assert dry.out == "deployment.apps/both configured (server dry run)\n"
    assert await value(live, "deployment/both", "{..env[0].name}") == "A"  # neither changes anything
    assert (await live.here("apply", "-f", "-", text=text)).out == "deployment.apps/both configured\n"
    assert await value(live, "deployment/both", "{.spec.template.spec.containers[*].image}") == "web:1"
    assert await value(live, "deployment/both", "{.spec.template.spec.containers[*].env}") == ""
    assert await value(live, "deployment/both", "{.metadata.annotations.team}") == "x"
    assert NOTED not in await value(live, "deployment/both", "{.metadata.annotations}")
    assert (await live.here("apply", "-f", "-", text=text)).out == "deployment.apps/both unchanged\n"
    assert (await live.here("diff", "-f", "-", text=text)).out == ""


async def test_the_server_applies_and_names_conflicts(live: Live) -> None:
    def config_map(data: str) -> str:
        return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": data}})

    first = await live.here("apply", "-f", "-", "--server-side", "--field-manager=one", text=config_map("1"))
    assert first.out == "configmap/m created\n"
    refused = await live.here("apply", "-f", "-", text=config_map("2"), code=1)
    assert 'conflict with "one"' in refused.err
    assert (await live.here("apply", "-f", "-", text=config_map("1"))).out == "configmap/m unchanged\n"
    await live.here("apply", "-f", "-", "--force-conflicts", text=config_map("2"))
    assert await value(live, "configmap/m", "{.data.a}") == "2"


async def test_what_admission_adds_to_a_pod_and_what_the_gateway_makes_is_no_conflict(live: Live) -> None:
    asked = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}
    spec = {"containers": [{"name": "c", "image": "c"}], "tolerations": [asked], "nodeSelector": {"host": "nowhere"}}
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tolerant"}, "spec": spec})
    assert (await live.here("apply", "-f", "-", text=text)).out == "pod/tolerant created\n"
    assert (await live.here("apply", "-f", "-", text=text)).out == "pod/tolerant unchanged\n"
    keys = (await value(live, "pod/tolerant", "{.spec.tolerations[*].key}")).split()
    assert keys == ["maintenance", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    made = {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "MoorageConfiguration",
        "metadata": {"name": "cluster"},
        "spec": {"taintAddHold": "1s"},
    }
    called = "moorageconfiguration.moorage.io/cluster"
    assert (await live.here("apply", "-f", "-", text=yaml.safe_dump(made))).out == f"{called} configured\n"


async def test_objects_are_changed_and_looked_at(live: Live) -> None:
    await live.namespaces("shop")
    await live.here("-n", "shop", "apply", "-f", "-", text=yaml.safe_dump(deployment("web", "nowhere", 2)))
    await live.here("label", "deployment", "web", "-n", "shop", "tier=front")
    await live.here("annotate", "deployment", "web", "-n", "shop", "note=n")
    found = (await live.here("get", "deployments", "-A", "-l", "tier=front", "-o", "json")).json["items"][0]
    assert found["metadata"]["annotations"]["note"] == "n"
    assert (await live.here("auth", "can-i", "create", "pods")).out == "yes\n"
    names = (await live.here("api-resources", "-o", "name")).out.split()
    assert {"pods", "deployments.apps", "evictionpauses.moorage.io"} <= set(names)
    refused = await live.here("apply", "-f", "-", text=yaml.safe_dump(deployment("x", "n", 1, img="i")), code=1)
    assert "img" in refused.err


async def test_a_node_is_drained_within_a_budget(live: Live) -> None:
    await live.here("apply", "-f", "-", text=yaml.safe_dump_all([node("d1"), deployment("kept", "d1", 2)]))

    async def both_are_there() -> bool:
        pods = (await live.here("get", "pods", "-l", "app=kept", "--field-selector=spec.nodeName=d1", "-o", "name")).out
        return len(pods.split()) == 2

    await until(both_are_there, SECONDS)
    budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "kept"}}}
    await live.here("apply", "-f", "-", text=yaml.safe_dump({**PDB, "spec": budget}))
    kept = await live.here("drain", "d1", "--timeout=1s", code=1)
    assert "node/d1 cordoned\n" in kept.out
    assert "disruption budget" in kept.err
    await live.here("delete", "pdb", "kept")
    drained = await live.here("drain", "d1", "--timeout=60s")
    assert drained.out.endswith("node/d1 drained\n")
    assert sum(line.startswith("pod/kept-") and line.endswith(" evicted") for line in drained.out.splitlines()) == 2
    waited = await live.here("delete", "deployment", "kept", "--wait", "--timeout=60s")
    assert waited.out == 'deployment.apps "kept" deleted\n'
