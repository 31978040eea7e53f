"""Who may do what by roles and bindings, and Kubernetes' reasons."""

from __future__ import annotations

from typing import Any

from moorage.apiserver.rbac.bindings import RoleBinding, RoleKey
from moorage.apiserver.rbac.policy import RbacPolicy
from moorage.apiserver.rbac.rules import PolicyRule
from moorage.decide.kubernetes.attributes import Attributes, User
from moorage.decide.kubernetes.names import account_groups, account_user

READ_PODS = PolicyRule(("get", "list"), ("",), ("pods",))
READ_NODES = PolicyRule(("get", "list"), ("",), ("nodes",))
ANN = User("ann", ("dev", "system:authenticated"))
ROBOT = User(account_user("shop", "robot"), account_groups("shop"))
LIST_PODS = Attributes("list", resource="pods", namespace="shop")


def bound(policy: RbacPolicy, name: str, role: str, *subjects: tuple[str, str], namespace: str = "") -> None:
    """Bind a role, which is of the namespace if its name has a slash."""
    kind = "Role" if role.startswith("/") else "ClusterRole"
    document: dict[str, Any] = {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": role.lstrip("/")},
        "subjects": [subject(*one) for one in subjects],
    }
    policy.put_binding(RoleBinding.of(namespace, document))


def subject(kind: str, name: str) -> dict[str, str]:
    if kind == "ServiceAccount":
        namespace, _, name = name.rpartition("/")
        return {"kind": kind, "name": name, **({"namespace": namespace} if namespace else {})}
    return {"kind": kind, "name": name}


def shop() -> RbacPolicy:
    """A policy with a role of the namespace and one of all."""
    policy = RbacPolicy()
    policy.put_role(RoleKey("", "nodes"), [READ_NODES])
    policy.put_role(RoleKey("", "pods"), [READ_PODS])
    policy.put_role(RoleKey("shop", "pods"), [READ_PODS])
    return policy


def test_a_binding_of_the_fleet_counts_everywhere() -> None:
    policy = shop()
    bound(policy, "readers", "pods", ("User", "bob"), ("User", "ann"))
    told = 'RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "pods" to User "ann"'
    for namespace in ("shop", "other", ""):
        found = policy.authorize(ANN, Attributes("list", resource="pods", namespace=namespace))
        assert (found.allowed, found.reason) == (True, told)


def test_a_binding_of_a_namespace_counts_there() -> None:
    policy = shop()
    bound(policy, "readers", "pods", ("Group", "dev"), namespace="shop")
    found = policy.authorize(ANN, LIST_PODS)
    told = 'RBAC: allowed by RoleBinding "readers/shop" of ClusterRole "pods" to Group "dev"'
    assert (found.allowed, found.reason) == (True, told)
    assert not policy.authorize(ANN, Attributes("list", resource="pods", namespace="other")).allowed
    assert not policy.authorize(ANN, Attributes("list", resource="pods")).allowed, "not in all namespaces"


def test_service_accounts() -> None:
    policy = shop()
    bound(policy, "robots", "/pods", ("ServiceAccount", "robot"), namespace="shop")
    told = 'RBAC: allowed by RoleBinding "robots/shop" of Role "pods" to ServiceAccount "robot/shop"'
    assert policy.authorize(ROBOT, LIST_PODS).reason == told
    bound(policy, "all", "nodes", ("ServiceAccount", "robot"))
    nodes = Attributes("list", resource="nodes")
    assert not policy.authorize(ROBOT, nodes).allowed, "an account without a namespace is nobody in all namespaces"
    bound(policy, "all", "nodes", ("ServiceAccount", "shop/robot"))
    told = 'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "nodes" to ServiceAccount "robot/shop"'
    assert policy.authorize(ROBOT, nodes).reason == told
    bound(policy, "accounts", "pods", ("Group", "system:serviceaccounts:shop"), namespace="other")
    assert policy.authorize(ROBOT, Attributes("list", resource="pods", namespace="other")).allowed


def test_the_first_subject_that_applies_is_named() -> None:
    policy = shop()
    bound(policy, "readers", "pods", ("Group", "dev"), ("User", "ann"))
    assert policy.authorize(ANN, LIST_PODS).reason.endswith('to Group "dev"')


