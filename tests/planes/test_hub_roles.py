"""The roles of the bridges to a hub and to a Karmada control plane are what these need: no less, and no more.

A bridge with all acts runs with them. The API server's audit has each of its requests.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.conftest import RUN
from tests.planes.bridges import Bridge
from tests.planes.cluster import Cluster, connected
from tests.planes.engines import Engine
from tests.planes.karmada import engines as karmada_engines
from tests.planes.karmada import world as karmada_world
from tests.planes.ocm import engines as ocm_engines
from tests.planes.ocm import world as ocm_world
from tests.planes.plane import Plane, started
from tests.planes.roles import Audited, Permission, audit_flags, audited, grant, granted
from tests.support import manifests
from tests.support.brokers import Broker
from tests.support.live import Live, running

pytestmark = pytest.mark.kafka

USER: Final = "moorage-bridge-of-test"
_CLUSTERS: Final = "cluster.open-cluster-management.io"
_CONFLICT: Final = "only after somebody else has changed it at the same time"
_SILENT: Final = "only before a cluster counts as silent"


@dataclass(frozen=True)
class Case:
    """A bridge, and what it has no reason to do in this test, or only by chance."""

    folder: str
    """Of its roles, in `ops/kubernetes`."""

    words: tuple[str, ...]
    settings: Mapping[str, Any]
    undecided: Engine
    everything: Callable[[Cluster, Live], Awaitable[None]]
    elsewhere: Mapping[Permission, str]


async def _hub(cluster: Cluster, live: Live) -> None:
    """Let the bridge write and delete decisions, taint a cluster, and set the label of an add-on."""
    async with ocm_world.followed(cluster) as followers:
        world = ocm_world.World("roles", cluster, followers, ocm_engines.Nobody())
        world.patience = 60.0
        await world.open()
        await world.bound_set("roles-set")
        first, second = await world.clusters("roles-set", 2)
        groups = {"groupStrategy": {"clustersPerDecisionGroup": 1}}
        await world.place(decisionStrategy=groups)
        await world.numbers(2, 2)
        await world.condition("PlacementSatisfied", "True")
        await live.moorage("taint", "managedcluster", first, "example.com/broken=:NoSelect")
        await world.tainted(first, "example.com/broken")
        await world.numbers(1, 1)
        await world.relabel_decision()
        await world.add_on(second, "work")
        await world.labelled(second, "feature.open-cluster-management.io/addon-work", "available")


async def _control_plane(cluster: Cluster, live: Live) -> None:
    """Let the bridge place a binding and taint a cluster."""
    async with karmada_world.followed(cluster) as followers:
        world = karmada_world.World("roles", cluster, followers, karmada_engines.Nobody())
        world.patience = 60.0
        await world.open()
        member = await world.member("m1")
        await world.deploy({"clusterAffinity": {"clusterNames": [member]}})
        await world.placed(lambda found: found == {member}, f"on {member}")
        await world.scheduled()
        await live.moorage("taint", "clusters.cluster.karmada.io", member, "example.com/broken=:NoSchedule")
        await world.tainted(member, ("example.com/broken", "NoSchedule"))


CASES: Final = {
    "ocm": Case(
        "bridge/ocm",
        ("ocm",),
        {},
        ocm_engines.Nobody(),
        _hub,
        {
            (_CLUSTERS, "managedclusters", "get"): _CONFLICT,
            (_CLUSTERS, "placements", "get"): _CONFLICT,
            (_CLUSTERS, "placementdecisions", "get"): _CONFLICT,
            (_CLUSTERS, "placements/finalizers", "update"): "only asked by an admission plugin, and never requested",
            ("coordination.k8s.io", "leases", "get"): _SILENT,
        },
    ),
    "karmada": Case(
        "bridge/karmada",
        karmada_engines.BRIDGE,
        karmada_engines.GATES,
        karmada_engines.Nobody(),
        _control_plane,
        {("cluster.karmada.io", "clusters", "get"): _CONFLICT, ("coordination.k8s.io", "leases", "get"): _SILENT},
    ),
}


def documents(case: Case) -> list[dict[str, Any]]:
    """The roles of a bridge, and their bindings to the user of this test."""
    files = sorted((manifests.KUBERNETES / case.folder).glob("*.yaml"))
    read = [one for file in files for one in yaml.safe_load_all(file.read_text("utf-8"))]
    found = [one for one in read if "Role" in one["kind"]]
    for one in found:
        if one["kind"].endswith("Binding"):
            one["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}]
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=list(CASES))
async def requests(
    request: pytest.FixtureRequest, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Case, list[Audited]]]:
    """A bridge that did one thing of each kind, and its requests."""
    case, folder = CASES[request.param], tmp_path_factory.mktemp("plane")
    audit, flags = audit_flags(folder, USER)
    plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(started(folder))
        await plane.up(flags={"APISERVER_FLAGS": f"{flags} {plugin}"})
        await plane.down("kube-controller-manager")  # the engine starts it with flags of its own
        await stack.enter_async_context(case.undecided.deciding(plane))
        cluster = await stack.enter_async_context(connected(folder))
        await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": manifests.NAMESPACE}})
        await grant(cluster, documents(case))
        kubeconfig = folder / "bridge.kubeconfig"
        kubeconfig.write_text(json.dumps(_as_user(plane)))
        logs = tmp_path_factory.mktemp("moorage")
        prefix = f"{RUN}-roles-{request.param}-"
        live = await stack.enter_async_context(running(broker.bootstrap, prefix, logs, **case.settings))
        space = next(one["metadata"]["namespace"] for one in documents(case) if _elects(one))
        access = ("--kubeconfig", str(kubeconfig), "--lease-namespace", space)
        bridge = Bridge(plane, live, logs, case.words, access)
        try:
            await bridge.start()
            await case.everything(cluster, live)
            bridge.must_run()
        finally:
            await bridge.stop()
        yield case, audited(audit)


def _elects(one: dict[str, Any]) -> bool:
    return bool(one["kind"] == "Role" and one["metadata"]["name"].endswith("-election"))


def _as_user(plane: Plane) -> dict[str, Any]:
    """A kubeconfig with a certificate of the user."""
    pki = plane.folder / "pki"
    authority = x509.load_pem_x509_certificate((pki / "ca.crt").read_bytes())
    signer = serialization.load_pem_private_key((pki / "ca.key").read_bytes(), None)
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, USER)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())  # type: ignore[arg-type]  # an authority's key can sign certificates
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    config: dict[str, Any] = yaml.safe_load(plane.kubeconfig.read_text("utf-8"))
    config["users"][0]["user"] = {
        "client-certificate-data": base64.b64encode(made.public_bytes(pem)).decode(),
        "client-key-data": base64.b64encode(private).decode(),
    }
    return config


async def test_a_bridge_is_refused_nothing_and_uses_every_rule(requests: tuple[Case, list[Audited]]) -> None:
    case, found = requests
    assert [one for one in found if one.code in (401, 403)] == []
    used, permitted = {one.permission for one in found}, granted(documents(case))
    assert used <= permitted
    assert permitted - used <= case.elsewhere.keys()
