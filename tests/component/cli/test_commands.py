"""The commands that kubectl has as well: their words, errors and exit codes are kubectl's."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Object, Run, said, status

PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, *, owner: str = "ReplicaSet", **spec: Any) -> Object:
    owners = [{"kind": owner, "name": "o", "uid": "u", "controller": True}] if owner else []
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1", **spec}}


# label and annotate


def test_labels_are_set_changed_and_removed(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1")
    path = "/api/v1/nodes/n1"
    assert said(run("label", "node", "n1", "disk=ssd", "zone=a")) == (0, "node/n1 labeled\n", "")
    assert gateway.objects[path]["metadata"]["labels"] == {"disk": "ssd", "zone": "a"}
    assert said(run("label", "nodes/n1", "disk=hdd")) == (
        1,
        "",
        "error: 'disk' already has a value (ssd), and --overwrite is false\n",
    )
    assert said(run("label", "node", "n1", "disk=ssd")) == (0, "node/n1 not labeled\n", "")
    assert said(run("label", "node", "n1", "disk=hdd", "--overwrite")) == (0, "node/n1 labeled\n", "")
    assert said(run("label", "node", "n1", "disk-")) == (0, "node/n1 unlabeled\n", "")
    assert said(run("label", "node", "n1", "nix-")) == (0, 'label "nix" not found.\nnode/n1 not labeled\n', "")
    assert said(run("label", "node", "n1", "--list")) == (0, "zone=a\n", "")
    assert said(run("label", "--all", "nodes", "x=y", "--dry-run=client")) == (0, "node/n1 labeled (dry run)\n", "")
    assert gateway.objects[path]["metadata"]["labels"] == {"zone": "a"}
    assert said(run("label", "node", "nix", "x=y"))[0] == 1


def test_annotations_are_set_and_removed(gateway: FakeGateway, run: Run) -> None:
    gateway.node("n1")
    assert said(run("annotate", "node", "n1", "a=b=c")) == (0, "node/n1 annotated\n", "")
    assert gateway.objects["/api/v1/nodes/n1"]["metadata"]["annotations"] == {"a": "b=c"}
    shown = yaml.safe_load(run("annotate", "node", "n1", "a-", "-o", "yaml").stdout)
    assert shown["metadata"]["annotations"] == {}


@pytest.mark.parametrize(
    "words",
    [("node", "n1"), ("a=b",), ("node", "n1", "a=b", "n2"), ("node", "n1", "a=b", "a-"), ("node", "a=b")],
    ids=" ".join,
)
def test_labels_need_objects_and_changes(gateway: FakeGateway, run: Run, words: tuple[str, ...]) -> None:
    assert said(run("label", *words))[0] in {1, 2}
    assert [method for method, _, _ in gateway.requests if method != "GET"] == []


# diff


def test_a_difference_has_an_exit_code(gateway: FakeGateway, run: Run) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
    run("apply", "-f", "-", text=yaml.safe_dump(manifest))
    assert said(run("diff", "-f", "-", text=yaml.safe_dump(manifest))) == (0, "", "")
    manifest["data"] = {"a": "2"}
    code, out, err = said(run("diff", "-f", "-", text=yaml.safe_dump(manifest)))
    assert (code, err) == (1, "")
    assert "--- LIVE/v1.ConfigMap.default.m\n+++ MERGED/v1.ConfigMap.default.m\n" in out
    changed = [line for line in out.splitlines() if line[0] in "+-" and line[1] not in "+-"]
    assert changed[0] == "-  a: '1'"
    assert "+  a: '2'" in changed
    assert gateway.queries[-1]["dryRun"] == "All"
    assert said(run("diff", "-f", "-", text="kind: Pod"))[0] == 2


# delete


def test_how_objects_are_deleted(gateway: FakeGateway, run: Run) -> None:
    for name in ("a", "b", "c"):
        gateway.put(f"{PODS}/{name}", pod(name))
    assert said(run("delete", "pod", "a", "--dry-run=client")) == (0, 'pod "a" deleted (dry run)\n', "")
    run("delete", "pod", "a", "--dry-run=server")
    assert gateway.queries[-1] == {"dryRun": "All"}
    gateway.put(f"{PODS}/a", pod("a"))
    assert said(run("delete", "pod", "a", "--cascade=orphan", "--grace-period=0", "--force", "--wait")) == (
        0,
        'pod "a" force deleted\n',
        "",
    )
    (sent,) = [body for method, path, body in gateway.requests if method == "DELETE" and body]
    assert sent == {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan", "gracePeriodSeconds": 0}
    assert said(run("delete", "pods", "--all", "-A"))[1] == 'pod "b" deleted\npod "c" deleted\n'
    assert said(run("delete", "pod", "x", "--cascade=maybe"))[0] == 2


# wait


def test_waiting_for_a_condition_a_value_and_the_end(gateway: FakeGateway, run: Run) -> None:
    found = pod("p")
    found["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    gateway.put(f"{PODS}/p", found)
    for until in (
        "condition=Ready",
        "condition=ready=true",
        "jsonpath={.status.phase}=Running",
        "jsonpath=.spec",
        "create",
    ):
        assert said(run("wait", "pod/p", f"--for={until}")) == (0, "pod/p condition met\n", "")
    late = said(run("wait", "pod/p", "--for=condition=Ready=False", "--timeout=0s"))
    assert late == (1, "", "error: timed out waiting for the condition on pods/p\n")
    assert said(run("wait", "pod/p", "--for=delete", "--timeout=0s"))[0] == 1
    assert said(run("wait", "pod/nix", "--for=delete")) == (0, "pod/nix condition met\n", "")
    assert said(run("wait", "pod/nix", "--for=condition=Ready"))[0] == 1
    assert said(run("wait", "pods", "-l", "a=b", "-n", "empty", "--for=condition=Ready")) == (
        1,
        "",
        "error: no matching resources found\n",
    )
    assert said(run("wait", "pod/p", "--for=love"))[0] == 2


# drain


@pytest.fixture
def node(gateway: FakeGateway) -> FakeGateway:
    gateway.node("n1")
    gateway.put(f"{PODS}/plain", pod("plain"))
    return gateway


def test_a_node_is_drained(node: FakeGateway, run: Run) -> None:
    assert said(run("drain", "n1", "--dry-run=client")) == (
        0,
        "node/n1 cordoned (dry run)\nevicting pod default/plain (dry run)\nnode/n1 drained (dry run)\n",
        "",
    )
    assert said(run("drain", "node/n1")) == (
        0,
        "node/n1 cordoned\nevicting pod default/plain\npod/plain evicted\nnode/n1 drained\n",
        "",
    )
    assert node.spec("n1")["unschedulable"] is True
    assert f"{PODS}/plain" not in node.objects
    assert any(query.get("fieldSelector") == "spec.nodeName=n1" for query in node.queries)
    assert said(run("adm", "drain", "n1"))[1] == "node/n1 already cordoned\nnode/n1 drained\n"
    assert said(run("drain"))[0] == 2
    assert said(run("drain", "cluster/c"))[0] == 2


@pytest.mark.parametrize(
    ("there", "option", "why"),
    [
        (pod("x", owner=""), "--force", "cannot delete Pods that declare no controller"),
        (pod("x", volumes=[{"name": "v", "emptyDir": {}}]), "--delete-emptydir-data", "local storage"),
        (pod("x", owner="DaemonSet"), "--ignore-daemonsets", "cannot delete DaemonSet-managed Pods"),
    ],
)
def test_pods_that_would_be_lost_need_an_option(
    node: FakeGateway, run: Run, there: Object, option: str, why: str
) -> None:
    node.put(f"{PODS}/x", there)
    code, out, err = said(run("drain", "n1"))
    assert (code, out) == (1, "node/n1 cordoned\n")
    assert why in err
    assert "default/x" in err
    assert f"{PODS}/plain" in node.objects
    assert said(run("drain", "n1", option))[0] == 0
    assert f"{PODS}/plain" not in node.objects
    assert (f"{PODS}/x" in node.objects) == (option == "--ignore-daemonsets")


def test_a_pod_that_a_budget_keeps_is_tried_until_the_time_is_over(
    node: FakeGateway, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter([status(429, "TooManyRequests", "Cannot evict pod")])
    evict = node.evict
    monkeypatch.setattr(node, "evict", lambda path: next(refusals, None) or evict(path))
    monkeypatch.setattr("moorage.cli.commands.drain._PAUSE", 0.0)
    code, out, err = said(run("drain", "n1"))
    assert code == 0, err
    assert 'error when evicting pods/"plain" -n "default" (will retry after 0s): Cannot evict pod' in err
    assert out.endswith("pod/plain evicted\nnode/n1 drained\n")

    node.put(f"{PODS}/plain", pod("plain"))
    monkeypatch.setattr(node, "evict", lambda _: status(429, "TooManyRequests", "Cannot evict pod"))
    monkeypatch.setattr("moorage.cli.commands.drain._PAUSE", 10.0)
    code, _, err = said(run("drain", "n1", "--timeout=1s"))
    assert code == 1
    assert 'unable to drain node "n1" due to error: global timeout reached: 1s' in err


def test_pods_may_be_deleted_instead(node: FakeGateway, run: Run) -> None:
    assert said(run("drain", "n1", "--disable-eviction", "--grace-period=5"))[1].endswith(
        "pod/plain deleted\nnode/n1 drained\n"
    )
    deleted = [body for method, _, body in node.requests if method == "DELETE"]
    assert deleted == [{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 5}]


# looking around


def test_events_are_listed_by_time(gateway: FakeGateway, run: Run) -> None:
    for number, kind in ((2, "Pod"), (1, "Node")):
        event = {
            "metadata": {"name": f"e{number}", "namespace": "default"},
            "type": "Warning" if number == 1 else "Normal",
            "reason": "R",
            "message": f"m{number}",
            "lastTimestamp": f"2026-01-0{number}T00:00:00Z",
            "involvedObject": {"kind": kind, "name": "x"},
        }
        gateway.put(f"/api/v1/namespaces/default/events/e{number}", event)
    lines = run("events").stdout.splitlines()
    assert lines[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert [line.split()[-1] for line in lines[1:]] == ["m1", "m2"]
    assert run("events", "--for", "pod/x", "-o", "jsonpath={.items[*].message}").stdout == "m2"
    assert run("events", "--types=warning", "--no-headers", "-A").stdout.split()[-1] == "m1"
    assert said(run("events", "-n", "other"))[1] == "No events found in other namespace.\n"
    gateway.refuse["GET /api/v1/namespaces/default/events"] = status(404, "NotFound", "nothing here")
    assert said(run("events")) == (1, "", 'error: the server doesn\'t have a resource type "events"\n')


def test_what_the_gateway_serves_is_listed(gateway: FakeGateway, run: Run) -> None:
    pods = {"name": "pods", "shortNames": ["po"], "namespaced": True, "kind": "Pod", "verbs": ["get", "list"]}
    nodes = {"name": "nodes", "namespaced": False, "kind": "Node", "verbs": ["get"]}
    group = {"name": "apps", "versions": [{"groupVersion": "apps/v1"}], "preferredVersion": {"groupVersion": "apps/v1"}}
    for path, answer in {
        "/api": {"versions": ["v1"]},
        "/apis": {"groups": [group]},
        "/api/v1": {"resources": [pods, {**pods, "name": "pods/status"}, nodes]},
        "/apis/apps/v1": {"resources": [{"name": "deployments", "namespaced": True, "kind": "Deployment"}]},
    }.items():
        gateway.refuse[f"GET {path}"] = httpx.Response(200, json=answer)
    assert [line.split() for line in run("api-resources").stdout.splitlines()] == [
        ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"],
        ["pods", "po", "v1", "true", "Pod"],
        ["nodes", "v1", "false", "Node"],
        ["deployments", "apps/v1", "true", "Deployment"],
    ]
    assert run("api-resources", "--api-group=apps", "-o", "name").stdout == "deployments.apps\n"
    assert run("api-resources", "--namespaced=false", "--no-headers").stdout.split()[0] == "nodes"
    assert "get,list" in run("api-resources", "-o", "wide").stdout
    assert run("api-versions").stdout == "apps/v1\nv1\n"
    assert said(run("api-resources", "-o", "json"))[0] == 2


def test_who_one_is_and_what_one_may(gateway: FakeGateway, run: Run) -> None:
    reviews = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    gateway.refuse[reviews] = httpx.Response(201, json={"status": {"allowed": True}})
    assert said(run("auth", "can-i", "create", "deployments/web", "-n", "a")) == (0, "yes\n", "")
    attributes = gateway.requests[-1][2]["spec"]["resourceAttributes"]
    assert attributes == {
        "verb": "create",
        "resource": "deployments",
        "group": "apps",
        "version": "v1",
        "name": "web",
        "namespace": "a",
    }
    assert said(run("auth", "can-i", "get", "/metrics", "-q")) == (0, "", "")
    assert gateway.requests[-1][2]["spec"] == {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    gateway.refuse[reviews] = httpx.Response(201, json={"status": {"allowed": False, "reason": "not you"}})
    assert said(run("auth", "can-i", "delete", "nodes")) == (1, "no - not you\n", "")
    assert said(run("auth", "can-i", "delete"))[0] == 2
    info = {"username": "admin", "groups": ["a", "b"]}
    gateway.refuse["POST /apis/authentication.k8s.io/v1/selfsubjectreviews"] = httpx.Response(
        201, json={"status": {"userInfo": info}}
    )
    assert [line.split() for line in run("auth", "whoami").stdout.splitlines()] == [
        ["ATTRIBUTE", "VALUE"],
        ["Username", "admin"],
        ["Groups", "[a", "b]"],
    ]
    rule = {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["deployments"]}
    gateway.refuse["POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews"] = httpx.Response(
        201, json={"status": {"resourceRules": [rule], "nonResourceRules": []}}
    )
    assert run("auth", "can-i", "--list").stdout.splitlines()[1].split() == ["deployments.apps", "[]", "[]", "[*]"]


def test_fields_of_kinds_are_explained(run: Run) -> None:
    code, out, err = said(run("explain", "pods.spec.tolerations"))
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        *("KIND:       Pod", "VERSION:    v1", "", "FIELD: tolerations <[]Toleration>", "", "FIELDS:"),
        *("  effect\t<string>", "  key\t<string>", "  operator\t<string>", "  tolerationSeconds\t<integer>"),
        "  value\t<string>",
    ]
    out = run("explain", "deployments.apps.spec", "--recursive").stdout
    assert out.startswith("GROUP:      apps\nKIND:       Deployment\n")
    assert "\n    metadata\t<ObjectMeta>\n" in out
    assert "  matchLabels\t<map[string]string>\n" in out
    assert said(run("explain", "pods.spec.nix")) == (1, "", 'error: field "nix" does not exist\n')
    assert "  spec\t<PodSpec>\n" in run("explain", "pod").stdout
    assert said(run("explain", "nix.spec"))[0] == 2
