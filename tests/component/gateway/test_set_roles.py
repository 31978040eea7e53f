"""Each set of clusters has a role of those who look after it, and one of those who may look at it."""

from __future__ import annotations

import pytest
from tests.component.gateway.double import Fixture, Json

from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.decide.kubernetes.attributes import Attributes, User

OCM = "cluster.open-cluster-management.io"
SETS = f"/apis/{OCM}/v1beta2/managedclustersets"
CLUSTERS = f"/apis/{OCM}/v1/managedclusters"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NAME = "open-cluster-management:managedclusterset"
ANN = User("ann", ("system:authenticated",))


def cluster(name: str, set_name: str = "") -> Json:
    return {"metadata": {"name": name, "labels": {f"{OCM}/clusterset": set_name} if set_name else {}}}


def asked(verb: str, name: str = "", resource: str = "managedclusters", group: str = OCM) -> Attributes:
    plural, _, subresource = resource.partition("/")
    return Attributes(verb, group, "v1", plural, subresource, "", name)


async def names(gateway: Fixture) -> set[str]:
    found = (await gateway.ok("GET", f"{RBAC}/clusterroles"))["items"]
    return {one["metadata"]["name"] for one in found if one["metadata"]["name"].startswith(NAME)}


async def bind(gateway: Fixture, role: str) -> None:
    """Let ann have a role."""
    binding = {
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    await gateway.ok("POST", f"{RBAC}/clusterrolebindings", binding)


async def test_they_come_with_the_set_and_go_with_it() -> None:
    async with Fixture().running() as gateway:
        made = await gateway.ok("POST", SETS, {"metadata": {"name": "prod"}})
        await gateway.settled()
        assert await names(gateway) == {f"{NAME}:admin:prod", f"{NAME}:view:prod"}
        (owner,) = (await gateway.ok("GET", f"{RBAC}/clusterroles/{NAME}:view:prod"))["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("ManagedClusterSet", made["metadata"]["uid"])
        await gateway.ok("DELETE", f"{SETS}/prod")
        await gateway.settled()
        assert await names(gateway) == set()


async def test_they_are_kept_as_they_should_be() -> None:
    async with Fixture().running() as gateway:
        await gateway.ok("POST", SETS, {"metadata": {"name": "prod"}})
        await gateway.settled()
        view, admin = (f"{RBAC}/clusterroles/{NAME}:{kind}:prod" for kind in ("view", "admin"))
        rules = (await gateway.ok("GET", view))["rules"]
        await gateway.ok("PATCH", view, {"rules": [], "metadata": {"labels": {"mine": "yes"}}})
        await gateway.ok("DELETE", admin)
        await gateway.settled()
        found = await gateway.ok("GET", view)
        assert (found["rules"], found["metadata"]["labels"]["mine"]) == (rules, "yes")
        assert await gateway.status(admin) == 200
    written = len(gateway.log.written)
    async with gateway.running():
        await gateway.settled()
    assert len(gateway.log.written) == written


async def test_a_set_that_is_declared_again_has_roles_again() -> None:
    async with Fixture().running() as gateway:
        for _ in range(2):
            made = await gateway.ok("POST", SETS, {"metadata": {"name": "prod"}})
            await gateway.settled()
            await gateway.ok("DELETE", f"{SETS}/prod")
        made = await gateway.ok("POST", SETS, {"metadata": {"name": "prod"}})
        await gateway.settled()
        (owner,) = (await gateway.ok("GET", f"{RBAC}/clusterroles/{NAME}:view:prod"))["metadata"]["ownerReferences"]
        assert owner["uid"] == made["metadata"]["uid"]


async def test_a_gateway_that_begins_to_lead_makes_those_that_are_missing() -> None:
    gateway = Fixture()
    await gateway.ok("POST", SETS, {"metadata": {"name": "prod"}})
    assert await names(gateway) == set()
    async with gateway.running():
        await gateway.settled()
        assert await names(gateway) == {f"{NAME}:admin:prod", f"{NAME}:view:prod"}


async def world() -> Fixture:
    """A gateway with a set, and clusters in it and elsewhere."""
    gateway = Fixture()
    await gateway.app.state.first_content.run()
    async with gateway.running():
        await gateway.ok("POST", SETS, {"metadata": {"name": "prod"}})
        for name, set_name in (("c1", "prod"), ("c2", "prod"), ("c3", "other"), ("c4", "")):
            await gateway.ok("POST", CLUSTERS, cluster(name, set_name))
        await gateway.settled()
    return gateway


@pytest.mark.parametrize(
    ("role", "allowed", "refused"),
    [
        (
            "view:prod",
            [asked("get", "c1"), asked("list", "c2"), asked("get", "prod", "managedclustersets")],
            [
                asked("get", "c3"),
                asked("get", "c4"),
                asked("get", "nothing"),
                asked("list"),
                asked("patch", "c1"),
                asked("update", "c1", "managedclusters/status"),
                asked("get", "default", "managedclustersets"),
                asked("create", "prod", "managedclustersets/bind"),
            ],
        ),
        (
            "admin:prod",
            [
                asked("get", "c1"),
                asked("patch", "c1"),
                asked("delete", "c2"),
                asked("create"),
                asked("create", "prod", "managedclustersets/join"),
                asked("create", "prod", "managedclustersets/bind"),
                asked("update", "c1", "managedclusters/accept", "register.open-cluster-management.io"),
            ],
            [
                asked("get", "c3"),
                asked("patch", "c4"),
                asked("list"),
                asked("create", "other", "managedclustersets/join"),
                asked("delete", "prod", "managedclustersets"),
            ],
        ),
        ("view:default", [asked("get", "c4")], [asked("get", "c1"), asked("patch", "c4")]),
        ("view:global", [asked("get", "c1"), asked("get", "c4")], [asked("patch", "c1"), asked("list")]),
        ("admin:global", [asked("get", "c1")], [asked("patch", "c1")]),
    ],
)
async def test_what_they_permit(role: str, allowed: list[Attributes], refused: list[Attributes]) -> None:
    gateway = await world()
    await bind(gateway, f"{NAME}:{role}")
    authorizer = Authorizer(gateway.store)
    found = {one: authorizer.authorize(ANN, one).allowed for one in (*allowed, *refused)}
    assert found == {**dict.fromkeys(allowed, True), **dict.fromkeys(refused, False)}
    reason = authorizer.authorize(ANN, allowed[0]).reason
    assert f'ClusterRole "{NAME}:{role}"' in reason


async def test_a_cluster_that_leaves_the_set_is_not_seen_any_more() -> None:
    gateway = await world()
    await bind(gateway, f"{NAME}:view:prod")
    authorizer = Authorizer(gateway.store)
    await gateway.ok("PATCH", f"{CLUSTERS}/c1", {"metadata": {"labels": {f"{OCM}/clusterset": "other"}}})
    assert not authorizer.authorize(ANN, asked("get", "c1")).allowed
    await gateway.ok("PATCH", f"{CLUSTERS}/c3", {"metadata": {"labels": {f"{OCM}/clusterset": "prod"}}})
    assert authorizer.authorize(ANN, asked("get", "c3")).allowed
