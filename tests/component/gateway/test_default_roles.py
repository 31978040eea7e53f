"""Every fleet has Kubernetes' roles, as far as they mean something, and Moorage's own for those who work with it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json

from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.authorization.default_roles import default_bindings, default_roles
from moorage.apiserver.http.discovery import groups
from moorage.apiserver.http.discovery.reviews import REVIEWS
from moorage.apiserver.kinds.kind import discovered
from moorage.apiserver.machinery.served_kinds import served_at
from moorage.apiserver.rbac.rules import rules_of
from moorage.decide.kubernetes.attributes import Attributes, User

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE_VIEW = f"{RBAC}/clusterroles/system:aggregate-to-view"
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"

ELSEWHERE = {
    ("moorage.io", "clustermirrors"),
    ("moorage.io", "clusters"),
    ("moorage.io", "conditionreports/any"),
    ("", "bindings"),
    ("", "nodes/metrics"),
    ("", "serviceaccounts/token"),
    ("apps", "deployments/rollback"),
    ("authentication.k8s.io", "tokenreviews"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("cluster.open-cluster-management.io", "managedclustersets/bind"),
    ("cluster.open-cluster-management.io", "managedclustersets/join"),
    ("clusterview.open-cluster-management.io", "managedclusters"),
    ("clusterview.open-cluster-management.io", "managedclustersets"),
    ("register.open-cluster-management.io", "managedclusters/accept"),
    ("moorage.io", "conditionreports"),
    ("moorage.io", "simulations"),
    ("moorage.io", "decisions"),
    ("moorage.io", "explanations"),
}
"""Resources that are no kinds: Kubernetes' roles name them, or they are asked for at other paths."""


async def started(gateway: Fixture) -> None:
    """Let a gateway begin to lead."""
    await gateway.app.state.first_content.run()


async def test_a_fleet_begins_with_them_and_a_restart_writes_nothing() -> None:
    gateway = Fixture()
    await started(gateway)
    found = (await gateway.ok("GET", f"{RBAC}/clusterroles"))["items"]
    assert {one["metadata"]["name"] for one in found} == {one["metadata"]["name"] for one in default_roles()}
    found = (await gateway.ok("GET", f"{RBAC}/clusterrolebindings"))["items"]
    assert {one["metadata"]["name"] for one in found} == {one["metadata"]["name"] for one in default_bindings()}
    assert {one["metadata"]["labels"]["kubernetes.io/bootstrapping"] for one in found} == {"rbac-defaults"}
    async with gateway.running():
        await gateway.settled()
    written = len(gateway.log.written)
    await started(gateway)
    async with gateway.running():
        await gateway.settled()
    assert len(gateway.log.written) == written


