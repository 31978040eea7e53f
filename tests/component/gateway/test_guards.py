"""Nobody hands out what he does not have, and sets of clusters are changed only by those who may."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json

from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.authorization.guards import WriteGuards
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.machinery.served_kinds import served_at
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.writing.object_records import Caller
from moorage.apiserver.writing.writer import Writer
from moorage.decide.kubernetes.attributes import User

RBAC = "rbac.authorization.k8s.io"
OCM = "cluster.open-cluster-management.io"
ANN = User("ann", ("devs", "system:authenticated"))
READ: Json = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}
DELETE: Json = {"verbs": ["delete"], "apiGroups": [""], "resources": ["pods"]}
ALL: Json = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
TOLD = (
    'user "ann" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
    '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
)


def kind_of(plural: str) -> ServedKind:
    group, version = (OCM, "v1" if plural == "managedclusters" else "v1beta2") if "managed" in plural else (RBAC, "v1")
    found = served_at(group, version, plural)
    assert found is not None
    return found


def role(name: str, *rules: Json, **fields: Any) -> Json:
    return {"metadata": {"name": name}, "rules": list(rules), **fields}


def binding(name: str, role_name: str, kind: str = "ClusterRole", user: str = "ann") -> Json:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role_name},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }


class World:
    """A gateway in which `ann` has some rules."""

    def __init__(self) -> None:
        self.gateway = Fixture()
        store, log, clock = self.gateway.store, self.gateway.log, self.gateway.clock
        self.writer = Writer(store, log, clock, FeatureGates, WriteGuards(Authorizer(store)))

    async def has(self, *rules: Json, namespace: str = "") -> None:
        """Give her rules, instead of those that she had there."""
        name = f"of-ann-{namespace or 'all'}"
        await self.remove("clusterroles", name)
        await self.create("clusterroles", role(name, *rules), user=None)
        plural = "rolebindings" if namespace else "clusterrolebindings"
        await self.remove(plural, name, namespace)
        await self.create(plural, binding(name, name), namespace, user=None)

    async def create(self, plural: str, document: Json, namespace: str = "", user: User | None = ANN) -> None:
        kind = kind_of(plural)
        metadata = {**document["metadata"], **({"namespace": namespace} if namespace else {})}
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **document, "metadata": metadata}
        await self.writer.create(kind, whole, Caller("ann", user=user))

    async def change(self, plural: str, name: str, fields: Json, namespace: str = "", user: User | None = ANN) -> None:
        kind = kind_of(plural)
        await self.writer.change(
            kind, ObjectId(kind.kind, namespace, name), lambda now: merged(now, fields), "update", Caller(user=user)
        )

    async def remove(self, plural: str, name: str, namespace: str = "") -> None:
        group = f"/apis/{RBAC}/v1" + (f"/namespaces/{namespace}" if namespace else "")
        await self.gateway.call("DELETE", f"{group}/{plural}/{name}")

    async def refused(self, plural: str, document: Json, namespace: str = "") -> str:
        """The refusal of a creation."""
        with pytest.raises(StatusError) as refusal:
            await self.create(plural, document, namespace)
        assert (refusal.value.code, refusal.value.reason) in {(403, "Forbidden"), (404, "NotFound")}
        return refusal.value.message

    async def not_changed(self, plural: str, name: str, fields: Json, namespace: str = "") -> str:
        """The refusal of a change."""
        with pytest.raises(StatusError) as refusal:
            await self.change(plural, name, fields, namespace)
        return refusal.value.message


def merged(document: Json, fields: Json) -> Json:
    found = dict(document)
    for name, value in fields.items():
        found[name] = merged(found.get(name) or {}, value) if isinstance(value, dict) else value
    return found


async def test_a_role_gives_only_what_its_writer_has() -> None:
    world = World()
    await world.has(READ)
    await world.create("clusterroles", role("read", READ))
    told = await world.refused("clusterroles", role("more", READ, DELETE))
    assert told == f'clusterroles.{RBAC} "more" is forbidden: {TOLD}'
    told = await world.not_changed("clusterroles", "read", {"rules": [READ, DELETE]})
    assert told == f'clusterroles.{RBAC} "read" is forbidden: {TOLD}'
    await world.has(READ, DELETE)
    await world.change("clusterroles", "read", {"rules": [READ, DELETE]})


async def test_a_role_of_a_namespace_needs_only_what_one_has_there() -> None:
    world = World()
    await world.has(DELETE, namespace="shop")
    await world.create("roles", role("r", DELETE), "shop")
    assert await world.refused("roles", role("r", DELETE), "pool") == f'roles.{RBAC} "r" is forbidden: {TOLD}'
    assert await world.refused("clusterroles", role("r", DELETE)) == f'clusterroles.{RBAC} "r" is forbidden: {TOLD}'


async def test_who_may_escalate_writes_any_role() -> None:
    world = World()
    escalate = {"verbs": ["escalate"], "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["r"]}
    await world.create("clusterroles", role("r", READ), user=None)
    await world.has(escalate)
    await world.change("clusterroles", "r", {"rules": [DELETE]})
    assert TOLD in await world.refused("clusterroles", role("q", DELETE)), "a creation names no object"
    await world.has({**escalate, "resourceNames": []})
    await world.create("clusterroles", role("q", DELETE))


async def test_who_owns_a_role_and_when_it_goes_needs_no_rights() -> None:
    world = World()
    await world.create("clusterroles", role("r", DELETE), user=None)
    await world.has(READ)
    await world.change("clusterroles", "r", {"metadata": {"finalizers": ["example.com/x"]}})
    assert TOLD in await world.not_changed("clusterroles", "r", {"metadata": {"labels": {"a": "b"}}})


async def test_an_aggregated_role_needs_all_rights() -> None:
    world = World()
    selects = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    await world.has({**ALL, "verbs": ["get", "create", "update"]})
    told = f'clusterroles.{RBAC} "r" is forbidden: must have cluster-admin privileges to use the aggregationRule'
    assert await world.refused("clusterroles", role("r", **selects)) == told
    await world.create("clusterroles", role("r", **selects), user=None)
    assert await world.not_changed("clusterroles", "r", {"metadata": {"labels": {"x": "y"}}}) == told
    assert await world.not_changed("clusterroles", "r", {"aggregationRule": None}) == told
    await world.has(ALL)
    await world.change("clusterroles", "r", {"aggregationRule": None})


async def test_a_binding_gives_only_what_its_writer_has() -> None:
    world = World()
    await world.create("clusterroles", role("delete", DELETE), user=None)
    await world.create("roles", role("delete", DELETE), "shop", user=None)
    await world.has(READ)
    told = await world.refused("clusterrolebindings", binding("b", "delete"))
    assert told == f'clusterrolebindings.{RBAC} "b" is forbidden: {TOLD}'
    for kind in ("Role", "ClusterRole"):
        told = await world.refused("rolebindings", binding("b", "delete", kind), "shop")
        assert told == f'rolebindings.{RBAC} "b" is forbidden: {TOLD}'
    await world.has(DELETE, namespace="shop")
    await world.create("rolebindings", binding("b", "delete", user="bob"), "shop")
    subjects = [{"apiGroup": RBAC, "kind": "User", "name": "eve"}]
    await world.change("rolebindings", "b", {"subjects": subjects}, "shop")
    await world.has(READ, namespace="shop")
    assert TOLD in await world.not_changed("rolebindings", "b", {"subjects": []}, "shop")
    await world.change("rolebindings", "b", {"metadata": {"finalizers": ["example.com/x"]}}, "shop")


async def test_who_may_bind_a_role_need_not_have_it() -> None:
    world = World()
    await world.create("clusterroles", role("delete", DELETE), user=None)
    bind = {"verbs": ["bind"], "apiGroups": [RBAC], "resources": ["clusterroles"], "resourceNames": ["delete"]}
    await world.has(bind, namespace="shop")
    await world.create("rolebindings", binding("b", "delete"), "shop")
    assert TOLD in await world.refused("clusterrolebindings", binding("b", "delete"))
    assert TOLD in await world.refused("rolebindings", binding("b", "delete"), "pool")


async def test_a_binding_to_a_role_that_is_not_there() -> None:
    world = World()
    told = await world.refused("rolebindings", binding("b", "gone", "Role"), "shop")
    assert told == f'rolebindings.{RBAC} "gone" not found', "as Kubernetes says it"
    told = await world.refused("clusterrolebindings", binding("b", "gone"))
    assert told == f'clusterrolebindings.{RBAC} "gone" not found'
    bind = {"verbs": ["bind"], "apiGroups": [RBAC], "resources": ["clusterroles"]}
    await world.has(bind)
    await world.create("clusterrolebindings", binding("b", "gone"))


async def test_a_binding_keeps_its_role() -> None:
    world = World()
    await world.create("clusterroles", role("delete", DELETE), user=None)
    await world.create("clusterrolebindings", binding("b", "delete"), user=None)
    with pytest.raises(StatusError) as refusal:
        await world.change("clusterrolebindings", "b", {"roleRef": {"name": "other"}}, user=None)
    assert refusal.value.message == (
        f'ClusterRoleBinding.{RBAC} "b" is invalid: roleRef: Invalid value: '
        f'{{"APIGroup":"{RBAC}","Kind":"ClusterRole","Name":"other"}}: field is immutable'
    )


async def test_the_gateway_itself_and_masters_write_everything() -> None:
    world = World()
    await world.create("clusterroles", role("a", DELETE), user=None)
    await world.create("clusterroles", role("b", DELETE), user=User("root", ("system:masters",)))


async def test_requests_are_guarded_by_their_user() -> None:
    world = World()
    await world.has({"verbs": ["create", "patch"], "apiGroups": [RBAC], "resources": ["clusterroles"]})
    path, headers = f"/apis/{RBAC}/v1/clusterroles", {"impersonate-user": "ann", "impersonate-group": "devs"}
    refused = await world.gateway.call("POST", path, role("r", DELETE), headers=headers)
    assert (refused.status_code, refused.json()["message"]) == (403, f'clusterroles.{RBAC} "r" is forbidden: {TOLD}')
    await world.gateway.ok("POST", path, role("r"), headers=headers)
    applied = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", **role("r", DELETE)}
    for media in ("application/merge-patch+json", "application/apply-patch+yaml"):
        answer = await world.gateway.call(
            "PATCH",
            f"{path}/r?fieldManager=x",
            applied,
            headers={**headers, "content-type": media},
        )
        assert (answer.status_code, TOLD in answer.json()["message"]) == (403, True), media


def may(verb: str, resource: str, name: str, group: str = OCM) -> Json:
    return {"verbs": [verb], "apiGroups": [group], "resources": [resource], "resourceNames": [name]}


async def test_a_cluster_joins_and_leaves_the_sets_that_one_may_change() -> None:
    world = World()
    told = f'managedclustersets/join.{OCM} "{{0}}" is forbidden: user "ann" cannot add/remove a ManagedCluster to/from '
    told += 'ManagedClusterSet "{0}"'
    joined = {"metadata": {"labels": {f"{OCM}/clusterset": "a"}}}
    await world.has(may("create", "managedclustersets/join", "a"))
    assert await world.refused("managedclusters", {"metadata": {"name": "c"}}) == told.format("default")
    await world.create("managedclusters", {"metadata": {"name": "c1", **joined["metadata"]}})
    await world.create("managedclusters", {"metadata": {"name": "c2"}}, user=None)
    assert await world.not_changed("managedclusters", "c2", joined) == told.format("default")
    left = {"metadata": {"labels": {f"{OCM}/clusterset": "b"}}}
    assert await world.not_changed("managedclusters", "c1", left) == told.format("b")
    await world.has(may("create", "managedclustersets/join", "b"))
    assert await world.not_changed("managedclusters", "c1", left) == told.format("a")
    await world.has({**may("create", "managedclustersets/join", "b"), "resourceNames": ["a", "b"]})
    await world.change("managedclusters", "c1", left)
    await world.has(READ)
    await world.change("managedclusters", "c1", {"metadata": {"labels": {"x": "y"}}})


async def test_a_cluster_is_accepted_by_those_who_may() -> None:
    world = World()
    await world.create("managedclusters", {"metadata": {"name": "c1"}}, user=None)
    accepted = {"spec": {"hubAcceptsClient": True}}
    told = await world.not_changed("managedclusters", "c1", accepted)
    assert told == (
        f'managedclusters/accept.{OCM} "c1" is forbidden: user "ann" cannot update the HubAcceptsClient field'
    )
    await world.has(may("update", "managedclusters/accept", "c1", "register.open-cluster-management.io"))
    await world.change("managedclusters", "c1", accepted)
    await world.has(READ)
    await world.change("managedclusters", "c1", {"spec": {"hubAcceptsClient": False}})


async def test_a_set_is_bound_by_those_who_may() -> None:
    world = World()
    bound = {"metadata": {"name": "a"}, "spec": {"clusterSet": "a"}}
    told = await world.refused("managedclustersetbindings", bound, "shop")
    assert told == f'managedclustersets/bind.{OCM} "a" is forbidden: user "ann" is not allowed to bind cluster set "a"'
    await world.has(may("create", "managedclustersets/bind", "a"))
    await world.create("managedclustersetbindings", bound, "shop")
