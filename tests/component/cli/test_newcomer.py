"""Situations of a user who knows kubectl and has only read the README."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from tests.component.cli.fake_gateway import FakeGateway, Run, said, status

from moorage.cli.api import kinds, runfile
from moorage.cli.api.client import Client
from moorage.cli.api.kinds import find
from moorage.cli.api.topics import Seen
from moorage.cli.commands.simulate_request import HttpxTransport
from moorage.cli.render.events import line
from moorage_schemas.topics import TAINTS

OWN = "/apis/moorage.io/v1alpha1"


def test_all_means_pods_and_their_controllers_targets_policies_and_guards() -> None:
    found = {one.kind.kind for one in kinds.parse(["all"])}
    controllers = {"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob"}
    targets = {"Node", "Cluster", "ManagedCluster"}
    policies = {"PropagationPolicy", "ClusterPropagationPolicy", "ClusterTaintPolicy", "Placement", "DedicatedNodes"}
    policies |= {"TaintPolicy", "Rollout"}
    guards = {"PodDisruptionBudget", "EvictionBudget", "EvictionPause", "Maintenance"}
    assert found == {"Pod", *controllers, "HorizontalPodAutoscaler", *targets, *policies, *guards}
    in_kubectl = {kind.kind for kind in kinds.all_kinds() if kind.definition.in_all}
    assert found - in_kubectl == targets | policies | guards


@pytest.mark.parametrize("command", ["get", "describe"])
def test_a_command_without_a_kind_lists_the_kinds(run: Run, command: str) -> None:
    code, out, err = said(run(command))
    assert (code, out) == (2, "")
    assert err.startswith("error: You must specify the type of resource. The kinds are namespaces, nodes, pods, ")


def test_help_is_as_wide_as_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line breaks of a docstring are not kept."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.strip() for line in run("demo", "--help").output.splitlines()]
    first = next(number for number, line in enumerate(lines) if line.startswith("The demo declares"))
    assert lines[first : first + 2] == [
        "The demo declares a fleet of 20 nodes. A probe reports a node as not ready,",
        "and a person taints another node. Then half a zone fails, and evictions are",
    ]


def test_describing_nothing_says_so(gateway: FakeGateway, run: Run) -> None:
    assert said(run("describe", "pod")) == (0, "", "No resources found in default namespace.\n")
    assert said(run("describe", "pods", "-A")) == (0, "", "No resources found\n")
    assert said(run("describe", "nodes")) == (0, "", "No resources found\n")
    assert said(run("describe", "pod", "p", "-A"))[0] == 2
    assert said(run("describe", "pod", "p", "-l", "a=b"))[0] == 2
    assert [method for method, _, _ in gateway.requests] == ["GET"] * 3


def test_who_finds_no_probe_grant_learns_what_counts(run: Run) -> None:
    told = "While there is no ProbeGrant, every report counts, from every user.\n"
    assert said(run("get", "probegrants")) == (0, "", f"No resources found\n{told}")
    assert said(run("get", "probegrants", "-l", "a=b")) == (0, "", "No resources found\n")


def test_describe_goes_through_all_namespaces(gateway: FakeGateway, run: Run) -> None:
    found = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    gateway.put("/api/v1/namespaces/shop", found)
    pod = {"metadata": {"name": "p", "namespace": "shop"}, "spec": {}, "status": {}}
    gateway.put("/api/v1/pods/p", pod)
    gateway.put("/api/v1/namespaces/shop/pods/p", pod)
    code, out, err = said(run("describe", "pods", "-A"))
    assert (code, err) == (0, "")
    assert "Namespace:      shop" in out


@pytest.mark.parametrize("words", [("taint", "node", "-l", "a=b", "k:NoSchedule"), ("cordon", "-l", "a=b")])
def test_a_selector_that_finds_no_node_says_so(run: Run, words: tuple[str, ...]) -> None:
    assert said(run(*words)) == (0, "", "No resources found\n")


def test_a_gateway_that_is_not_ready_is_told_once(gateway: FakeGateway, run: Run) -> None:
    refusal = status(503, "ServiceUnavailable", "the gateway is not ready")
    names = [f"n{number}" for number in range(20)]
    gateway.refuse = {f"GET /api/v1/nodes/{name}": refusal for name in names}
    text = "".join(f"---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}}}\n" for name in names)
    assert said(run("apply", "-f", "-", text=text)) == (
        1,
        "",
        "Error from server (ServiceUnavailable): the gateway is not ready\n",
    )


def test_a_fault_in_yaml_is_told_with_its_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("kind: Node\nmetadata:\n  name: x\n spec: [\n")
    code, _, err = said(run("apply", "-f", str(file)))
    assert code == 1
    assert err == f"error: {file}, document 1: error parsing YAML: line 4, column 2: did not find expected key\n"


def test_addresses_are_not_fetched(run: Run) -> None:
    code, _, err = said(run("apply", "-f", "https://example.org/a.yaml"))
    assert code == 1
    assert err.startswith("error: https://example.org/a.yaml: URLs are not supported")


def test_timers_are_those_that_are_set_the_earliest_first(
    gateway: FakeGateway,
    run: Run,
) -> None:
    for name, deadline in (("late", "2026-01-02T00:00:00Z"), ("early", "2026-01-01T00:00:00Z"), ("off", None)):
        gateway.put(f"{OWN}/timers/{name}", {"metadata": {"name": name}, "status": {"deadline": deadline}})
    assert said(run("get", "timers", "-o", "name"))[1].split() == ["timer.moorage.io/early", "timer.moorage.io/late"]
    out = said(run("describe", "timers"))[1]
    assert [text.split()[-1] for text in out.splitlines() if text.startswith("Name:")] == ["early", "late"]


def test_explain_tells_of_a_pod_that_was_evicted(gateway: FakeGateway, run: Run) -> None:
    missing = {
        "kind": "Status",
        "code": 404,
        "reason": "NotFound",
        "message": 'pods "batch-1" not found',
        "details": {"kind": "pods", "name": "batch-1"},
    }
    gateway.refuse["GET /v1/explain"] = httpx.Response(404, json=missing)
    line = 'Error from server (NotFound): pods "batch-1" not found\n'
    for name, state, node, minute in (
        ("batch-1", "Completed", "b3", 5),
        ("batch-1", "Completed", "b2", 3),
        ("batch-1", "Cancelled", "b4", 7),
        ("batch-2", "Completed", "b5", 9),
    ):
        status = {
            "workload": {"kind": "Pod", "namespace": "shop", "name": name},
            "target": {"kind": "Node", "name": node},
            "state": state,
            "decidedTime": f"2026-01-01T00:0{minute}:00.123456Z",
            "taints": [{"key": "maintenance", "value": "disk", "effect": "NoExecute"}],
        }
        gateway.put(f"{OWN}/namespaces/shop/evictions/{name}:{node}", {"metadata": {"name": node}, "status": status})
    evicted = "It was last evicted from node/b3 at 2026-01-01T00:05:00Z, because of taint maintenance=disk:NoExecute.\n"
    assert said(run("explain", "pod", "shop/batch-1")) == (1, "", line + evicted)
    assert said(run("explain", "pod", "other/batch-1")) == (1, "", line)


def test_the_audit_knows_the_command_line(gateway: FakeGateway) -> None:
    agents = []

    def answer(request: httpx.Request) -> httpx.Response:
        agents.append(request.headers["user-agent"])
        return gateway(request)

    with Client("http://127.0.0.1:1", transport=HttpxTransport(httpx.MockTransport(answer))) as client:
        client.list(find("nodes"), None)
    assert agents == ["moorage-cli"]


def test_the_column_of_topics_is_as_wide_as_asked() -> None:
    seen = Seen(TAINTS, 0, 0, "Node/n1", datetime(2026, 1, 1, tzinfo=UTC), None, None)
    assert line(seen, 11).plain.partition("  ")[2] == "taints       Node/n1 deleted"
    of_east = replace(seen, key="east:Node/n1")
    assert line(of_east, 11).plain.partition("  ")[2].startswith("taints       east: ")


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A broker that belongs to this test's process. Returns the folders whose broker is stopped."""
    folders: list[Path] = []

    async def stop(folder: Path) -> bool:
        folders.append(folder)
        return True

    state = SimpleNamespace(owner=os.getpid())
    monkeypatch.setattr(
        "moorage.cli.commands.kafka.embedded.status", lambda _: SimpleNamespace(running=True, state=state)
    )
    monkeypatch.setattr("moorage.cli.commands.kafka.embedded.stop", stop)
    return folders