async def test_what_is_missing_comes_back_and_what_was_added_stays() -> None:
    gateway = Fixture()
    await started(gateway)
    await gateway.ok("DELETE", f"{RBAC}/clusterroles/edit")
    added = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]}
    changed = {"metadata": {"labels": {"kubernetes.io/bootstrapping": None, "mine": "yes"}}, "rules": [added]}
    before = (await gateway.ok("GET", ROLE_VIEW))["rules"]
    await gateway.ok("PATCH", ROLE_VIEW, changed)
    await gateway.ok("PATCH", f"{RBAC}/clusterrolebindings/system:discovery", {"subjects": [subject("everybody")]})
    await started(gateway)
    view = await gateway.ok("GET", ROLE_VIEW)
    assert view["rules"][0] == added
    assert held(view["rules"]) >= held(before)
    assert view["metadata"]["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
    assert view["metadata"]["labels"]["mine"] == "yes"
    assert await gateway.status(f"{RBAC}/clusterroles/edit") == 200
    found = await gateway.ok("GET", f"{RBAC}/clusterrolebindings/system:discovery")
    assert [one["name"] for one in found["subjects"]] == ["everybody", "system:authenticated"]


async def test_what_is_marked_is_left_alone() -> None:
    gateway = Fixture()
    await started(gateway)
    marked = {"metadata": {"annotations": {AUTOUPDATE: "false"}}}
    await gateway.ok("PATCH", ROLE_VIEW, {**marked, "rules": []})
    await gateway.ok("PATCH", f"{RBAC}/clusterrolebindings/system:discovery", {**marked, "subjects": []})
    written = len(gateway.log.written)
    await started(gateway)
    assert len(gateway.log.written) == written


async def test_a_binding_to_another_role_is_replaced() -> None:
    gateway = Fixture()
    other = {
        "metadata": {"name": "system:discovery"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [subject("all")],
    }
    await gateway.ok("POST", f"{RBAC}/clusterrolebindings", other)
    await started(gateway)
    found = await gateway.ok("GET", f"{RBAC}/clusterrolebindings/system:discovery")
    assert (found["roleRef"]["name"], [one["name"] for one in found["subjects"]]) == (
        "system:discovery",
        ["system:authenticated"],
    )


def subject(group: str) -> Json:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}


def held(rules: list[Any]) -> set[tuple[str, str, str]]:
    """Rules as (group, resource, verb)."""
    return {
        (group, resource, verb)
        for rule in rules_of(rules)
        for group in rule.api_groups
        for resource in rule.resources
        for verb in rule.verbs
    }


def test_roles_name_what_is_served() -> None:
    reviews = {(one.group, one.plural) for one in REVIEWS}
    unknown = set()
    for role in default_roles():
        for group, resource, _ in held(role["rules"]):
            plural, _, subresource = resource.partition("/")
            kinds = [kind for kind in discovered() if plural == kind.plural and group in {kind.group, "events.k8s.io"}]
            known = [one for one in kinds if not subresource or subresource in subresources(one)]
            if "*" not in {group, resource} and not known and (group, resource) not in reviews | ELSEWHERE:
                unknown.add((role["metadata"]["name"], group, resource))
    assert unknown == set()
    assert served_at("events.k8s.io", "v1", "events") is not None
    assert groups.has_group("authentication.k8s.io")


def subresources(kind: Any) -> tuple[str, ...]:
    return (*kind.subresources, *kind.container_subresources)


def test_whoever_views_a_namespace_sees_every_kind_of_it() -> None:
    viewed = {
        (group, resource)
        for role in default_roles()
        if "rbac.authorization.k8s.io/aggregate-to-view" in role["metadata"]["labels"]
        for group, resource, _ in held(role["rules"])
    }
    of_namespaces = {(kind.group, kind.plural) for kind in discovered() if kind.namespaced}
    hidden = {("", "secrets"), ("coordination.k8s.io", "leases")}
    permissions = {("rbac.authorization.k8s.io", "roles"), ("rbac.authorization.k8s.io", "rolebindings")}
    assert of_namespaces - viewed == hidden | permissions, "as in Kubernetes"


async def aggregated() -> Fixture:
    """A gateway whose aggregated roles have their rules."""
    gateway = Fixture()
    await started(gateway)
    async with gateway.running():
        await gateway.settled()
    return gateway


async def rules(gateway: Fixture, name: str) -> set[tuple[str, str, str]]:
    return held((await gateway.ok("GET", f"{RBAC}/clusterroles/{name}"))["rules"])


async def test_admin_is_more_than_edit_and_edit_more_than_view() -> None:
    gateway = await aggregated()
    view, edit, admin = [await rules(gateway, name) for name in ("view", "edit", "admin")]
    assert view < edit < admin
    assert ("", "pods", "get") in view
    assert ("", "secrets", "get") in edit - view
    assert ("rbac.authorization.k8s.io", "roles", "create") in admin - edit


async def test_aggregated_roles_follow_those_that_they_select() -> None:
    gateway = await aggregated()
    rule = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["things"]}
    mine = {
        "metadata": {"name": "mine", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [rule],
    }
    async with gateway.running():
        await gateway.ok("POST", f"{RBAC}/clusterroles", mine)
        await gateway.settled()
        for name in ("view", "edit", "admin", "moorage:viewer", "moorage:operator"):
            assert ("example.com", "things", "get") in await rules(gateway, name)
        await gateway.ok("PATCH", f"{RBAC}/clusterroles/view", {"rules": []})
        await gateway.settled()
        assert ("", "pods", "get") in await rules(gateway, "view"), "what somebody writes there does not stay"
        await gateway.ok("DELETE", f"{RBAC}/clusterroles/mine")
        await gateway.settled()
        assert ("example.com", "things", "get") not in await rules(gateway, "admin")


@pytest.mark.parametrize(
    ("role", "allowed", "refused"),
    [
        ("moorage:probe", {"create conditionreports"}, {"get nodes", "list evictions", "create pods"}),
        (
            "moorage:deployer",
            {"create conditionreports", "watch bindings", "watch evictions", "list pods"},
            {"list nodes", "get secrets", "patch nodes", "create evictionpauses", "delete pods"},
        ),
        (
            "moorage:viewer",
            {"list nodes", "watch evictions", "get moorageconfigurations", "list pods"},
            {"create conditionreports", "get secrets", "patch nodes", "create evictionpauses", "list roles"},
        ),
        (
            "moorage:operator",
            {
                "patch nodes",
                "create evictionpauses",
                "update moorageconfigurations",
                "create evictionbudgets",
                "create conditionreports",
                "delete pods",
                "create deadletters/replay",
            },
            {"create clusterroles", "create rolebindings", "bind clusterroles", "get secrets", "create pods"},
        ),
    ],
)
async def test_what_moorages_roles_permit(role: str, allowed: set[str], refused: set[str]) -> None:
    gateway = await aggregated()
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [subject("team")],
    }
    await gateway.ok("POST", f"{RBAC}/clusterrolebindings", binding)
    authorizer, user = Authorizer(gateway.store), User("ann", ("team",))
    for line in allowed | refused:
        verb, resource = line.split()
        plural, _, subresource = resource.partition("/")
        owner = next((kind.group for kind in discovered() if kind.plural == plural), "moorage.io")
        asked = Attributes(verb, owner, "", plural, subresource, "shop")
        assert authorizer.authorize(user, asked).allowed is (line in allowed), line


async def test_the_rules_of_an_aggregated_role_are_owned_by_its_controller() -> None:
    gateway = await aggregated()
    async with gateway.running():
        await gateway.ok("PATCH", f"{RBAC}/clusterroles/view", {"rules": []})
        await gateway.settled()
    found = (await gateway.ok("GET", f"{RBAC}/clusterroles/view"))["metadata"]["managedFields"]
    (entry,) = (one for one in found if one["manager"] == "clusterrole-aggregation-controller")
    assert (entry["operation"], entry["apiVersion"]) == ("Apply", "rbac.authorization.k8s.io/v1")
    assert entry["fieldsV1"] == {"f:rules": {}}
    others = [one for one in found if one is not entry]
    assert all("f:rules" not in one["fieldsV1"] for one in others), "they are taken over"