def test_masters_may_do_everything() -> None:
    found = RbacPolicy().authorize(User("root", ("system:masters",)), Attributes("destroy", resource="worlds"))
    assert (found.allowed, found.reason) == (True, "")


def test_roles_that_are_not_there_are_told() -> None:
    policy = shop()
    bound(policy, "a", "gone", ("User", "ann"))
    bound(policy, "b", "/gone", ("User", "ann"), namespace="shop")
    bound(policy, "c", "gone", ("User", "ann"), namespace="shop")
    found = policy.authorize(ANN, LIST_PODS)
    assert (found.allowed, found.reason) == (
        False,
        (
            'rbac: RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, '
            'role.rbac.authorization.k8s.io "gone" not found]'
        ),
    )
    assert policy.authorize(ANN, Attributes("get", resource="nodes")).reason == (
        'rbac: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found'
    )
    bound(policy, "d", "pods", ("User", "ann"))
    assert policy.authorize(ANN, LIST_PODS).allowed, "others count all the same"


def test_a_role_of_another_kind_is_told() -> None:
    policy = RbacPolicy()
    document = {
        "metadata": {"name": "a"},
        "roleRef": {"kind": "Rule", "name": "x"},
        "subjects": [subject("User", "ann")],
    }
    policy.put_binding(RoleBinding.of("", document))
    assert policy.authorize(ANN, LIST_PODS).reason == 'rbac: RBAC: unsupported role reference kind: "Rule"'


def test_nothing_is_told_to_those_who_are_bound_to_nothing() -> None:
    assert shop().authorize(ANN, LIST_PODS).reason == ""


def test_changes_count_at_once() -> None:
    policy = shop()
    assert not policy.authorize(ANN, LIST_PODS).allowed
    bound(policy, "readers", "pods", ("User", "ann"))
    assert policy.authorize(ANN, LIST_PODS).allowed
    policy.put_role(RoleKey("", "pods"), [READ_NODES])
    assert not policy.authorize(ANN, LIST_PODS).allowed
    policy.put_role(RoleKey("", "pods"), [READ_PODS])
    bound(policy, "readers", "pods", ("User", "bob"))
    assert not policy.authorize(ANN, LIST_PODS).allowed, "she is not named any more"
    bound(policy, "readers", "pods", ("User", "ann"))
    policy.remove_role(RoleKey("", "pods"))
    assert "not found" in policy.authorize(ANN, LIST_PODS).reason
    policy.remove_binding("", "readers")
    policy.remove_binding("", "readers")
    assert policy.authorize(ANN, LIST_PODS).reason == ""


def test_the_rules_of_somebody_in_a_namespace() -> None:
    policy = shop()
    bound(policy, "b", "nodes", ("User", "ann"))
    bound(policy, "a", "/pods", ("User", "ann"), ("Group", "dev"), namespace="shop")
    bound(policy, "c", "gone", ("Group", "dev"))
    found = policy.rules_for(ANN, "shop")
    assert found.rules == (READ_NODES, READ_PODS)
    assert [role.unknown() for role in found.unknown] == ['clusterrole.rbac.authorization.k8s.io "gone" not found']
    assert found.unknown[0].unknown("roles") == 'roles.rbac.authorization.k8s.io "gone" not found'
    assert policy.rules_for(ANN, "other").rules == (READ_NODES,)


def test_many_who_ask_are_not_remembered_for_ever() -> None:
    policy = shop()
    bound(policy, "readers", "pods", ("Group", "dev"))
    for number in range(10_000):
        assert policy.authorize(User(f"u{number}", ("dev",)), LIST_PODS).allowed
    assert len(policy._remembered) <= 4096


def test_those_with_many_bindings_are_remembered_within_limits() -> None:
    policy = shop()
    for number in range(3000):
        bound(policy, f"b{number}", "pods", ("Group", "dev"))
    for number in range(200):
        assert policy.authorize(User(f"u{number}", ("dev",)), LIST_PODS).allowed
    assert sum(map(len, policy._remembered.values())) == policy._size <= 200_000
