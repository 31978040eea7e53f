"""The commands of the manifests with their settings, on a Kafka with users and an authorizer, as pods run them."""

from __future__ import annotations

import re
import shlex
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from tests.support import forks, manifests
from tests.support.commands import moorage
from tests.support.manifests import Manifest, component, container, environment, pod
from tests.support.secure_broker import ALLOWED_URLS, PARTITIONS, SecureBroker
from tests.support.waiting import until

from moorage.cli.local.stack import free_ports

pytestmark = pytest.mark.kafka

GATEWAY, QUERY, TOPICS = "gateway", "query", "topics"
FLEET: Final = """
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: job}, spec: {nodeName: n1, containers: [{name: main, image: "job:1"}]}}
"""
_SECRETS: Final = "/etc/moorage/"


@dataclass(frozen=True)
class Running:
    """A pod whose container runs as a process of this machine."""

    name: str
    workload: Manifest
    process: forks.Forked
    port: int
    log: Path


class Machine:
    """Runs containers as processes: with their variables, the files of their Secrets, and ports of this machine."""

    def __init__(self, folder: Path, objects: dict[str, Manifest], broker: SecureBroker, identities: Path) -> None:
        self._folder, self._objects, self._broker = folder, objects, broker
        self.identities = identities
        self.query, *self._free = free_ports(12)

    def variables(self, one: Manifest, port: int) -> dict[str, str]:
        """The variables of a container. What names a place in the cluster names its place here instead."""
        name = one["metadata"]["name"]
        mounted = self._mounted(name, one)
        said = environment(self._objects, one, {"metadata.name": f"{name}-0", "metadata.namespace": "moorage"})
        said = {key: value.replace(_SECRETS, f"{mounted}/") for key, value in said.items()}
        broker = self._broker.by_certificate(
            Path(said["MOORAGE_KAFKA_CERT_FILE"]), Path(said["MOORAGE_KAFKA_KEY_FILE"])
        )
        here = {
            "MOORAGE_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "MOORAGE_REPLICATION_FACTOR": "1",
            "MOORAGE_PARTITIONS": str(PARTITIONS),
            "MOORAGE_HTTP_HOST": "127.0.0.1",
            "MOORAGE_HTTP_PORT": str(port),
        }
        if component(one) == GATEWAY:
            here |= {
                "MOORAGE_GATEWAY_PORT": str(port),
                "MOORAGE_GATEWAY_ADDRESS": f"https://127.0.0.1:{port}",
                "MOORAGE_QUERY_SERVER": f"http://127.0.0.1:{self.query}",
            }
        assert here.keys() - said.keys() == {"MOORAGE_PARTITIONS"}
        return said | here

    def _mounted(self, name: str, one: Manifest) -> Path:
        """A folder with the files of its Secrets alone."""
        root = self._folder / name
        root.mkdir(exist_ok=True)
        authority = self._broker.authority
        places = {each["name"]: each["mountPath"] for each in container(one)["volumeMounts"]}
        for volume in pod(one)["volumes"]:
            if "secret" not in volume:
                continue
            secret = volume["secret"]["secretName"]
            place = root / places[volume["name"]].removeprefix(_SECRETS)
            place.mkdir(exist_ok=True)
            if secret == "moorage-cluster-ca-cert":  # noqa: S105 - the name of a Secret
                files = {"ca.crt": authority.certificate}
            elif volume["name"] == "kafka-user":
                certificate, key = authority.sign(secret)
                files = {"user.crt": certificate, "user.key": key}
            elif volume["secret"].get("optional"):
                files = {}
            else:
                files = {file: self.identities / file for file in _secrets_of_the_page()[secret]}
            for file, source in files.items():
                (place / file).write_bytes(source.read_bytes())
        return root

    @asynccontextmanager
    async def running(self, one: Manifest, number: int = 0) -> AsyncIterator[Running]:
        """The first container of a pod, until it is ended as a kubelet ends it."""
        name = f"{one['metadata']['name']}-{number}"
        port = self.query if component(one) == QUERY else self._free.pop()
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            process = await forks.launch(container(one)["args"], self.variables(one, port), output)
        try:
            yield Running(name, one, process, port, log)
        finally:
            process.kill()
            await process.wait()


def _secrets_of_the_page() -> dict[str, list[str]]:
    """The files of each Secret, as the page on Kubernetes makes them."""
    page = (manifests.ROOT / "docs" / "kubernetes.md").read_text("utf-8")
    made = re.findall(r"create secret generic (\S+) \\?\n?((?:\s*--from-file=state/\S+(?: \\\n)?)+)", page)
    return {name: [Path(path).name for path in re.findall(r"--from-file=(\S+)", words)] for name, words in made}


