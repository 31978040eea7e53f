"""The commands that kubectl has as well, on a running gateway and without kubectl."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import yaml
from tests.conftest import RUN
from tests.support.brokers import Broker
from tests.support.live import Live, running
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

SECONDS = 30.0
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


async def test_what_either_hand_has_applied_goes_when_it_is_left_out(live: Live) -> None:
    kubectls = deployment("both", "nowhere", 1, env=[{"name": "A", "value": "1"}])
    kubectls["metadata"] |= {"namespace": "default"}
    noted = json.dumps({**kubectls, "metadata": {**kubectls["metadata"], "annotations": {}}})
    there = {**kubectls, "metadata": {**kubectls["metadata"], "annotations": {NOTED: noted, "team": "x"}}}
    await live.here("create", "-f", "-", text=yaml.safe_dump(there))
    text = yaml.safe_dump(deployment("both", "nowhere", 1))

    changed = (await live.here("diff", "-f", "-", text=text, code=1)).out
    assert any(line.startswith("-") and line.endswith("env:") for line in changed.splitlines())
    assert await value(live, "deployment/both", "{..env[0].name}") == "A"  # a difference changes nothing
    dry = await live.here("apply", "-f", "-", "--dry-run=server", text=text)
    assert dry.out == "deployment.apps/both configured (server dry run)\n"
    assert (await live.here("apply", "-f", "-", text=text)).out == "deployment.apps/both configured\n"
    assert await value(live, "deployment/both", "{.spec.template.spec.containers[*].image}") == "web:1"
    assert await value(live, "deployment/both", "{.spec.template.spec.containers[*].env}") == ""
    assert await value(live, "deployment/both", "{.metadata.annotations.team}") == "x"
    assert (await live.here("apply", "-f", "-", text=text)).out == "deployment.apps/both unchanged\n"
    assert (await live.here("diff", "-f", "-", text=text)).out == ""


async def test_the_server_applies_and_names_conflicts(live: Live) -> None:
    def config_map(data: str) -> str:
        return yaml.safe_dump({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": data}})

    first = await live.here("apply", "-f", "-", "--server-side", "--field-manager=one", text=config_map("1"))
    assert first.out == "configmap/m serverside-applied\n"
    words = ("apply", "-f", "-", "--server-side", "--field-manager=two")
    refused = await live.here(*words, text=config_map("2"), code=1)
    assert 'conflict with "one"' in refused.err
    await live.here(*words, "--force-conflicts", text=config_map("2"))
    assert await value(live, "configmap/m", "{.data.a}") == "2"


async def test_objects_are_created_changed_and_looked_at(live: Live) -> None:
    await live.here("create", "namespace", "shop")
    await live.here("-n", "shop", "create", "deployment", "web", "--image=web:1", "--replicas=2")
    await live.here("label", "deployment", "web", "-n", "shop", "tier=front")
    await live.here("annotate", "deployment", "web", "-n", "shop", "note=n")
    patch = '{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"1"}]}]}}}}'
    assert (await live.here("patch", "deployment", "web", "-n", "shop", "-p", patch)).out.endswith(" patched\n")
    await live.here("set", "image", "deployment/web", "web=web:2", "-n", "shop")
    found = (await live.here("get", "deployments", "-A", "-l", "tier=front", "-o", "json")).json["items"][0]
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["env"]) == ("web:2", [{"name": "A", "value": "1"}])
    assert found["metadata"]["annotations"]["note"] == "n"
    assert (await live.here("auth", "can-i", "create", "pods")).out == "yes\n"
    names = (await live.here("api-resources", "-o", "name")).out.split()
    assert {"pods", "deployments.apps", "evictionpauses.moorage.io"} <= set(names)
    refused = await live.here(
        "create", "-f", "-", "--validate=strict", text=yaml.safe_dump(deployment("x", "n", 1, img="i")), code=1
    )
    assert "img" in refused.err


async def test_a_node_is_drained_within_a_budget(live: Live) -> None:
    await live.here("apply", "-f", "-", text=yaml.safe_dump_all([node("d1"), deployment("kept", "d1", 2)]))

    async def both_are_there() -> bool:
        pods = (await live.here("get", "pods", "-l", "app=kept", "--field-selector=spec.nodeName=d1", "-o", "name")).out
        return len(pods.split()) == 2

    await until(both_are_there, SECONDS)
    await live.here("create", "pdb", "kept", "--selector=app=kept", "--min-available=2")
    kept = await live.here("drain", "d1", "--timeout=1s", code=1)
    assert "node/d1 cordoned\n" in kept.out
    assert "disruption budget" in kept.err
    await live.here("delete", "pdb", "kept")
    drained = await live.here("drain", "d1", "--timeout=60s")
    assert drained.out.endswith("node/d1 drained\n")
    assert sum(line.startswith("pod/kept-") and line.endswith(" evicted") for line in drained.out.splitlines()) == 2
    waited = await live.here("delete", "deployment", "kept", "--wait", "--timeout=60s")
    assert waited.out == 'deployment.apps "kept" deleted\n'
