"""Karmada's own end-to-end specs, with two member clusters that are API servers with nodes without containers."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from tests.planes.cluster import Cluster, Document, connected, following
from tests.planes.karmada.engines import GATES, NO_WORKLOADS
from tests.planes.karmada.world import CLUSTERS
from tests.planes.plane import Plane, started
from tests.planes.suites import engines, programs
from tests.planes.suites.kubernetes import nodes
from tests.planes.suites.reports import MOORAGE, Outcome

FOCUS: Final = (
    "Taint cluster with ClusterTaintPolicy|cluster failover testing|propagation with taint and toleration testing"
)

_MEMBERS: Final = ("member1", "member2")
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1"
_NAMESPACE: Final = "karmada-cluster"
_STATE: Final = "StatefulFailoverInjection=true"  # off by default, and one spec is about it
_BY_UPSTREAM: Final = f"--resource-eviction-rate=5 --feature-gates=Failover=true,{_STATE}"
_BY_MOORAGE: Final = f"--controllers=*,-gracefulEviction --feature-gates=Failover=false,{_STATE}"
_BRIDGE: Final = ("karmada", "--scheduler-name", "default-scheduler")
_SECONDS: Final = 120.0  # until the members have joined


async def run(folder: Path, engine: str, focus: str) -> dict[str, Outcome]:
    """Run the specs that match a regular expression with an engine."""
    program = programs.karmada()
    async with AsyncExitStack() as stack:
        members = {name: await stack.enter_async_context(_member(folder / name)) for name in _MEMBERS}
        plane = await stack.enter_async_context(started(folder / "plane"))
        await stack.enter_async_context(_deciding(plane, folder, engine))
        cluster = await stack.enter_async_context(connected(plane.folder))
        for name, member in members.items():
            await _join(cluster, name, member)
        (clusters,) = await stack.enter_async_context(following(cluster, CLUSTERS))
        await clusters.until("members that are ready", lambda: all(map(_is_ready, clusters.all())) or None, _SECONDS)
        words = ("--poll-interval=1s", "--poll-timeout=120s")
        named = {"KUBECONFIG": str(_contexts(plane, folder))}
        return await engines.played(program, folder, focus, words=words, environment=named)


@asynccontextmanager
async def _deciding(plane: Plane, folder: Path, engine: str) -> AsyncIterator[None]:
    by_moorage = engine == MOORAGE
    flags = _BY_MOORAGE if by_moorage else _BY_UPSTREAM
    await plane.up("karmada", flags={"KCM_FLAGS": NO_WORKLOADS, "KARMADA_FLAGS": flags})
    if not by_moorage:
        yield
        return
    await plane.down("karmada-scheduler")
    async with engines.moorage(plane, folder, _BRIDGE, "all", **GATES):
        yield


@asynccontextmanager
async def _member(folder: Path) -> AsyncIterator[Plane]:
    """A cluster that runs what it is given."""
    async with started(folder) as plane:
        await plane.up()
        async with connected(folder) as cluster, nodes(cluster):
            await _hold_fake_images(cluster)
            yield plane


async def _hold_fake_images(cluster: Cluster) -> None:
    """Let no pod run whose image does not exist. KWOK would run it, and one spec is about such a deployment."""
    name = {"metadata": {"name": "fake-images"}}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    is_fake = {"name": "fake", "expression": "object.spec.containers.exists(one, one.image.startsWith('fake/'))"}
    unplaced = {"expression": 'Object{spec: Object.spec{schedulerName: "nobody"}}'}
    spec = {
        "matchConstraints": {"resourceRules": [pods]},
        "matchConditions": [is_fake],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": unplaced}],
    }
    await cluster.create(f"{_POLICIES}/mutatingadmissionpolicies", {**name, "spec": spec})
    bound = {"policyName": "fake-images"}
    await cluster.create(f"{_POLICIES}/mutatingadmissionpolicybindings", {**name, "spec": bound})


async def _join(cluster: Cluster, name: str, member: Plane) -> None:
    """Let a control plane push to a member, as an administrator."""
    server, authority, token = _access(member)
    metadata = {"name": name, "namespace": _NAMESPACE}
    data = {"token": base64.b64encode(token.encode()).decode(), "caBundle": authority}
    await cluster.create(f"/api/v1/namespaces/{_NAMESPACE}/secrets", {"metadata": metadata, "data": data})
    spec = {
        "id": name,
        "syncMode": "Push",
        "apiEndpoint": server,
        "secretRef": metadata,
        "impersonatorSecretRef": metadata,
    }
    kind = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster"}
    await cluster.create(CLUSTERS, {**kind, "metadata": {"name": name}, "spec": spec})


def _access(plane: Plane) -> tuple[str, str, str]:
    """The address of an API server, its authority and the token of an administrator."""
    read = json.loads(plane.kubeconfig.read_text("utf-8"))
    cluster = read["clusters"][0]["cluster"]
    return cluster["server"], cluster["certificate-authority-data"], read["users"][0]["user"]["token"]


def _is_ready(cluster: Document) -> bool:
    conditions = {one["type"]: one["status"] for one in cluster.get("status", {}).get("conditions", ())}
    return conditions.get("Ready") == "True" and not cluster["spec"].get("taints")


def _contexts(plane: Plane, folder: Path) -> Path:
    """A kubeconfig with the contexts that the specs name, which are one control plane here."""
    read = json.loads(plane.kubeconfig.read_text("utf-8"))
    (context,) = read["contexts"]
    read["contexts"] = [{**context, "name": name} for name in ("karmada-host", "karmada-apiserver")]
    path = folder / "contexts.kubeconfig"
    path.write_text(json.dumps(read), "utf-8")
    return path
