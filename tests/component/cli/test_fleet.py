"""Clusters, zones, budgets and machine sets on the command line, with a gateway in memory."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Object, Run, said, status
from tests.support.tables import table

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli.api import client
from moorage.cli.api.kinds import all_kinds, find
from moorage.cli.commands.pause import parse_scope
from moorage.cli.errors import CliError
from moorage.cli.render.output import columns_of, row
from moorage.decide.disruption.object_names import pause_name

OWN = "/apis/moorage.io/v1alpha1"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
MACHINES = "/apis/machine.openshift.io/v1beta1/namespaces/machines/machinesets"


def cluster(gateway: FakeGateway, name: str, **spec: Any) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    gateway.put(
        f"{CLUSTERS}/{name}",
        {"kind": "Cluster", "metadata": {"name": name}, "spec": spec, "status": {"conditions": conditions}},
    )


def cluster_taints(gateway: FakeGateway, name: str) -> list[Object]:
    found: list[Object] = gateway.objects[f"{CLUSTERS}/{name}"]["spec"].get("taints", [])
    return found


def machine_set(gateway: FakeGateway, name: str, replicas: int) -> None:
    spec = {
        "replicas": replicas,
        "template": {"spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}},
    }
    metadata = {"name": name, "namespace": "machines", "uid": "u1"}
    found = {"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": metadata, "spec": spec}
    gateway.put(f"{MACHINES}/{name}", found)


# taint and cordon


def test_clusters_are_tainted_with_the_effects_of_their_dialect(gateway: FakeGateway, run: Run) -> None:
    cluster(gateway, "m1")
    assert said(run("taint", "clusters", "m1", "k=v:NoExecute")) == (0, "cluster/m1 tainted\n", "")
    assert cluster_taints(gateway, "m1") == [{"key": "k", "value": "v", "effect": "NoExecute"}]
    assert said(run("taint", "cluster/m1", "k:NoExecute-")) == (0, "cluster/m1 untainted\n", "")
    code, _, err = said(run("taint", "cluster", "m1", "k:PreferNoSchedule"))
    assert (code, err) == (1, "error: invalid taint effect: PreferNoSchedule, unsupported taint effect\n")
    assert said(run("taint", "cluster/m1", "node/n1", "k:NoExecute"))[0] == 2


def test_a_taint_that_is_there_is_told_of_the_cluster(gateway: FakeGateway, run: Run) -> None:
    cluster(gateway, "m1", taints=[{"key": "k", "effect": "NoSchedule"}])
    err = said(run("taint", "cluster", "m1", "k:NoSchedule"))[2]
    assert err == "error: cluster m1 already has k taint(s) with same effect(s) and --overwrite is false\n"


def test_cordon_of_a_cluster_is_a_taint(gateway: FakeGateway, run: Run) -> None:
    cluster(gateway, "m1", taints=[{"key": "k", "effect": "NoSchedule"}])
    gateway.node("n1")
    assert said(run("cordon", "cluster/m1")) == (0, "cluster/m1 cordoned\n", "")
    assert cluster_taints(gateway, "m1")[1] == {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}
    assert said(run("cordon", "clusters/m1", "n1")) == (0, "cluster/m1 already cordoned\nnode/n1 cordoned\n", "")
    assert said(run("uncordon", "cluster", "m1")) == (0, "cluster/m1 uncordoned\n", "")
    assert said(run("cordon", "clusters", "-l", "region=eu")) == (0, "cluster/m1 cordoned\n", "")
    assert said(run("uncordon", "cluster/m1")) == (0, "cluster/m1 uncordoned\n", "")
    assert said(run("cordon", "cluster", "rome"))[2].endswith('clusters "rome" not found\n')
    assert said(run("uncordon", "cluster/m1")) == (0, "cluster/m1 already uncordoned\n", "")
    assert [one["key"] for one in cluster_taints(gateway, "m1")] == ["k"]


# scale


@pytest.mark.parametrize(
    "words",
    [
        ("--replicas=0", "machineset", "ms", "-n", "machines"),
        ("machineset", "ms", "--replicas", "0", "-n", "machines"),
        ("machinesets.machine.openshift.io/ms", "--replicas=0", "--namespace=machines"),
        ("--replicas=0", "ms/ms", "-n", "machines"),
    ],
)
def test_scale_takes_its_words_in_any_order(gateway: FakeGateway, run: Run, words: tuple[str, ...]) -> None:
    machine_set(gateway, "ms", 2)
    assert said(run("scale", *words)) == (0, "machineset.machine.openshift.io/ms scaled\n", "")
    assert gateway.objects[f"{MACHINES}/ms"]["spec"]["replicas"] == 0
    assert gateway.objects[f"{MACHINES}/ms"]["spec"]["template"]
    assert gateway.requests[-1][1] == f"{MACHINES}/ms/scale"


def test_scale_says_what_is_wrong(gateway: FakeGateway, run: Run) -> None:
    machine_set(gateway, "ms", 2)
    assert said(run("scale", "--replicas=1", "ms", "nix", "-n", "machines"))[0] == 1
    assert said(run("scale", "ms", "ms", "-n", "machines"))[0] == 2
    assert said(run("scale", "--replicas=-1", "ms", "ms", "-n", "machines"))[0] == 2
    assert said(run("scale", "--replicas=1", "ms"))[0] == 2
    assert gateway.objects[f"{MACHINES}/ms"]["spec"]["replicas"] == 2


# edit


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *scripts: str) -> Path:
    """Let KUBE_EDITOR run one Python script after another on `text`. Returns the folder with the texts that it saw."""
    seen = tmp_path / "seen"
    seen.mkdir()
    program = tmp_path / "editor.py"
    program.write_text(
        "import pathlib, sys\n"
        f"scripts, seen = {scripts!r}, pathlib.Path({str(seen)!r})\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "turn = len(list(seen.iterdir()))\n"
        "text = file.read_text()\n"
        "(seen / str(turn)).write_text(text)\n"
        "scope = {'text': text}\n"
        "exec(scripts[turn], scope)\n"
        "file.write_text(scope['text'])\n"
    )
    import sys  # noqa: PLC0415 - only to name the program

    monkeypatch.setenv("KUBE_EDITOR", f"{sys.executable} {program}")
    return seen


def test_edit_sends_what_was_changed(
    gateway: FakeGateway, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_set(gateway, "ms", 2)
    seen = editor(tmp_path, monkeypatch, "text = text.replace('key: a', 'key: other')")
    assert said(run("edit", "machineset", "ms", "-n", "machines")) == (
        0,
        "machineset.machine.openshift.io/ms edited\n",
        "",
    )
    spec = gateway.objects[f"{MACHINES}/ms"]["spec"]
    assert spec["template"]["spec"]["taints"] == [{"key": "other", "value": "b", "effect": "NoSchedule"}]
    assert gateway.requests[-1][2]["spec"] == {"template": {"spec": {"taints": spec["template"]["spec"]["taints"]}}}
    assert (seen / "0").read_text().startswith("#")


def test_edit_without_a_change_does_nothing(
    gateway: FakeGateway, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_set(gateway, "ms", 2)
    editor(tmp_path, monkeypatch, "pass", "text = '# gone'")
    words = ("edit", "machineset/ms", "-n", "machines")
    assert said(run(*words)) == (0, "", "Edit cancelled, no changes made.\n")
    assert said(run(*words)) == (0, "", "Edit cancelled, saved file was empty.\n")
    assert [method for method, _, _ in gateway.requests] == ["GET", "GET"]


def test_edit_opens_again_when_the_change_is_refused(
    gateway: FakeGateway, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_set(gateway, "ms", 2)
    path = f"PATCH {MACHINES}/ms"
    gateway.refuse[path] = status(422, "Invalid", 'MachineSet "ms" is invalid: spec.replicas: Invalid value: -1')
    seen = editor(
        tmp_path,
        monkeypatch,
        "text = text.replace('replicas: 2', 'replicas: -1')",
        "text = text.replace('replicas: -1', 'replicas: [')",
        "text = text.replace('name: ms', 'name: other')",
        "pass",
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    code, _, err = said(run("edit", "machineset", "ms", "-n", "machines"))
    assert code == 1
    assert "Edit cancelled, no valid changes were saved." in err
    texts = [(seen / str(turn)).read_text() for turn in range(4)]
    assert "# machineset.machine.openshift.io/ms was not saved: The MachineSet" in texts[1]
    assert "spec.replicas: Invalid value: -1" in texts[1]
    assert "replicas: -1" in texts[1]  # what the user wrote is still there
    assert "error parsing YAML: line" in texts[2]
    kept = re.search(r"A copy of your changes is in (\S+)", err)
    assert kept is not None
    assert "name: other" in Path(kept[1]).read_text()
    Path(kept[1]).unlink()


def test_edit_of_what_others_change_meanwhile(
    gateway: FakeGateway, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.node("n1", unschedulable=True)
    editor(tmp_path, monkeypatch, "text = text.replace('spec:', 'spec:\\n  podCIDR: 10.0.0.0/24')")
    interferences = iter([True])

    def interfere(_path: str) -> None:
        if next(interferences, False):
            gateway.node("n1", unschedulable=True, taints=[{"key": "theirs", "effect": "NoSchedule"}])

    gateway.before_patch = interfere
    assert said(run("edit", "node", "n1")) == (0, "node/n1 edited\n", "")
    assert gateway.spec("n1")["podCIDR"] == "10.0.0.0/24"
    assert gateway.spec("n1")["taints"] == [{"key": "theirs", "effect": "NoSchedule"}]


def test_edit_refuses_what_cannot_be_edited(run: Run, monkeypatch: pytest.MonkeyPatch, gateway: FakeGateway) -> None:
    assert said(run("edit", "evictions", "x"))[0] == 1
    assert said(run("edit", "nodes"))[0] == 2
    gateway.node("n1")
    monkeypatch.setenv("KUBE_EDITOR", "/nix/editor")
    code, _, err = said(run("edit", "node", "n1"))
    assert code == 1
    assert err.startswith("error: unable to launch the editor '/nix/editor'")


# pause and resume


def test_pause_and_resume_of_the_fleet(gateway: FakeGateway, run: Run) -> None:
    called = "evictionpause.moorage.io/all"
    assert said(run("resume", "evictions")) == (0, "evictions of the whole fleet are not paused\n", "")
    assert said(run("pause", "evictions", "--reason", "storm")) == (
        0,
        f"evictions of the whole fleet paused ({called})\n",
        "",
    )
    assert gateway.objects[f"{OWN}/evictionpauses/all"]["spec"] == {"scope": {}, "reason": "storm"}
    assert said(run("pause", "evictions"))[1] == f"evictions of the whole fleet are already paused ({called})\n"
    said_again = said(run("pause", "evictions", "--reason", "still"))
    assert (
        said_again[1] == f"evictions of the whole fleet were already paused; the reason has been changed ({called})\n"
    )
    assert gateway.objects[f"{OWN}/evictionpauses/all"]["spec"]["reason"] == "still"
    out = said(run("get", "evictionpauses"))[1].splitlines()
    assert [line.split() for line in out] == [
        ["NAME", "SCOPE", "HELD", "REASON", "AGE"],
        ["all", "<all>", "0", "still", "<unknown>"],
    ]
    assert said(run("resume", "evictions")) == (0, f"evictions of the whole fleet resumed ({called})\n", "")
    assert gateway.objects == {}


def test_pauses_of_parts_are_kept_apart(gateway: FakeGateway, run: Run) -> None:
    run("pause", "evictions", "--scope", "zone=eu.eu-1")  # as the API calls it
    run("pause", "evictions", "--scope", "workload=deploy/shop/web", "--scope", "namespace=shop")
    specs = [one["spec"]["scope"] for one in gateway.objects.values()]
    assert specs == [{"zones": ["eu/eu-1"]}, {"namespaces": ["shop"], "workloads": ["Deployment/shop/web"]}]
    code, out, _ = said(run("resume", "evictions"))
    assert (code, out.splitlines()[0]) == (0, "evictions of the whole fleet are not paused")
    assert "still paused: namespace shop and workload Deployment/shop/web, zone eu/eu-1" in out
    assert said(run("resume", "evictions", "--scope", "zone=eu/eu-1"))[0] == 0
    assert len(gateway.objects) == 1
    assert said(run("resume", "evictions", "--all"))[0] == 0
    assert gateway.objects == {}
    assert said(run("resume", "evictions", "--all"))[1] == "evictions are not paused\n"


def test_a_pause_by_another_name_counts(gateway: FakeGateway, run: Run) -> None:
    found = {"metadata": {"name": "mine"}, "spec": {"scope": {"targets": ["Node/n2", "Node/n1"]}}}
    gateway.put(f"{OWN}/evictionpauses/mine", found)
    words = ("--scope", "target=node/n1", "--scope", "target=no/n2")
    assert "are already paused (evictionpause.moorage.io/mine)" in said(run("pause", "evictions", *words))[1]
    assert said(run("resume", "evictions", *words))[0] == 0
    assert gateway.objects == {}


@pytest.mark.parametrize(
    "words",
    [
        ("pause", "deployments"),
        ("pause", "evictions", "--scope", "zone=eu-1"),
        ("pause", "evictions", "--scope", "namespace"),
        ("pause", "evictions", "--scope", "rack=7"),
        ("pause", "evictions", "--scope", "target=n1"),
        ("pause", "evictions", "--scope", "workload=web"),
        ("resume", "evictions", "--all", "--scope", "zone=a/b"),
    ],
)
def test_pause_refuses_what_is_no_scope(gateway: FakeGateway, run: Run, words: tuple[str, ...]) -> None:
    code, out, err = said(run(*words))
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert gateway.requests == []


def test_the_name_of_a_pause_is_its_scope() -> None:
    names = [pause_name(parse_scope([text])) for text in ("fleet", "zone=eu/eu-1", "zone=eu-eu/1", "namespace=a")]
    assert names[0] == "all"
    assert len(set(names)) == 4
    assert names[1].startswith("zones-eu-eu-1-")
    assert pause_name(parse_scope(["namespace=a", "namespace=b"])) == pause_name(
        parse_scope(["namespace=b", "namespace=a"])
    )
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name) for name in names)
    assert len(pause_name(parse_scope([f"namespace={'x' * 300}"]))) < 100


# warnings of the gateway


def test_warnings_are_told_as_kubectl_tells_them(gateway: FakeGateway, run: Run) -> None:
    gateway.warnings = ['299 - "the gate is \\"off\\""', '299 moorage "second"', '299 - "second"', "199 - nonsense"]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert said(run("apply", "-f", "-", text=yaml.safe_dump(node))) == (
        0,
        "node/n1 created\n",
        'Warning: the gate is "off"\nWarning: second\n',
    )
    several = yaml.safe_dump_all([{**node, "metadata": {"name": name}} for name in ("n2", "n3", "n4")])
    code, _, err = said(run("apply", "-f", "-", text=several))
    assert (code, err.count("Warning: ")) == (0, 2)  # each text once in a command


# tables


@table("kind", all_kinds(), ids=lambda kind: kind.kind)
def test_every_kind_has_columns_that_bear_an_empty_object(kind: ServedKind) -> None:
    for wide in (False, True):
        shown = columns_of(kind, wide=wide)
        titles = [column.title for column in shown]
        assert titles
        assert len(set(titles)) == len(titles)
        assert titles == [title.upper() for title in titles]
        assert all(row({"kind": kind.kind, "metadata": {"name": "x"}, "spec": {}, "status": {}}, shown))
        assert all(row({}, shown))


def shown(run: Run, *words: str) -> list[list[str]]:
    code, out, err = said(run("get", *words))
    assert (code, err) == (0, "")
    return [line.split() for line in out.splitlines()]


def test_get_of_clusters_zones_and_bindings(gateway: FakeGateway, run: Run) -> None:
    cluster(gateway, "m1", syncMode="Pull", taints=[{"key": "k", "effect": "NoExecute"}])
    assert shown(run, "clusters") == [
        ["NAME", "MODE", "READY", "TAINTS", "AGE"],
        ["m1", "Pull", "True", "k:NoExecute", "<unknown>"],
    ]
    zone = {"zone": "eu/1", "state": "FullDisruption", "stopped": True, "nodes": 3, "notReady": 3, "rate": 0.1}
    waiting = {"waiting": 2, "queue": [{"target": "Node/n1", "incident": 1, "since": "2026-01-01T00:00:00Z"}]}
    gateway.put(f"{OWN}/zones/eu.1", {"metadata": {"name": "eu.1"}, "status": {**zone, **waiting}})
    assert shown(run, "zones")[1] == [
        "eu/1",
        "FullDisruption,Stopped",
        "3",
        "3",
        "1",
        "every",
        "10s",
        "2",
        "Node/n1",
    ]
    assert said(run("get", "zones", "-o", "name"))[1] == "zone.moorage.io/eu/1\n"
    # Every way of writing a zone's name finds it.
    for words in (("zone", "eu/1"), ("zone", "eu.1"), ("zone/eu/1",), ("zones/eu.1",), ("zone.moorage.io/eu/1",)):
        assert shown(run, *words)[1][0] == "eu/1"
        assert said(run("describe", *words))[1].splitlines()[0].split() == ["Name:", "eu/1"]
    assert json.loads(said(run("get", "zone", "eu/1", "-o", "json"))[1])["metadata"]["name"] == "eu.1"
    binding = {
        "metadata": {"name": "web-deployment", "namespace": "default"},
        "spec": {
            "resource": {"kind": "Deployment", "name": "web"},
            "clusters": [{"name": "m1", "replicas": 2}, {"name": "m2"}],
            "gracefulEvictionTasks": [{"fromCluster": "m3", "purgeMode": "Gracefully", "gracePeriodSeconds": 600}],
        },
        "status": {"conditions": [{"type": "Scheduled", "status": "True", "reason": "Success"}]},
    }
    path = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
    gateway.put(f"{path}/web-deployment", binding)
    assert shown(run, "rb")[1] == ["web-deployment", "True", "m1:2,m2", "m3"]
    gateway.put("/apis/work.karmada.io/v1alpha2/resourcebindings/x", binding)
    text = said(run("describe", "rb", "web-deployment"))[1]
    assert "Leaving:" in text
    assert "m3        Gracefully" in text
    text = said(run("describe", "cluster", "m1"))[1]
    assert re.search(r"default +web-deployment +2", text)
    assert said(run("delete", "rb", "web-deployment"))[0] == 1


@pytest.mark.parametrize(
    ("rate", "text"), [(0.1, "1 every 10s"), (0, "0"), ("inf", "no limit"), (2.5, "2.5/s"), (0.01, "1 every 100s")]
)
def test_rates_in_words(rate: Any, text: str, gateway: FakeGateway, run: Run) -> None:
    gateway.put(f"{OWN}/zones/z", {"metadata": {"name": "z"}, "status": {"rate": rate}})
    assert text in said(run("get", "zones"))[1]


def test_get_of_budgets(gateway: FakeGateway, run: Run) -> None:
    spec = {"per": "Zone", "maxConcurrent": "10%", "maxInWindow": 5, "windowSeconds": 60}
    budget = {"metadata": {"name": "b"}, "spec": spec, "status": {"allowed": 1, "inProgress": 2, "held": 3}}
    gateway.put(f"{OWN}/evictionbudgets/b", budget)
    assert shown(run, "eb")[1] == ["b", "Zone", "10%", "5", "in", "60s", "1", "2", "3", "<unknown>"]
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    pdb = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"minAvailable": 1}}
    gateway.put(f"{path}/p", {**pdb, "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}})
    assert shown(run, "pdb")[1] == ["p", "1", "N/A", "1", "<unknown>"]
    gateway.put(
        f"{OWN}/namespaces/default/evictions/e",
        {
            "metadata": {"name": "e", "namespace": "default"},
            "status": {
                "workload": {"kind": "Pod", "namespace": "default", "name": "w"},
                "target": {"kind": "Node", "name": "n1"},
                "state": "Held",
                "heldBy": ["PodDisruptionBudget/default/p"],
                "message": "0 of 1 allowed",
                "deadline": "2026-01-01T00:00:00Z",
            },
        },
    )
    assert shown(run, "evictions")[1] == [
        *("e", "pod/w", "node/n1", "Held", "due", "PodDisruptionBudget/default/p", "<none>"),
        "<unknown>",
    ]
    evicted = gateway.objects[f"{OWN}/namespaces/default/evictions/e"]
    evicted["status"]["heldBy"].append("EvictionBudget/b")
    gateway.objects[f"{OWN}/evictions/e"] = evicted
    text = said(run("describe", "eb", "b"))[1]
    assert "  maxConcurrent: 10%" in text
    assert "EvictionBudget/b   0 of 1 allowed" in text
    evicted["status"]["heldBy"].pop()
    text = said(run("describe", "pdb", "p"))[1]
    assert "Healthy:        2, of which 1 must stay" in text
    assert "PodDisruptionBudget/default/p   0 of 1 allowed" in text
    pod = {"metadata": {"name": "w", "namespace": "default"}, "spec": {}, "status": {}}
    gateway.put("/api/v1/namespaces/default/pods/w", pod)
    text = said(run("describe", "pod", "w"))[1]
    assert "PodDisruptionBudget/default/p" in text
    assert "Controlled By:  <none>: a bare pod is not replaced\n" in text


def test_describe_of_a_node_shows_zone_and_held_taints(gateway: FakeGateway, run: Run) -> None:
    labels = {"topology.kubernetes.io/region": "eu", "topology.kubernetes.io/zone": "1"}
    held = {
        "key": "not-ready",
        "effect": "NoExecute",
        "since": "2026-01-01T00:00:00Z",
        "reason": "zone eu/1 is stopped",
    }
    node = {"kind": "Node", "metadata": {"name": "n1", "labels": labels}, "spec": {}, "status": {"heldTaints": [held]}}
    gateway.put("/api/v1/nodes/n1", node)
    zone = {"zone": "eu/1", "state": "PartialDisruption", "nodes": 4, "notReady": 3, "rate": 0, "waiting": 1}
    queue = [{"target": "Node/n1", "incident": 2, "since": "2026-01-01T00:00:00Z"}]
    gateway.put(f"{OWN}/zones/eu.1", {"metadata": {"name": "eu.1"}, "status": {**zone, "queue": queue}})
    text = said(run("describe", "node", "n1"))[1]
    assert "Zone:           eu/1 (PartialDisruption)" in text
    assert "Held taints:" in text
    assert "zone eu/1 is stopped" in text
    text = said(run("describe", "zone", "eu.1"))[1]
    assert "Nodes:          4, of which 3 are not ready" in text
    assert re.search(r"Waiting \(1\):\n +TARGET +NOT READY SINCE\n +Node/n1", text)


def test_times_are_shown_to_the_second_and_written_exactly(gateway: FakeGateway, run: Run) -> None:
    when, shown_as = "2026-01-01T11:43:36.181000Z", "2026-01-01T11:43:36Z"
    message = f"taint k:NoExecute is tolerated for 5 s, until {when}"
    target = {"kind": "Node", "name": "n1"}
    status = {"workload": {"kind": "Pod", "namespace": "default", "name": "p"}, "target": target, "state": "Scheduled"}
    eviction = {"metadata": {"name": "p:node.n1:1", "namespace": "default", "annotations": {"moved": when}}}
    path = f"{OWN}/namespaces/default/evictions/p:node.n1:1"
    gateway.put(path, {**eviction, "status": {**status, "deadline": when, "message": message}})
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {}, "status": {}}
    gateway.put("/api/v1/namespaces/default/pods/p", pod)
    node_condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": when, "message": message}
    gateway.put("/api/v1/nodes/n1", {"metadata": {"name": "n1"}, "status": {"conditions": [node_condition]}})
    for words in (("describe", "pod", "p"), ("describe", "node", "n1"), ("get", "evictions", "-o", "wide")):
        text = said(run(*words))[1]
        assert shown_as in text, words
        assert when not in text, words
    table = said(run("describe", "node", "n1"))[1].partition("Conditions:\n")[2].splitlines()
    assert table[0].index("TRANSITION") == table[1].index(shown_as) + len(shown_as) + 3
    told = said(run("describe", "eviction", "p:node.n1:1"))[1]
    assert f"moved={when}" in told  # the text was written by a person and is not a time
    assert f"until {shown_as}" in told
    for form in ("json", "yaml"):
        assert message in said(run("get", "evictions", "-o", form))[1]


def test_machine_sets_are_shown_with_their_nodes(gateway: FakeGateway, run: Run) -> None:
    machine_set(gateway, "ms", 2)
    node = {"kind": "Node", "metadata": {"name": "ms-abcde", "ownerReferences": [{"kind": "MachineSet", "uid": "u1"}]}}
    gateway.put("/api/v1/nodes/ms-abcde", {**node, "spec": {}, "status": {}})
    assert shown(run, "machinesets", "-n", "machines")[1] == ["ms", "2", "0", "0", "0", "<unknown>"]
    text = said(run("describe", "machineset", "ms", "-n", "machines"))[1]
    assert "New nodes get:  a=b:NoSchedule" in text
    assert re.search(r"Nodes of this set \(1\):\n.*\n +ms-abcde", text)


def test_own_words_for_kinds() -> None:
    assert find("ctp").kind == "ClusterTaintPolicy"
    assert find("rb").api_version == "work.karmada.io/v1alpha2"
    assert find("cluster.cluster.karmada.io").kind == "Cluster"
    assert find("pdb").kind == "PodDisruptionBudget"
    assert client.object_path(find("deploy"), "a", "b", "scale") == "/apis/apps/v1/namespaces/a/deployments/b/scale"


def test_a_policy_is_applied_before_what_it_places(run: Run) -> None:
    def one(api: str, kind: str) -> Object:
        return {"apiVersion": api, "kind": kind, "metadata": {"name": "x"}}

    documents = [
        one("apps/v1", "Deployment"),
        one("policy.karmada.io/v1alpha1", "PropagationPolicy"),
        one("cluster.karmada.io/v1alpha1", "Cluster"),
        one("policy/v1", "PodDisruptionBudget"),
    ]
    out = said(run("apply", "-f", "-", text=yaml.dump_all(documents)))[1]
    assert [line.split("/")[0].split(".")[0] for line in out.splitlines()] == [
        *("poddisruptionbudget", "cluster", "propagationpolicy", "deployment"),
    ]


def test_apply_does_not_merge_the_taints_of_a_policy(gateway: FakeGateway, run: Run) -> None:
    def policy(*effects: str) -> str:
        taints = [{"key": "a", "effect": effect} for effect in effects]
        head = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterTaintPolicy", "metadata": {"name": "p"}}
        return yaml.safe_dump({**head, "spec": {"taints": taints}})

    run("apply", "-f", "-", text=policy("NoSchedule"))
    assert said(run("apply", "-f", "-", text=policy("NoSchedule", "NoSchedule")))[1].endswith("configured\n")
    sent = json.loads(json.dumps(gateway.requests[-1][2]))
    assert len(sent["spec"]["taints"]) == 2  # for the server to refuse


def test_what_was_got_can_be_applied_again(run: Run) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations": {"team": "a"}}}
    run("apply", "-f", "-", text=yaml.safe_dump(node))
    got = said(run("get", "node", "n1", "-o", "yaml"))[1]
    assert said(run("apply", "-f", "-", text=got)) == (0, "node/n1 unchanged\n", "")


def test_every_kind_is_found_by_all_its_words() -> None:
    for kind in all_kinds():
        for word in kind.definition.words:
            assert find(word) == find(word.upper()) == find(f"{word}.{kind.group}" if kind.group else word) == kind
    with pytest.raises(CliError, match=r"deployments\.batch"):
        find("deployments.batch")
