"""The commands that kubectl has as well: their words, errors and exit codes are kubectl's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.component.cli.fake_gateway import FakeGateway, Object, Run, said, status

from moorage.cli.commands.rollout import progress
from moorage.cli.errors import CliError

PODS = "/api/v1/namespaces/default/pods"
WEB = "/apis/apps/v1/namespaces/default/deployments/web"
SETS = "/apis/apps/v1/namespaces/default/replicasets"


def pod(name: str, *, owner: str = "ReplicaSet", **spec: Any) -> Object:
    owners = [{"kind": owner, "name": "o", "uid": "u", "controller": True}] if owner else []
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1", **spec}}


def deployment(**status: Any) -> Object:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    metadata = {"name": "web", "namespace": "default", "uid": "u1", "generation": 2}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec, "status": status}


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


# patch, set, replace


def test_patches_of_three_types(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    gateway.put(WEB, deployment())
    assert said(run("patch", "deployment", "web", "-p", '{"spec":{"replicas":3}}')) == (
        0,
        "deployment.apps/web patched\n",
        "",
    )
    assert gateway.content_types[-1] == "application/strategic-merge-patch+json"
    file = tmp_path / "p.yaml"
    file.write_text("- {op: replace, path: /spec/replicas, value: 4}\n", "utf-8")
    run("patch", "deployment/web", "--type=json", "--patch-file", str(file))
    assert gateway.content_types[-1] == "application/json-patch+json"
    assert gateway.objects[WEB]["spec"]["replicas"] == 4
    gateway.put("/apis/moorage.io/v1alpha1/evictionpauses/p", {"metadata": {"name": "p"}, "spec": {}})
    run("patch", "evictionpause", "p", "-p", "spec: {reason: x}")
    assert gateway.content_types[-1] == "application/merge-patch+json"
    assert said(run("patch", "deployment", "web", "-p", "1"))[0] == 1
    assert said(run("patch", "deployment", "web"))[0] == 2
    assert said(run("patch", "deployment", "web", "-p", "{}", "--type", "x"))[0] == 2


def test_images_resources_and_variables_are_set(gateway: FakeGateway, run: Run) -> None:
    gateway.put(WEB, deployment())
    assert said(run("set", "image", "deployment/web", "main=web:2")) == (
        0,
        "deployment.apps/web image updated\n",
        "",
    )
    run("set", "resources", "deployment", "web", "--limits=cpu=1,memory=2Gi", "--requests=cpu=500m")
    run("set", "env", "deployment/web", "A=1", "B=2")
    run("set", "env", "deployment/web", "A-", "B=3")
    assert gateway.objects[WEB]["spec"]["template"]["spec"]["containers"] == [
        {
            "name": "main",
            "image": "web:2",
            "resources": {"limits": {"cpu": "1", "memory": "2Gi"}, "requests": {"cpu": "500m"}},
            "env": [{"name": "B", "value": "3"}],
        }
    ]
    assert run("set", "env", "deployment/web", "--list").stdout.endswith("B=3\n")
    assert said(run("set", "image", "deployment/web", "nix=x")) == (
        1,
        "",
        "error: unable to find container named nix in deployment.apps/web\n",
    )


def test_objects_are_replaced(gateway: FakeGateway, run: Run) -> None:
    gateway.put(f"{PODS}/p", pod("p", old=True))
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"new": True}})
    assert said(run("replace", "-f", "-", text=text)) == (0, "pod/p replaced\n", "")
    assert gateway.objects[f"{PODS}/p"]["spec"] == {"new": True}
    assert gateway.requests[-1][0] == "PUT"
    assert said(run("replace", "-f", "-", "--force", text=text)) == (0, "pod/p replaced\n", "")
    assert [method for method, _, _ in gateway.requests[-2:]] == ["DELETE", "POST"]
    gateway.objects.clear()
    assert said(run("replace", "-f", "-", text=text))[0] == 1
    assert said(run("replace", "-f", "-", "--force", text=text))[0] == 0


# create


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (("namespace", "team"), {"kind": "Namespace", "metadata": {"name": "team"}}),
        (
            ("configmap", "c", "--from-literal=a=b", "--from-literal", "c=d=e"),
            {"data": {"a": "b", "c": "d=e"}, "metadata": {"name": "c", "namespace": "default"}},
        ),
        (
            ("deployment", "web", "--image=r:5000/x/web:1", "--replicas=3", "--port=80", "-n", "team", "--", "run"),
            {
                "metadata": {"name": "web", "namespace": "team", "labels": {"app": "web"}},
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {
                        "metadata": {"labels": {"app": "web"}},
                        "spec": {
                            "containers": [
                                {
                                    "name": "web",
                                    "image": "r:5000/x/web:1",
                                    "command": ["run"],
                                    "ports": [{"containerPort": 80}],
                                }
                            ]
                        },
                    },
                },
            },
        ),
        (
            ("pdb", "b", "--selector=app=web", "--min-available=50%"),
            {"spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": "50%"}},
        ),
        (
            ("poddisruptionbudget", "b", "--selector=app=web", "--max-unavailable=1"),
            {"spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}},
        ),
        (
            ("job", "j", "--image=job:1"),
            {
                "spec": {
                    "template": {"spec": {"containers": [{"name": "j", "image": "job:1"}], "restartPolicy": "Never"}}
                }
            },
        ),
        (
            ("role", "r", "--verb=get,list", "--resource=pods,deployments/scale"),
            {
                "rules": [
                    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
                    {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["get", "list"]},
                ]
            },
        ),
        (
            ("rolebinding", "b", "--clusterrole=view", "--user=u", "--serviceaccount=a:b"),
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
                "subjects": [
                    {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u"},
                    {"kind": "ServiceAccount", "namespace": "a", "name": "b"},
                ],
            },
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_object_is_created_from_options(
    gateway: FakeGateway, run: Run, words: tuple[str, ...], made: Object
) -> None:
    options, behind = (words[: words.index("--")], words[words.index("--") :]) if "--" in words else (words, ())
    shown = yaml.safe_load(run("create", *options, "--dry-run=client", "-o", "yaml", *behind).stdout)
    assert {name: shown[name] for name in made} == made
    assert gateway.requests == []
    assert said(run("create", *words))[1].endswith(f"/{words[1]} created\n")
    assert gateway.requests[-1][2] == shown


def test_objects_of_files_are_created_once(gateway: FakeGateway, run: Run) -> None:
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    assert said(run("create", "-f", "-", text=text)) == (0, "pod/p created\n", "")
    code, out, err = said(run("create", "-f", "-", text=text))
    assert (code, out) == (1, "")
    assert "Error from server (AlreadyExists)" in err
    assert said(run("create"))[0] == 2
    run("create", "-f", "-", "--save-config", "-n", "x", text=text)
    sent = gateway.requests[-1][2]["metadata"]
    assert sent["namespace"] == "x"
    assert "kubectl.kubernetes.io/last-applied-configuration" in sent["annotations"]


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


# rollout


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"observedGeneration": 1}, "Waiting for deployment spec update to be observed..."),
        (
            {"observedGeneration": 2, "updatedReplicas": 1},
            'Waiting for deployment "web" rollout to finish: 1 out of 2 new replicas have been updated...',
        ),
        (
            {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 3},
            'Waiting for deployment "web" rollout to finish: 1 old replicas are pending termination...',
        ),
        (
            {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 1},
            'Waiting for deployment "web" rollout to finish: 1 of 2 updated replicas are available...',
        ),
    ],
)
def test_how_far_a_rollout_is(gateway: FakeGateway, run: Run, state: Object, text: str) -> None:
    gateway.put(WEB, deployment(**state))
    assert said(run("rollout", "status", "deployment/web", "--no-watch")) == (0, f"{text}\n", "")


def test_a_rollout_ends_well_or_badly(gateway: FakeGateway, run: Run) -> None:
    done = {"observedGeneration": 2, "updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}
    gateway.put(WEB, deployment(**done))
    assert said(run("rollout", "status", "deployment", "web")) == (0, 'deployment "web" successfully rolled out\n', "")
    with pytest.raises(CliError, match='deployment "web" exceeded its progress deadline'):
        progress(
            deployment(conditions=[{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}], observedGeneration=2)
        )
    node = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}
    gateway.put("/api/v1/nodes/n1", node)
    assert said(run("rollout", "status", "node/n1"))[0] == 1


def test_a_rollout_is_restarted_paused_resumed_and_undone(gateway: FakeGateway, run: Run) -> None:
    gateway.put(WEB, deployment())
    assert said(run("rollout", "restart", "deployment/web")) == (0, "deployment.apps/web restarted\n", "")
    annotations = gateway.objects[WEB]["spec"]["template"]["metadata"]["annotations"]
    assert "kubectl.kubernetes.io/restartedAt" in annotations
    assert said(run("rollout", "pause", "deployment/web")) == (0, "deployment.apps/web paused\n", "")
    assert said(run("rollout", "pause", "deployment/web")) == (
        1,
        "",
        'error: deployments.apps "web" is already paused\n',
    )
    assert said(run("rollout", "undo", "deployment/web"))[0] == 1
    assert said(run("rollout", "resume", "deployment/web")) == (0, "deployment.apps/web resumed\n", "")

    for number in (1, 2):
        template = json.loads(json.dumps(deployment()["spec"]["template"]))
        template["metadata"]["labels"]["pod-template-hash"] = str(number)
        template["spec"]["containers"][0]["image"] = f"web:{number}"
        owner = {"kind": "Deployment", "name": "web", "uid": "u1", "controller": True}
        notes = {"deployment.kubernetes.io/revision": str(number)}
        metadata = {"name": f"web-{number}", "namespace": "default", "ownerReferences": [owner], "annotations": notes}
        gateway.put(
            f"{SETS}/web-{number}", {"kind": "ReplicaSet", "metadata": metadata, "spec": {"template": template}}
        )
    assert said(run("rollout", "history", "deployment/web")) == (
        0,
        "deployment.apps/web \nREVISION   CHANGE-CAUSE\n1          <none>\n2          <none>\n\n",
        "",
    )
    assert "image: web:2" in run("rollout", "history", "deployment/web", "--revision=2").stdout
    assert said(run("rollout", "undo", "deployment/web", "--to-revision=2"))[1] == "deployment.apps/web rolled back\n"
    assert gateway.objects[WEB]["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"
    assert "pod-template-hash" not in gateway.objects[WEB]["spec"]["template"]["metadata"]["labels"]
    assert said(run("rollout", "undo", "deployment/web", "--to-revision=2"))[1] == (
        "deployment.apps/web skipped rollback (current template already matches revision 2)\n"
    )
    assert said(run("rollout", "undo", "deployment/web", "--to-revision=7"))[0] == 1


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
