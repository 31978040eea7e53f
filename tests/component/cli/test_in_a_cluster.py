"""Commands with `--fleet-cluster`, with the gateway's own application in memory: each one reads, or says why not."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from tests.component.bridge.cluster import node, pod
from tests.component.cli.fake_gateway import invoke, said
from tests.component.gateway.test_dead_letters import letter
from tests.console.world import ConsoleWorld, some_cluster
from tests.support.in_memory import transport_to
from tests.support.kube_api import serve_kube_api
from tests.support.virtual_time import virtual_time

from moorage.apiserver.kinds.status.records import ObjectId
from moorage.bridges.kube.client import ClusterAccess
from moorage.cli.api.client import Client
from moorage.cli.commands import diff
from moorage.cli.commands.diff import PresentCluster
from moorage.cli.commands.simulate_request import HttpxTransport
from moorage.cli.errors import ServerError
from moorage.insight.explain.question import Question

SERVER = "http://127.0.0.1:8080"


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ConsoleWorld:
    """A gateway that the command line uses, with the node `at-home` and the cluster `east`."""
    world = ConsoleWorld()
    world.node("at-home")
    world.letters.add(0, letter(name="n04"))
    some_cluster(world)

    def client(server: str, **options: Any) -> Client:
        return Client(server, transport=HttpxTransport(transport_to(world.app), server), **options)

    monkeypatch.setattr("moorage.cli.api.endpoints.Client", client)
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("MOORAGE_SERVER", SERVER)
    monkeypatch.setenv("MOORAGE_FLEET_CLUSTER", "east")
    monkeypatch.delenv("MOORAGE_BOOTSTRAP_SERVERS", raising=False)
    return world


def run(line: str) -> tuple[int, str, str]:
    return said(invoke(*line.split()))


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("get nodes", "n01"),
        ("get nodes -o name", "node/spare\n"),
        ("get nodes n01 -o jsonpath={.spec.taints[0].key}", "node.kubernetes.io/not-ready"),
        ("get pods -A", "web-8"),
        ("get evictions", "Requested"),
        ("get evictions -o yaml", "node.kubernetes.io/unreachable"),
        ("get bindings", "web-1"),
        ("get workloadplacements", "batch-1"),
        ("get zones", "us/us-1"),
        ("get taints", "node.kubernetes.io/not-ready"),
        ("get conditions", "n05"),
        ("get pdb", "web"),
        ("get nodes,pods", "node/n01"),
        ("get --raw /api/v1/nodes/n01", '"n01"'),
        ("get configmaps", ""),
        ("describe node n01", "KubeletStopped"),
        ("describe pod web-1", "web-1"),
        ("describe evictions", "web-2"),
        ("describe zone us.us-1", "PartialDisruption"),
        ("events", "Events are not recorded for the objects of the cluster east."),
        ("api-resources", "evictions"),
        ("api-versions", "moorage.io/v1alpha1"),
        ("wait node/n04 --for=condition=Ready --timeout=1s", "condition met"),
        ("auth can-i list nodes", "yes"),
        ("auth can-i delete pods -n shop", "yes"),
        ("auth whoami", "moorage:admin"),
        ("bridge list", "bridge/east"),
        ("deadletters list", "UnknownTarget"),
        ("version", f"{SERVER}/clusters/east"),
        ("kubeconfig", f"{SERVER}/clusters/east"),
        ("taint node n04 gpu:NoSchedule", "node/n04 tainted"),
        ("explain pods.spec.tolerations", "tolerationSeconds"),
    ],
)
def test_a_command_reads_the_cluster(line: str, text: str) -> None:
    code, out, err = run(line)
    assert code == 0, err
    assert text in out
    assert "at-home" not in out


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("get nodes at-home", 'nodes "at-home" not found'),
        ("cordon n04", "change it there"),
        ("drain n04 --ignore-daemonsets", "change it there"),
        ("delete pod web-1", "change it there"),
        ("simulate --taint node/n04=a:NoExecute", "only changes of the home fleet are simulated"),
        ("auth can-i --list", "--list: cannot be used with --fleet-cluster"),
        ("pause evictions", "expected a zone, a workload or a target of the cluster east"),
        ("pause evictions --scope namespace=shop", "--scope: invalid value 'namespace=shop'"),
        ("explain placement p", "a Placement is decided on in the home fleet only"),
        ("diff cluster west", "must be east, the cluster of --fleet-cluster"),
        ("get nodes --fleet-cluster=west", 'clusters.moorage.io "west" not found\n`moorage bridge list` shows'),
    ],
)
def test_a_command_says_what_is_not_possible_there(line: str, text: str) -> None:
    code, _, err = run(line)
    assert code != 0
    assert text in err


def test_a_pause_is_one_of_the_home_fleet_that_names_what_is_in_the_cluster(fleet: ConsoleWorld) -> None:
    code, out, err = run("pause evictions --scope zone=us/us-1 --scope target=node/n05")
    assert (code, err) == (0, "")
    assert out.startswith("evictions of target east:Node/n05 and zone east:us/us-1 paused (evictionpause")
    (name,) = [one.name for one in fleet.store if one.kind == "EvictionPause"]
    shown = fleet.store.get(ObjectId("EvictionPause", "", name))
    assert shown is not None
    assert shown.document["spec"]["scope"] == {"targets": ["east:Node/n05"], "zones": ["east:us/us-1"]}
    asyncio.run(fleet.ok("POST", f"{PAUSES}", {"metadata": {"name": "all"}, "spec": {}}))
    code, out, _ = run("resume evictions --all")
    assert out == f"evictions of target east:Node/n05 and zone east:us/us-1 resumed (evictionpause.moorage.io/{name})\n"
    assert [one.name for one in fleet.store if one.kind == "EvictionPause"] == ["all"]


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(("kind", "is_hinted"), [("evictionpauses", True), ("jobs", False), ("budgets", False)])
def test_that_a_kind_is_of_the_home_fleet_alone_is_said(kind: str, *, is_hinted: bool) -> None:
    code, _, err = run(f"get {kind} -A")
    assert code == 0
    assert ("--fleet-cluster '' shows those of the home fleet." in err) is is_hinted
    assert said(invoke("get", kind, "-A", "--fleet-cluster", ""))[0] == 0


PAUSES = "/apis/moorage.io/v1alpha1/evictionpauses"


@pytest.mark.usefixtures("fleet")
def test_an_explanation_without_a_query_worker_is_that_of_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Question] = []

    def explained(question: Question) -> Any:
        asked.append(question)
        return {"workload": "east:Pod/default/web-1"}

    monkeypatch.setattr("moorage.cli.commands.explain._from_topics", explained)
    for options in ("", " --from-topics"):
        code, _, err = run(f"explain pod web-1 -o json{options}")
        assert code == 0, err
    assert [(one.name, one.within) for one in asked] == [("web-1", "east")] * 2


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("line", ["diff cluster", "diff cluster east"])
def test_a_cluster_is_compared_with_what_was_decided_on_it(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []

    def compared(_nodes: Any, _pods: Any, decided: Any) -> list[Any]:
        read.append(decided)
        return []

    it_is(monkeypatch, "uid-east")
    monkeypatch.setattr("moorage.bridges.kubernetes.difference.differences", compared)
    code, _, err = run(line)
    assert code == 0, err
    (decided,) = read
    assert len(decided.nodes) == 37
    assert len(decided.evictions) == 5, "those that have ended included"


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(("uid", "code"), [("uid-west", 2), ("", 1)])
def test_another_cluster_is_not_compared(uid: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose uid may not be read is."""
    it_is(monkeypatch, uid)
    found, out, err = run("diff cluster")
    assert (found, bool(out), bool(err)) == (code, code == 1, code == 2)
    if err:
        assert err == (
            "error: the cluster east is mirrored from the cluster with the uid uid-east, and that of the kubeconfig "
            "has the uid uid-west (of its namespace kube-system)\n"
        )


