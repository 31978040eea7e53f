"""Output, errors and exit codes of the command line, with a gateway in memory."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Run, invoke, said, status

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli.api.client import Client, JsonObject

# taint


def test_taint_says_tainted_untainted_modified(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1")
    assert said(run("taint", "node", "n1", "key1=value1:NoExecute")) == (0, "node/n1 tainted\n", "")
    assert gateway.spec("n1") == {"taints": [{"key": "key1", "value": "value1", "effect": "NoExecute"}]}
    assert said(run("taint", "nodes", "n1", "key1=v2:NoExecute", "--overwrite")) == (0, "node/n1 modified\n", "")
    assert said(run("taint", "no", "n1", "key1:NoExecute-", "a:NoSchedule")) == (0, "node/n1 modified\n", "")
    assert said(run("taint", "node/n1", "a-")) == (0, "node/n1 untainted\n", "")
    assert gateway.spec("n1")["taints"] == []


def test_a_taint_that_the_gateway_does_not_apply_is_not_called_tainted(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1")
    path = "/api/v1/nodes/n1"
    warning = '299 - "n:NoExecute is determined by the state of the Node, and was not applied"'
    gateway.refuse[f"PATCH {path}"] = httpx.Response(200, json=gateway.objects[path], headers=[("warning", warning)])
    code, out, err = said(run("taint", "node", "n1", "n:NoExecute"))
    assert (code, out) == (0, "node/n1 unchanged\n")
    assert err == "Warning: n:NoExecute is determined by the state of the Node, and was not applied\n"


def test_a_taint_that_stays_is_not_called_untainted(gateway: FakeGateway, run: Run) -> None:
    state = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    gateway.node("n1", taints=[state, {"key": "a", "effect": "NoSchedule"}])
    path = "/api/v1/nodes/n1"
    why = "node.kubernetes.io/not-ready:NoExecute is determined by the state of the Node, and was not removed"
    told, stays = [("warning", f'299 - "{why}"')], f"Warning: {why}\n"
    gateway.refuse[f"PATCH {path}"] = httpx.Response(200, json=gateway.objects[path], headers=told)
    for spec in ("node.kubernetes.io/not-ready-", "node.kubernetes.io/not-ready:NoExecute-"):
        assert said(run("taint", "node", "n1", spec)) == (0, "node/n1 unchanged\n", stays)
    without = {**gateway.objects[path], "spec": {"taints": [state]}}
    gateway.refuse[f"PATCH {path}"] = httpx.Response(200, json=without, headers=told)
    words = ("taint", "node", "n1", "a-", "node.kubernetes.io/not-ready-")
    assert said(run(*words)) == (0, "node/n1 untainted\n", stays)


def test_taint_takes_off_every_effect_of_a_key(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1", taints=[{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoSchedule"}])
    assert said(run("taint", "node", "n1", "k-")) == (0, "node/n1 untainted\n", "")
    assert gateway.spec("n1")["taints"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("node", "n1", "there:NoExecute"),
            "error: node n1 already has there taint(s) with same effect(s) and --overwrite is false",
        ),
        (("node", "n1", "nix:NoExecute-"), 'error: taint "nix:NoExecute" not found'),
        (("node", "n1", "nix-"), 'error: taint "nix" not found'),
        (("node", "n1", "a=b:Bad"), "error: invalid taint effect: Bad, unsupported taint effect"),
        (("node", "n1", "a=b"), "error: invalid taint spec: a=b"),
        (("node", "n1"), "error: at least one taint update is required"),
        (
            ("node", "n1", "a:NoExecute", "a:NoExecute-"),
            "error: can not both modify and remove the following taint(s) in the same command: ",
        ),
        (("node", "zz", "a:NoExecute"), 'Error from server (NotFound): nodes "zz" not found'),
        (
            ("pod", "x", "a:NoExecute"),
            "error: invalid resource type pod, only node, cluster and managedcluster types are supported",
        ),
        (("node", "n1", f"{'k' * 300}:NoExecute"), "error: invalid taint spec: "),
    ],
)
def test_taint_refuses_in_the_words_of_kubectl(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], message: str
) -> None:
    gateway.node("n1", taints=[{"key": "there", "effect": "NoExecute"}])
    code, out, err = said(run("taint", *words))
    assert (code, out) == (1, "")
    assert err.startswith(message)
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("node", "a:NoExecute"), "error: at least one resource name must be specified"),
        (("node", "n1", "a:NoExecute", "n2"), "error: all resources must be specified before taint changes: n2"),
        (("node", "n1", "a:NoExecute", "--all"), "error: name cannot be provided when --all"),
        (
            ("node", "a:NoExecute", "--all", "-l", "zone=a"),
            "error: setting 'all' parameter with a non empty selector is prohibited",
        ),
    ],
)
def test_taint_with_a_wrong_command_line_ends_with_2(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], message: str
) -> None:
    gateway.node("n1")
    code, _, err = said(run("taint", *words))
    assert code == 2
    assert err.startswith(message)


def test_taint_all_and_one_that_fails(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1", taints=[{"key": "a", "effect": "NoExecute"}])
    gateway.node("n2")
    code, out, err = said(run("taint", "nodes", "--all", "a:NoExecute"))
    assert (code, out) == (1, "node/n2 tainted\n")
    assert "node n1 already has a taint(s)" in err


def test_taint_is_tried_again_when_somebody_else_was_faster(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1")
    interferences = iter([True, True])

    def interfere(_path: str) -> None:
        if next(interferences, False):
            gateway.node("n1", taints=[{"key": "theirs", "effect": "NoSchedule"}])

    gateway.before_patch = interfere
    assert said(run("taint", "node", "n1", "mine:NoExecute")) == (0, "node/n1 tainted\n", "")
    assert {taint["key"] for taint in gateway.spec("n1")["taints"]} == {"theirs", "mine"}


# cordon


def test_cordon_and_uncordon(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1")
    assert said(run("cordon", "n1")) == (0, "node/n1 cordoned\n", "")
    assert gateway.spec("n1") == {"unschedulable": True}
    assert said(run("cordon", "node/n1")) == (0, "node/n1 already cordoned\n", "")
    assert said(run("uncordon", "n1")) == (0, "node/n1 uncordoned\n", "")
    assert said(run("uncordon", "n1")) == (0, "node/n1 already uncordoned\n", "")
    assert said(run("cordon", "n2"))[0] == 1
    assert said(run("cordon"))[0] == 2


def test_a_line_of_oc_adm_can_be_copied(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1")
    assert said(run("adm", "taint", "nodes", "n1", "key1=value1:NoSchedule")) == (0, "node/n1 tainted\n", "")
    assert gateway.spec("n1") == {"taints": [{"key": "key1", "value": "value1", "effect": "NoSchedule"}]}
    assert said(run("adm", "taint", "nodes", "n1", "key1-")) == (0, "node/n1 untainted\n", "")
    assert said(run("adm", "cordon", "n1")) == (0, "node/n1 cordoned\n", "")
    assert said(run("adm", "uncordon", "n1")) == (0, "node/n1 uncordoned\n", "")
    assert said(run("adm", "taint", "nodes", "n1", "a=b")) == said(run("taint", "nodes", "n1", "a=b"))
    assert said(run("adm", "taint", "nodes", "n1", "--server", "http://x"))[0] == 1
    assert said(run("adm", "upgrade", "n1"))[0] == 2  # there is no such command


def test_cordon_takes_the_kind_as_a_word_of_its_own(gateway: FakeGateway, run: Run) -> None:
    for name in ("n1", "n2", "cluster"):
        gateway.node(name)
    assert said(run("cordon", "node", "n1", "n2")) == (0, "node/n1 cordoned\nnode/n2 cordoned\n", "")
    assert said(run("uncordon", "nodes", "n1")) == (0, "node/n1 uncordoned\n", "")
    assert said(run("cordon", "n1", "n2")) == (0, "node/n1 cordoned\nnode/n2 already cordoned\n", "")
    assert said(run("cordon", "cluster")) == (0, "node/cluster cordoned\n", "")  # a name, as nothing follows
    assert said(run("cordon", "node", "cluster")) == (0, "node/cluster already cordoned\n", "")
    assert said(run("uncordon", "nodes", "-l", "a=b"))[1].count("uncordoned") == 3
    code, out, err = said(run("cordon", "node", "n1", "-l", "a=b"))
    assert (code, out, err) == (2, "", "error: name cannot be provided when --all or a selector is specified\n")


# apply and delete

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
}


def test_apply_says_created_unchanged_configured_and_orders_by_kind(
    gateway: FakeGateway, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(yaml.dump_all([POD, NODE]))
    assert said(run("apply", "-f", str(file))) == (0, "node/n1 created\npod/p created\n", "")
    assert said(run("apply", "-f", str(tmp_path))) == (0, "node/n1 unchanged\npod/p unchanged\n", "")
    file.write_text(yaml.dump_all([{**POD, "metadata": {"name": "p", "labels": {"app": "x"}}}, NODE]))
    assert said(run("apply", "-f", str(file))) == (0, "node/n1 unchanged\npod/p configured\n", "")
    assert gateway.objects["/api/v1/namespaces/default/pods/p"]["metadata"]["labels"] == {"app": "x"}


def test_the_taints_of_a_file_are_one_list_and_those_of_the_state_stay(gateway: FakeGateway, run: Run) -> None:
    run("apply", "-f", "-", text=yaml.dump(NODE))
    gateway.spec("n1")["taints"].append({"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"})
    assert said(run("apply", "-f", "-", text=yaml.dump(NODE))) == (0, "node/n1 unchanged\n", "")
    result = run(
        "apply", "-f", "-", text=yaml.dump({**NODE, "spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}})
    )
    assert said(result) == (0, "node/n1 configured\n", "")
    assert [taint["key"] for taint in gateway.spec("n1")["taints"]] == ["b", "node.kubernetes.io/not-ready"]
    assert said(run("taint", "node", "n1", "c:NoExecute")) == (0, "node/n1 tainted\n", "")
    assert said(run("apply", "-f", "-", text=yaml.dump({**NODE, "spec": {}})))[1] == "node/n1 configured\n"
    assert [taint["key"] for taint in gateway.spec("n1")["taints"]] == ["node.kubernetes.io/not-ready"]


def test_apply_takes_out_of_a_list_what_somebody_else_has_put_in(gateway: FakeGateway, run: Run) -> None:
    api = {"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement", "metadata": {"name": "p"}}
    file = yaml.dump({**api, "spec": {"clusterSets": ["a"], "tolerations": []}})
    run("apply", "-f", "-", text=file)
    (path,) = gateway.objects
    gateway.put(path, {**gateway.objects[path], "spec": {"clusterSets": ["a", "b"], "tolerations": [{"key": "k"}]}})
    assert said(run("apply", "-f", "-", text=file)) == (
        0,
        "placement.cluster.open-cluster-management.io/p configured\n",
        "",
    )
    assert gateway.objects[path]["spec"] == {"clusterSets": ["a"], "tolerations": []}
    assert said(run("apply", "-f", "-", text=file))[1].endswith("/p unchanged\n")


def test_apply_names_what_it_refuses_and_applies_the_rest(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "mixed.yaml"
    widget = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}}
    file.write_text(yaml.dump_all([widget, NODE, {"kind": "Pod"}, ["no object"]]) + "---\n: bad: [\n")
    code, out, err = said(run("apply", "-f", str(file)))
    assert (code, out) == (1, "node/n1 created\n")
    lines = err.splitlines()
    assert (
        lines[0] == f'error: {file}, document 1: no matches for kind "Widget" in version "example.org/v1" (object "w")'
    )
    assert lines[1] == f"error: {file}, document 3: apiVersion not set"
    assert lines[2].startswith(f"error: {file}, document 4: invalid value")
    assert lines[3].startswith(f"error: {file}, document 5: error parsing YAML: ")
    assert len(lines) == 4
    assert gateway.spec("n1")["taints"] == NODE["spec"]["taints"]  # type: ignore[index]  # a literal of mixed values


def test_apply_tells_what_the_server_refuses_with_file_and_document(gateway: FakeGateway, run: Run) -> None:
    gateway.refuse["PATCH /api/v1/namespaces/default/pods/p"] = status(
        422, "Invalid", 'Pod "p" is invalid: spec.tolerations[0].operator: Invalid value: "x": must be Equal or Exists'
    )
    code, out, err = said(run("apply", "-f", "-", text=yaml.dump_all([NODE, POD])))
    assert (code, out) == (1, "node/n1 created\n")
    assert err.startswith('error when applying standard input, document 2: The Pod "p" is invalid: spec.tolerations[0]')


def test_apply_without_a_file_or_with_one_that_is_not_there(run: Run, tmp_path: Path) -> None:
    assert said(run("apply"))[0] == 2
    assert said(run("apply", "-f", str(tmp_path / "nix.yaml")))[0] == 1
    assert "does not exist" in said(run("apply", "-f", str(tmp_path / "nix.yaml")))[2]
    assert said(run("apply", "-f", str(tmp_path)))[0] == 1  # a folder without manifests


def test_apply_in_a_namespace_and_as_json(gateway: FakeGateway, run: Run) -> None:
    code, out, _ = said(run("apply", "-f", "-", "-n", "shop", "-o", "json", text=yaml.dump(POD)))
    assert code == 0
    assert json.loads(out)["metadata"]["namespace"] == "shop"
    assert "/api/v1/namespaces/shop/pods/p" in gateway.objects


def test_delete_by_name_by_file_and_what_is_not_there(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1")
    gateway.node("n2")
    assert said(run("delete", "node", "n1")) == (0, 'node "n1" deleted\n', "")
    assert said(run("delete", "node/n1")) == (1, "", 'Error from server (NotFound): nodes "n1" not found\n')
    assert said(run("delete", "node", "n1", "--ignore-not-found")) == (0, "", "")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}}
    assert said(run("delete", "-f", "-", text=yaml.dump(node))) == (0, 'node "n2" deleted\n', "")
    assert said(run("delete", "nodes"))[0] == 2
    assert said(run("delete", "evictions", "x"))[0] == 1
    assert gateway.objects == {}


def test_delete_by_file_takes_only_what_has_the_labels(gateway: FakeGateway, run: Run) -> None:
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": zone}}}
        for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "a"))
    ]
    file = yaml.dump_all([*nodes, POD])
    run("apply", "-f", "-", text=file)
    assert said(run("delete", "-f", "-", "-l", "zone in (a,c),zone", text=file)) == (
        0,
        'node "n3" deleted\nnode "n1" deleted\n',
        "",
    )
    assert sorted(gateway.objects) == ["/api/v1/namespaces/default/pods/p", "/api/v1/nodes/n2"]
    assert said(run("delete", "-f", "-", "-l", "zone=c", text=file)) == (0, "", "No resources found\n")
    code, out, err = said(run("delete", "-f", "-", "-l", "zone=(", text=file))
    assert (code, out) == (2, "")
    assert err.startswith("error: unable to parse requirement: found '('")
    assert len(gateway.objects) == 2


@pytest.mark.parametrize("words", [("delete", "nodes"), ("label", "nodes", "a=b")])
def test_all_and_labels_are_one_too_many(gateway: FakeGateway, run: Run, words: tuple[str, ...]) -> None:
    gateway.node("n1")
    code, out, err = said(run(*words, "--all", "-l", "zone=a"))
    assert (code, out, err) == (2, "", "error: setting 'all' parameter with a non empty selector is prohibited\n")
    assert said(run("delete", "--all", "-f", "-", text=yaml.dump(NODE)))[0] == 2
    assert list(gateway.objects) == ["/api/v1/nodes/n1"]


# get


def test_get_as_table_json_yaml_name(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1", taints=[{"key": "a", "value": "b", "effect": "NoExecute"}], unschedulable=True)
    gateway.objects["/api/v1/nodes/n1"]["status"] = {"conditions": [{"type": "Ready", "status": "False"}]}
    code, out, _ = said(run("get", "nodes"))
    assert code == 0
    head, row = out.splitlines()
    assert head.split() == ["NAME", "STATUS", "ROLES", "AGE", "TAINTS"]
    assert row.split() == ["n1", "NotReady,SchedulingDisabled", "<none>", "<unknown>", "a=b:NoExecute"]
    assert json.loads(said(run("get", "no", "n1", "-o", "json"))[1])["kind"] == "Node"
    assert json.loads(said(run("get", "node", "-o", "json"))[1])["kind"] == "List"
    gateway.objects["/api/v1/nodes/n1"]["metadata"]["managedFields"] = [{"manager": "ann"}]
    assert yaml.safe_load(said(run("get", "node/n1", "-o", "yaml"))[1])["metadata"]["name"] == "n1"
    for words in (("node/n1", "-o", "yaml"), ("nodes", "-o", "json")):
        assert "managedFields" not in said(run("get", *words))[1]
    assert said(run("get", "Node", "-o", "name"))[1] == "node/n1\n"
    assert "ALL-TAINTS" in said(run("get", "node", "-o", "wide"))[1]


@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        ([], "Unreported"),
        ([{"type": "DiskPressure", "status": "True"}], "Unreported"),
        ([{"type": "Ready", "status": "True"}], "Ready"),
        ([{"type": "Ready", "status": "False"}], "NotReady"),
        ([{"type": "Ready", "status": "Unknown"}], "Unknown"),
    ],
)
def test_a_node_is_unknown_only_when_its_source_fell_silent(
    gateway: FakeGateway, run: Run, conditions: list[dict[str, str]], word: str
) -> None:
    gateway.node("n1")
    gateway.objects["/api/v1/nodes/n1"]["status"] = {"conditions": conditions}
    assert said(run("get", "nodes", "--no-headers"))[1].split()[1] == word
    explained = f"{word}: no probe has reported Ready, so it counts as ready" if word == "Unreported" else word
    assert re.search(rf"^Status: +{explained}$", said(run("describe", "node", "n1"))[1], re.MULTILINE)


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Pending"}, ["0/1", "Pending"]),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}, ["0/1", "Pending"]),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}, ["0/1", "Scheduled"]),
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, ["1/1", "Running"]),
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}, ["0/1", "Running"]),
        ({"phase": "Unknown", "conditions": [{"type": "Ready", "status": "Unknown"}]}, ["0/1", "Unknown"]),
    ],
)
def test_a_pod_is_shown_as_far_as_it_is_known(
    gateway: FakeGateway, run: Run, status: dict[str, object], shown: list[str]
) -> None:
    gateway.put("/api/v1/namespaces/default/pods/p", {**POD, "status": status})
    assert said(run("get", "pods", "--no-headers"))[1].split()[1:3] == shown
    told = said(run("describe", "pod", "p"))[1]
    assert ("no deployer has reported it since" in told) is (shown[1] == "Scheduled")


def test_get_several_kinds_and_what_is_not_there(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1")
    gateway.put("/api/v1/namespaces/default/pods/p", {**POD, "status": {"phase": "Pending"}})
    code, out, _ = said(run("get", "nodes,pods"))
    assert code == 0
    assert "node/n1" in out
    assert "pod/p" in out
    assert said(run("get", "pod", "p", "nix")) == (
        1,
        "NAME   READY   STATUS    NODE     AGE\np      0/1     Pending   <none>   <unknown>\n",
        'Error from server (NotFound): pods "nix" not found\n',
    )
    assert run("get", "pod", "nix", "p").output.splitlines()[-1].startswith("Error from server (NotFound)")
    assert said(run("get", "deploy", "-A")) == (0, "", "No resources found\n")
    assert said(run("get", "deploy")) == (0, "", "No resources found in default namespace.\n")
    assert said(run("get", "widgets")) == (1, "", 'error: the server doesn\'t have a resource type "widgets"\n')
    wrong = "error: the server doesn't have a resource type"
    for word, meant in (
        ("nods", "nodes"),
        ("deploymets.apps/web", "deployments"),
        ("deployments.app", "deployments.apps"),
    ):
        named = word.partition("/")[0]
        assert said(run("get", word)) == (1, "", f'{wrong} "{named}"; did you mean "{meant}"?\n')
    assert said(run("get"))[0] == 2
    assert said(run("get", "node", "n1", "-l", "a=b"))[0] == 2


def test_get_shows_decisions_of_the_services(gateway: FakeGateway, run: Run) -> None:
    found = {
        "apiVersion": "moorage.io/v1alpha1",
        "kind": "Eviction",
        "metadata": {"name": "p:node.n1:1", "namespace": "default"},
        "status": {
            "workload": {"kind": "Pod", "namespace": "default", "name": "p"},
            "target": {"kind": "Node", "name": "n1"},
            "state": "Scheduled",
            "deadline": "2099-01-01T00:00:00Z",
        },
    }
    gateway.put("/apis/moorage.io/v1alpha1/namespaces/default/evictions/p:node.n1:1", found)
    _, out, _ = said(run("get", "evictions"))
    assert out.splitlines()[0].split() == [
        "NAME",
        "WORKLOAD",
        "TARGET",
        "STATE",
        "DUE",
        "HELD-BY",
        "ACKNOWLEDGED",
        "AGE",
    ]
    assert out.splitlines()[1].split()[1:5] == ["pod/p", "node/n1", "Scheduled", "in"]


# report


def test_report_hands_in_cloud_events(gateway: FakeGateway, run: Run) -> None:
    result = run(
        "report", "node/n1", "Ready=False", "DiskPressure=true", "--reason", "Why", "--at", "2026-01-01T00:00:00Z"
    )
    assert said(result) == (0, "node/n1 reported Ready=False\nnode/n1 reported DiskPressure=True\n", "")
    first = gateway.events[0]
    assert first["type"] == "io.moorage.condition.reported.v1"
    assert first["data"]["target"] == {"kind": "Node", "name": "n1"}
    assert first["data"]["reason"] == "Why"
    assert first["data"]["observedTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("node/n1", "Ready=Maybe"), 2, "error: status: invalid value 'Maybe': must be 'True', 'False' or 'Unknown'"),
        (("node/n1", "Ready"), 2, "error: invalid condition 'Ready': must be TYPE=STATUS"),
        (("n1", "Ready=True"), 2, "error: invalid target 'n1': must be KIND/NAME"),
        (("pod/n1", "Ready=True"), 1, "error: invalid resource type pod: only targets, such as nodes, have conditions"),
        (("node/n1", "Ready=True", "--at", "soon"), 2, "error: invalid time 'soon'"),
        (("node/n1",), 2, "Usage"),
    ],
)
def test_report_refuses_before_it_asks_the_server(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], code: int, message: str
) -> None:
    found, out, err = said(run("report", *words))
    assert (found, out) == (code, "")
    assert err.strip().startswith(message)
    assert gateway.requests == []


def test_report_tells_which_of_a_batch_were_refused(gateway: FakeGateway, run: Run) -> None:
    refusal = {"kind": "Status", "code": 404, "reason": "UnknownTarget", "message": "target: invalid value"}
    outcome = {"kind": "ReportOutcomeList", "items": [{"index": 0}, {"index": 1, "status": refusal}]}
    gateway.refuse["POST /v1/conditions"] = httpx.Response(207, json=outcome)
    assert said(run("report", "node/n1", "A=True", "B=True")) == (
        1,
        "node/n1 reported A=True\n",
        "Error from server (UnknownTarget): target: invalid value\n",
    )


# around the commands


def test_nobody_at_the_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path))
    code, _, err = said(invoke("get", "nodes", "--server", "http://127.0.0.1:9"))
    assert code == 1
    assert err.startswith("error: the gateway at http://127.0.0.1:9 does not answer (Connection refused).\n")
    assert "moorage up" in err
    assert said(invoke("--server", "http://[bad", "get", "nodes"))[0] == 1


def test_status_and_doctor_have_the_same_words_for_a_gateway_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MOORAGE_STATE_DIR", str(tmp_path))
    found = []
    for command in ("status", "doctor"):
        code, out, _ = said(invoke("--server", "http://127.0.0.1:9", command, "-o", "json"))
        assert code == 1
        found += [one for one in json.loads(out)["findings"] if one["check"] == "gateway"]
    assert (
        found
        == [
            {
                "level": "error",
                "check": "gateway",
                "message": "the gateway at http://127.0.0.1:9 does not answer (Connection refused)",
                "remedy": "Start one with `moorage up` or `moorage run gateway`, or name another with --server or "
                "MOORAGE_SERVER",
            }
        ]
        * 2
    )


def test_something_else_at_the_address(gateway: FakeGateway, run: Run) -> None:
    gateway.refuse["GET /api/v1/nodes"] = httpx.Response(200, text="<html>hello</html>")
    code, _, err = said(run("get", "nodes"))
    assert code == 1
    assert "is not a gateway of Moorage" in err


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, gateway: FakeGateway, run: Run) -> None:
    monkeypatch.delenv("MOORAGE_SERVER")
    monkeypatch.setenv("MOORAGE_GATEWAY_PORT", "many")
    code, _, err = said(run("get", "nodes"))
    assert code == 2
    assert err.startswith("error: MOORAGE_GATEWAY_PORT: invalid value 'many'")
    assert gateway.requests == []


def test_a_misspelt_variable_is_warned_of_and_no_error(
    monkeypatch: pytest.MonkeyPatch, gateway: FakeGateway, run: Run
) -> None:
    gateway.node("n1")
    nothing = "QUUX"
    monkeypatch.setenv("MOORAGE_GATWAY_PORT", "1")
    monkeypatch.setenv(f"MOORAGE_{nothing}", "1")
    code, out, err = said(run("get", "nodes", "-o", "name"))
    assert (code, out) == (0, "node/n1\n")
    without = "is not known and has no effect"
    assert err.splitlines() == [
        f"Warning: the environment variable MOORAGE_GATWAY_PORT {without}; did you mean MOORAGE_GATEWAY_PORT?",
        f"Warning: the environment variable MOORAGE_{nothing} {without}.",
    ]
    _, _, err = said(run("run", "nonsense"))
    assert f"MOORAGE_{nothing}" not in err  # a service logs it


def test_a_service_logs_a_misspelt_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **_given: object) -> int:
        return 0

    monkeypatch.setattr("moorage.cli.commands.run.run_services", nothing)
    monkeypatch.setenv("MOORAGE_GATWAY_PORT", "1")
    monkeypatch.setenv("MOORAGE_LOG_FORMAT", "json")
    assert said(invoke("run", "timer"))[0] == 1  # no Kafka is known
    monkeypatch.setenv("MOORAGE_BOOTSTRAP_SERVERS", "127.0.0.1:9")
    result = invoke("run", "timer")
    assert result.exit_code == 0
    (line,) = [json.loads(text) for text in result.stderr.splitlines()]
    assert (line["event"], line["level"]) == ("environment.unknown", "warning")
    assert (line["variable"], line["nearest"]) == ("MOORAGE_GATWAY_PORT", "MOORAGE_GATEWAY_PORT")


@pytest.mark.parametrize("words", [("watch",), ("topics", "list"), ("run", "timer")])
def test_without_a_kafka_it_says_how_to_get_one(gateway: FakeGateway, run: Run, words: tuple[str, ...]) -> None:
    code, _, err = said(run(*words))
    assert code == 1
    assert "the address of Kafka is not known" in err
    assert "moorage up" in err
    assert gateway.requests == []


def test_unknown_words_end_with_2(run: Run) -> None:
    assert said(run("frobnicate"))[0] == 2
    assert said(run("get", "nodes", "-o", "toml"))[0] == 2
    assert said(run("watch", "nonsense"))[0] == 2
    assert said(run("run", "nonsense"))[0] == 2
    assert "service 'nonsense' does not exist" in said(run("run", "nonsense"))[2]
    assert said(run("watch", "--since", "yesterday"))[0] == 2


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (("gte", "nodes"), "No such command 'gte'. Did you mean 'get'?"),
        (("descirbe", "node", "n1"), "No such command 'descirbe'. Did you mean 'describe'?"),
        (("kafka", "stauts"), "No such command 'stauts'. Did you mean 'status'?"),
        (("get", "nodes", "--namespce", "a"), "No such option: --namespce. Did you mean '--namespace'"),
        (("--servre", "a", "get", "nodes"), "No such option: --servre. Did you mean '--server'?"),
        (("up", "--gateway-prot", "1"), "No such option: --gateway-prot. Did you mean '--gateway-port'"),
        (("kafka", "up", "--prot", "1"), "No such option: --prot. Did you mean '--port'?"),
    ],
)
def test_what_is_mistyped_gets_a_suggestion(run: Run, words: tuple[str, ...], suggestion: str) -> None:
    code, out, err = said(run(*words))
    assert (code, out) == (2, "")
    assert suggestion in " ".join(err.replace("│", " ").split())


def test_what_is_like_nothing_gets_none(run: Run) -> None:
    assert "Did you mean" not in said(run("qqqq"))[2]
    assert "Did you mean" not in said(run("get", "--qqqq"))[2]


def test_eval_answers_each_line_and_goes_on(run: Run) -> None:
    ask = '{"op":"tolerates","id":7,"toleration":{"operator":"Exists"},"taint":{"key":"a","effect":"NoExecute"}}'
    code, out, _ = said(run("eval", text=f'{ask}\nnot json\n\n[]\n{{"op":"simulate","id":8}}\n{ask}'))
    assert code == 0
    first, bad, wrong, missing, last = [json.loads(line) for line in out.splitlines()]
    assert first == last == {"id": 7, "tolerates": True}
    assert "not JSON" in bad["error"]
    assert "error" in wrong
    assert missing["id"] == 8
    assert "error" in missing
    assert said(run("eval", "--as", "nonsense"))[0] == 2


def test_help_imports_neither_kafka_nor_models() -> None:
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom moorage.cli.app import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "print([name for name in ('aiokafka', 'pydantic', 'httpx', 'faststream') if name in sys.modules])"
    )
    import subprocess  # noqa: PLC0415 - only this test starts a program

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_person_ends_a_watch_without_an_error(
    gateway: FakeGateway, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.node("n1")

    def interrupted(*_: object, **__: object) -> Iterator[tuple[str, JsonObject]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "watch", interrupted)
    code, out, err = said(run("get", "nodes", "-w", "-o", "name"))
    assert (code, out, err) == (0, "node/n1\n", "")


def test_one_object_is_watched_from_the_present_on(
    gateway: FakeGateway, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The object's version may be older than any change that the server still has."""
    for name in ("n1", "n2", "n3"):
        gateway.node(name)
    asked: list[tuple[str, str]] = []

    def watched(
        _: Client, kind: ServedKind, *given: object, name: str, **__: object
    ) -> Iterator[tuple[str, JsonObject]]:
        asked.append((str(given[-1]), name))
        yield "DELETED", {"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": name}}
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "watch", watched)
    assert said(run("get", "node", "n1", "-w", "-o", "name")) == (0, "node/n1\nnode/n1\n", "")
    assert asked == [("3", "n1")]
    missing = said(run("get", "node", "n4", "-w"))
    assert missing == (1, "", 'Error from server (NotFound): nodes "n4" not found\n')
    assert len(asked) == 1
