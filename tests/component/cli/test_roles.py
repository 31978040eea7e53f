"""Commands about roles and bindings."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.component.cli.fake_gateway import FakeGateway, Object, Run, said

RBAC = "/apis/rbac.authorization.k8s.io/v1"
API = "rbac.authorization.k8s.io/v1"
READ = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
LIST = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}
ANN = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}
BOB = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}


def role(*rules: Object, name: str = "r") -> Object:
    return {"apiVersion": API, "kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}


def binding(*subjects: Object, name: str = "r", role_name: str = "r") -> Object:
    return {
        "apiVersion": API,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role_name},
        "subjects": list(subjects),
    }


def file(folder: Path, *documents: Object) -> str:
    path = folder / "roles.yaml"
    path.write_text(yaml.safe_dump_all(documents), "utf-8")
    return str(path)


def test_reconcile_adds_what_is_missing(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    path = file(tmp_path, role(READ), binding(ANN), other)
    done = run("auth", "reconcile", "-f", path)
    assert done.stdout.splitlines() == [
        "clusterrole.rbac.authorization.k8s.io/r reconciled",
        "clusterrolebinding.rbac.authorization.k8s.io/r reconciled",
    ]
    assert done.stderr == "\treconciliation required create\n" * 2
    assert set(gateway.objects) == {f"{RBAC}/clusterroles/r", f"{RBAC}/clusterrolebindings/r"}
    assert run("auth", "reconcile", "-f", path).stderr == "", "nothing is missing"
    done = run("auth", "reconcile", "-f", file(tmp_path, role(READ, LIST), binding(BOB)))
    assert done.stderr.splitlines() == [
        "\treconciliation required update",
        "\tmissing rules added:",
        '\t\t{APIGroups:[""], Resources:["pods"], Verbs:["list"]}',
        "\treconciliation required update",
        "\tmissing subjects added:",
        '\t\tUser "bob"',
    ]
    assert gateway.objects[f"{RBAC}/clusterroles/r"]["rules"] == [READ, LIST]
    assert gateway.objects[f"{RBAC}/clusterrolebindings/r"]["subjects"] == [ANN, BOB]


def test_reconcile_takes_away_only_if_told_to(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    gateway.put(f"{RBAC}/clusterroles/r", role(READ, LIST))
    gateway.put(f"{RBAC}/clusterrolebindings/r", binding(ANN, BOB))
    path = file(tmp_path, role(READ), binding(ANN))
    assert run("auth", "reconcile", "-f", path).stderr == ""
    assert "extra rules removed" in run("auth", "reconcile", "-f", path, "--remove-extra-permissions").stderr
    assert gateway.objects[f"{RBAC}/clusterroles/r"]["rules"] == [READ]
    assert gateway.objects[f"{RBAC}/clusterrolebindings/r"]["subjects"] == [ANN, BOB]
    assert "extra subjects removed" in run("auth", "reconcile", "-f", path, "--remove-extra-subjects").stderr
    assert gateway.objects[f"{RBAC}/clusterrolebindings/r"]["subjects"] == [ANN]


def test_reconcile_replaces_a_binding_of_another_role(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    gateway.put(f"{RBAC}/clusterrolebindings/r", binding(ANN, role_name="other"))
    path = file(tmp_path, binding(BOB))
    assert run("auth", "reconcile", "-f", path, "--dry-run=client").stderr == "\treconciliation required recreate\n"
    assert gateway.objects[f"{RBAC}/clusterrolebindings/r"]["roleRef"]["name"] == "other"
    assert run("auth", "reconcile", "-f", path).exit_code == 0
    assert gateway.objects[f"{RBAC}/clusterrolebindings/r"]["subjects"] == [BOB]


def test_reconcile_leaves_alone_what_is_marked(gateway: FakeGateway, run: Run, tmp_path: Path) -> None:
    marked = {"name": "r", "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}
    gateway.put(f"{RBAC}/clusterroles/r", {**role(), "metadata": marked})
    assert "but object opted out" in run("auth", "reconcile", "-f", file(tmp_path, role(READ))).stderr
    assert gateway.objects[f"{RBAC}/clusterroles/r"]["rules"] == []


def test_roles_are_given_and_taken_away(gateway: FakeGateway, run: Run) -> None:
    gateway.put(f"{RBAC}/clusterroles/view", role(READ, name="view"))
    gateway.put(f"{RBAC}/clusterrolebindings/view", binding(ANN, name="view", role_name="other"))
    policy = ("adm", "policy")
    called = "clusterrole.rbac.authorization.k8s.io/view"
    assert said(run(*policy, "add-cluster-role-to-user", "view", "ann")) == (0, f'{called} added: "ann"\n', "")
    place = f"{RBAC}/clusterrolebindings/view-0"
    assert gateway.objects[place]["subjects"] == [ANN], "the name of the role was taken"
    account = "system:serviceaccount:shop:robot"
    done = run(*policy, "add-cluster-role-to-user", "view", "ann", "bob", account)
    assert done.stdout == f'{called} added: ["ann" "bob" "{account}"]\n'
    robot = {"kind": "ServiceAccount", "namespace": "shop", "name": "robot"}
    assert gateway.objects[place]["subjects"] == [ANN, BOB, robot]
    assert run(*policy, "add-cluster-role-to-group", "view", "ops").exit_code == 0
    assert gateway.objects[place]["subjects"][3]["kind"] == "Group"
    assert run(*policy, "remove-cluster-role-from-group", "view", "ops").stdout == f'{called} removed: "ops"\n'
    run(*policy, "remove-cluster-role-from-user", "view", "ann", "bob", account)
    assert place not in gateway.objects, "a binding without subjects goes"
    assert gateway.objects[f"{RBAC}/clusterrolebindings/view"]["subjects"] == [ANN]
    assert run(*policy, "add-cluster-role-to-user", "nothing", "ann").exit_code == 1


def test_roles_of_a_namespace(gateway: FakeGateway, run: Run) -> None:
    gateway.put(f"{RBAC}/clusterroles/view", role(READ, name="view"))
    gateway.put(f"{RBAC}/namespaces/shop/roles/own", {**role(READ, name="own"), "kind": "Role"})
    policy = ("adm", "policy")
    assert run(*policy, "add-role-to-user", "view", "ann", "-n", "shop").exit_code == 0
    assert run(*policy, "add-role-to-group", "own", "ops", "-n", "shop", "--role-namespace=shop").exit_code == 0
    found = gateway.objects[f"{RBAC}/namespaces/shop/rolebindings/own"]
    assert (found["roleRef"]["kind"], found["subjects"][0]["name"]) == ("Role", "ops")
    assert gateway.objects[f"{RBAC}/namespaces/shop/rolebindings/view"]["roleRef"]["kind"] == "ClusterRole"
    assert run(*policy, "remove-role-from-user", "view", "ann", "-n", "shop").exit_code == 0
    assert run(*policy, "remove-role-from-group", "own", "ops", "-n", "shop", "--role-namespace=shop").exit_code == 0
    assert [place for place in gateway.objects if "bindings" in place] == []