def test_kafka_down_leaves_the_kafka_of_up_alone(run: Run, stopped: list[Path], tmp_path: Path) -> None:
    folder = str(tmp_path)
    with runfile.claimed():
        runfile.write(
            runfile.Running(os.getpid(), "http://127.0.0.1:1", "127.0.0.1:1", "moorage", "2026-01-01T00:00:00Z")
        )
        code, _, err = said(run("kafka", "down", "--data-dir", folder))
        assert code == 1
        assert "belongs to `moorage up`" in err
        assert stopped == []
    assert said(run("kafka", "down", "--data-dir", folder))[0] == 0
    assert stopped == [tmp_path]


@pytest.mark.parametrize(
    "line", ["a{n}: &a{n} [{many}]", "a{n}: &a{n} {{<<: [{many}]}}"], ids=["aliases", "merge keys"]
)
def test_a_file_that_grows_by_its_aliases_is_refused_at_once(run: Run, tmp_path: Path, line: str) -> None:
    file = tmp_path / "laughs.yaml"
    lines = [line.format(n=n, many=", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 12)]
    file.write_text("\n".join(["a0: &a0 {k: 1}", *lines]))
    code, out, err = said(run("apply", "-f", str(file)))
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {file}, document 1: error parsing YAML: document contains excessive aliasing\n")
