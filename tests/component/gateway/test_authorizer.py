"""The gateway knows who may do what by the roles and bindings that it shows."""

from __future__ import annotations

from tests.component.gateway.double import Fixture, Json

from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.storage.store import Store
from moorage.decide.kubernetes.attributes import Attributes, User

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ANN = User("ann", ("system:authenticated",))
ROOT = User("root", ("system:masters",))
LIST_NODES = Attributes("list", resource="nodes")
LIST_PODS = Attributes("list", resource="pods", namespace="shop")


def role(name: str, resource: str) -> Json:
    return {"metadata": {"name": name}, "rules": [{"verbs": ["list"], "apiGroups": [""], "resources": [resource]}]}


def binding(name: str, kind: str, role_name: str) -> Json:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role_name},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
    }


async def test_what_is_written_counts_when_it_is_answered() -> None:
    gateway = Fixture()
    authorizer = Authorizer(gateway.store)
    await gateway.ok("POST", f"{RBAC}/clusterroles", role("nodes", "nodes"))
    await gateway.ok("POST", f"{RBAC}/namespaces/shop/roles", role("pods", "pods"))
    assert not authorizer.authorize(ANN, LIST_NODES).allowed
    await gateway.ok("POST", f"{RBAC}/clusterrolebindings", binding("nodes", "ClusterRole", "nodes"))
    await gateway.ok("POST", f"{RBAC}/namespaces/shop/rolebindings", binding("pods", "Role", "pods"))
    assert authorizer.authorize(ANN, LIST_NODES).allowed
    assert authorizer.authorize(ANN, LIST_PODS).allowed
    assert [rule.resources for rule in authorizer.rules_for(ANN, "shop").rules] == [("nodes",), ("pods",)]
    later = Authorizer(gateway.store)
    assert later.authorize(ANN, LIST_NODES).allowed, "what was there before counts"
    for path in ("clusterroles/nodes", "namespaces/shop/rolebindings/pods"):
        await gateway.ok("DELETE", f"{RBAC}/{path}")
    for one in (authorizer, later):
        assert "not found" in one.authorize(ANN, LIST_NODES).reason
        assert not one.authorize(ANN, LIST_PODS).allowed


async def test_a_gateway_that_has_not_read_everything_lets_only_masters_in() -> None:
    gateway = Fixture()
    authorizer = Authorizer(gateway.store)
    await gateway.ok("POST", f"{RBAC}/clusterroles", role("nodes", "nodes"))
    await gateway.ok("POST", f"{RBAC}/clusterrolebindings", binding("nodes", "ClusterRole", "nodes"))
    await gateway.ok("DELETE", f"{RBAC}/clusterrolebindings/nodes")
    restarted = Store()
    fresh = Authorizer(restarted)
    for record in gateway.log.objects[:-1]:  # all but the deletion
        restarted.apply([record])
    found = fresh.authorize(ANN, LIST_NODES)
    assert (found.allowed, found.reason) == (False, "RBAC: roles and bindings have not been read yet")
    assert fresh.rules_for(ANN, "shop").rules == ()
    assert fresh.authorize(ROOT, LIST_NODES).allowed
    restarted.apply(gateway.log.objects)
    restarted.caught_up = True
    assert fresh.authorize(ANN, LIST_NODES) == authorizer.authorize(ANN, LIST_NODES)
    assert fresh.authorize(ANN, LIST_NODES).reason == ""