@pytest.mark.usefixtures("fleet")
def test_who_may_not_list_clusters_compares_them_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    it_is(monkeypatch, "uid-west")
    read = Client.read

    def refused(self: Client, path: str, **options: Any) -> Any:
        if path == "/v1/clusters":
            raise ServerError(status=403, reason="Forbidden", message="clusters is forbidden")
        return read(self, path, **options)

    monkeypatch.setattr(Client, "read", refused)
    code, out, err = run("diff cluster")
    assert (code, err) == (1, "")
    assert "is mirrored" in out


def it_is(monkeypatch: pytest.MonkeyPatch, uid: str) -> None:
    """Let the kubeconfig be of an empty cluster with this uid."""

    async def read(_: Any) -> PresentCluster:
        return PresentCluster(uid, [], [])

    monkeypatch.setattr(diff, "read_cluster", read)


@virtual_time
@pytest.mark.parametrize("permitted", [True, False])
async def test_a_cluster_is_read_with_its_uid_where_that_is_permitted(tmp_path: Path, *, permitted: bool) -> None:
    async with serve_kube_api() as api:
        api.store.create("Node", node("n1"))
        api.store.create("Pod", pod("web-0", node="n1"))
        if not permitted:
            api.fault("GET", "/namespaces/kube-system", status=403, times=math.inf)
        found = await diff.read_cluster(ClusterAccess(api.kubeconfig(tmp_path)))
        assert [one["metadata"]["name"] for one in (*found.nodes, *found.pods)] == ["n1", "web-0"]
        uid = api.store.get("Namespace", "kube-system")["metadata"]["uid"]
        assert found.uid == (uid if permitted else "")