async def _identities(state: Path) -> Path:
    """What the page's command makes."""
    page = (manifests.ROOT / "docs" / "kubernetes.md").read_text("utf-8")
    (words,) = re.findall(r"^MOORAGE_STATE_DIR=\S+ moorage (identities.*)$", page, re.MULTILINE)
    done = await moorage(*shlex.split(words), env={"MOORAGE_STATE_DIR": str(state)})
    assert done.code == 0, done.err
    return state / "gateway-identities"


def _address(one: Running) -> str:
    scheme = str(container(one.workload)["readinessProbe"]["httpGet"].get("scheme", "HTTP")).lower()
    return f"{scheme}://127.0.0.1:{one.port}"


async def _answers(http: httpx.AsyncClient, one: Running, probe: str) -> None:
    """Wait until a kubelet would find that a probe succeeds."""
    path = container(one.workload)[probe]["httpGet"]["path"]

    async def succeeds() -> bool:
        assert one.process.returncode is None, one.log.read_text()
        try:
            return (await http.get(f"{_address(one)}{path}")).is_success
        except httpx.TransportError:
            return False

    await until(succeeds, 120, f"{one.name}: {probe} does not succeed")


async def _decides(http: httpx.AsyncClient, gateways: list[Running], identities: Path) -> None:
    """Each gateway takes a write, of which one has to forward it, and what is written leads to decisions."""
    for number, one in enumerate(gateways):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"by-{number}"}, "data": {}}
        written = await http.post(f"{_address(one)}/api/v1/namespaces/default/configmaps", json=body)
        assert written.status_code == 201, written.text
    server = _address(gateways[0])
    commands = {
        "MOORAGE_SERVER": server,
        "MOORAGE_TOKEN_FILE": str(identities / "admin.token"),
        "MOORAGE_CA_FILE": str(identities / "ca.crt"),
    }
    done = await moorage("apply", "-f", "-", env=commands, text=FLEET)
    assert done.code == 0, done.err
    event = {"specversion": "1.0", "id": "1", "source": "probe/mine", "type": "io.moorage.condition.reported.v1"}
    report: dict[str, Any] = {"target": {"kind": "Node", "name": "n1"}, "type": "Ready", "status": "False"}
    report["observedTime"] = datetime.now(UTC).isoformat()
    headers = {"content-type": "application/cloudevents+json"}
    reported = await http.post(f"{server}/v1/conditions", json=event | {"data": report}, headers=headers)
    assert reported.status_code == 202, reported.text

    async def tainted() -> bool:
        node = (await http.get(f"{server}/api/v1/nodes/n1")).json()
        return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", ()))

    await until(tainted, message="the node was not tainted")
    explained = await http.get(f"{server}/v1/explain", params={"kind": "Pod", "namespace": "default", "name": "job"})
    assert explained.status_code == 200, explained.text
    anonymous = await http.get(f"{server}/api/v1/nodes", headers={"authorization": ""})
    assert anonymous.status_code in (401, 403)


# Without kubectl, which makes the manifests, there is nothing to run. The header of the run says that it is missing.
if manifests.kubectl():

    async def test_every_command_runs_with_its_settings_and_rights(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        objects = manifests.objects(manifests.kustomized("overlays/production"))
        workloads = {component(one): one for one in manifests.workloads(objects)}
        broker = SecureBroker(tmp_path / "broker")
        identities = await _identities(tmp_path / "state")
        machine = Machine(tmp_path, objects, broker, identities)
        with monkeypatch.context() as patch:
            patch.setenv("JAVA_TOOL_OPTIONS", ALLOWED_URLS.format(broker.issuer.jwks.as_uri()))
            await broker.start()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(broker.close)
            job = workloads.pop(TOPICS)
            done = await moorage(*container(job)["args"], env=machine.variables(job, 0))
            assert done.code == 0, done.err
            pods = [await stack.enter_async_context(machine.running(one)) for one in workloads.values()]
            pods.append(await stack.enter_async_context(machine.running(workloads[GATEWAY], 1)))
            tls = ssl.create_default_context(cafile=str(identities / "ca.crt"))
            token = (identities / "admin.token").read_text().strip()
            async with httpx.AsyncClient(verify=tls, timeout=120) as http:
                for one in pods:
                    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                        await _answers(http, one, probe)
                http.headers["authorization"] = f"Bearer {token}"
                await _decides(http, [one for one in pods if component(one.workload) == GATEWAY], identities)
                for one in pods:
                    metrics = await http.get(f"{_address(one)}/metrics")
                    assert metrics.status_code == 200, one.name
            for one in pods:
                one.process.send_signal(signal.SIGTERM)
            for one in pods:
                assert await one.process.wait() == 0, one.log.read_text()
            for one in pods:
                assert "kafka.refused" not in one.log.read_text(), one.name
