"""Access reviews answer by roles and bindings."""

from __future__ import annotations

from typing import Any

from tests.component.gateway.double import Fixture
from tests.support.tables import table

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ASKED = {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "shop"}}
PATHS = {"nonResourceAttributes": {"verb": "get", "path": "/healthz"}}


@table(
    ("path", "spec", "allowed"),
    [
        ("selfsubjectaccessreviews", ASKED, True),
        ("selfsubjectaccessreviews", PATHS, True),
        ("subjectaccessreviews", {**ASKED, "user": "bob"}, True),
        ("subjectaccessreviews", {**PATHS, "user": "bob"}, False),
        ("subjectaccessreviews", {**ASKED, "user": "eve", "groups": ["makers"]}, True),
        ("namespaces/shop/localsubjectaccessreviews", {**ASKED, "user": "bob"}, True),
        ("subjectaccessreviews", {**ASKED, "user": "ann", "groups": ["system:masters"]}, True),
        ("subjectaccessreviews", {**ASKED, "user": "ann"}, False),
        ("namespaces/shop/localsubjectaccessreviews", {**ASKED, "user": "ann"}, False),
    ],
)
async def test_who_may_do_what(path: str, spec: Any, allowed: bool) -> None:  # noqa: FBT001 - a column of the table
    gateway = await with_roles()
    written = len(gateway.log.written)
    found = await gateway.ok("POST", f"{AUTHORIZATION}/{path}", {"spec": spec})
    assert (found["status"]["allowed"], found["spec"]) == (allowed, spec)
    assert len(gateway.log.written) == written, "a review is kept nowhere"


RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def with_basics() -> Fixture:
    """A gateway where everybody who is authenticated may ask what they may do, and look names up, as in Kubernetes."""
    gateway = Fixture()
    named = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    reviews = {"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": named}
    rules = [reviews, {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*"]}]
    await gateway.ok("POST", f"{RBAC}/clusterroles", {"metadata": {"name": "basics"}, "rules": rules})
    binding = {
        "metadata": {"name": "basics"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "basics"},
        "subjects": [{"kind": "Group", "name": "system:authenticated"}],
    }
    await gateway.ok("POST", f"{RBAC}/clusterrolebindings", binding)
    return gateway


async def with_roles() -> Fixture:
    """A gateway where `bob` and the group `makers` may create pods in one namespace, and read a path."""
    gateway, rbac = await with_basics(), RBAC
    rules = [
        {"verbs": ["create"], "apiGroups": [""], "resources": ["pods"], "resourceNames": []},
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
    ]
    await gateway.ok("POST", f"{rbac}/clusterroles", {"metadata": {"name": "makers"}, "rules": rules})
    binding = {
        "metadata": {"name": "makers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "makers"},
        "subjects": [{"kind": "User", "name": "bob"}, {"kind": "Group", "name": "makers"}],
    }
    await gateway.ok("POST", f"{rbac}/namespaces/shop/rolebindings", binding)
    return gateway


async def test_who_is_allowed_is_told_by_what() -> None:
    gateway = await with_roles()
    told = 'RBAC: allowed by RoleBinding "makers/shop" of ClusterRole "makers" to User "bob"'
    for path, spec in (("selfsubjectaccessreviews", ASKED), ("subjectaccessreviews", {**ASKED, "user": "bob"})):
        headers = BOB if path.startswith("self") else {}
        found = await gateway.ok("POST", f"{AUTHORIZATION}/{path}", {"spec": spec}, headers=headers)
        assert found["status"] == {"allowed": True, "reason": told}


BASIC = {
    "verbs": ["create"],
    "apiGroups": ["authorization.k8s.io"],
    "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
}
PATH_RULE = {"verbs": ["get"], "nonResourceURLs": ["/api", "/api/*"]}


async def test_the_rules_of_somebody_in_a_namespace() -> None:
    gateway = await with_roles()
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    found = await gateway.ok("POST", path, {"spec": {"namespace": "shop"}}, headers=BOB)
    assert (found["metadata"], found["spec"]) == ({}, {}), "as Kubernetes answers"
    assert found["status"] == {
        "resourceRules": [BASIC, {"verbs": ["create"], "apiGroups": [""], "resources": ["pods"]}],
        "nonResourceRules": [PATH_RULE, {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
        "incomplete": False,
    }
    await gateway.ok("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterroles/makers")
    found = await gateway.ok("POST", path, {"spec": {"namespace": "shop"}}, headers=BOB)
    assert found["status"] == {
        "resourceRules": [BASIC],
        "nonResourceRules": [PATH_RULE],
        "incomplete": False,
        "evaluationError": 'clusterrole.rbac.authorization.k8s.io "makers" not found',
    }


async def test_who_the_caller_is() -> None:
    found = await Fixture().ok("POST", WHOAMI, {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"})
    assert found["status"]["userInfo"] == {
        "username": "moorage:admin",
        "groups": ["system:masters", "system:authenticated"],
    }


@table(
    ("method", "path", "body", "code", "reason"),
    [
        ("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {}}, 422, "Invalid"),
        ("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {**ASKED, **PATHS}}, 422, "Invalid"),
        ("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": ASKED}, 422, "Invalid"),
        ("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": 7}, 400, "BadRequest"),
        (
            "POST",
            f"{AUTHORIZATION}/selfsubjectaccessreviews",
            {"metadata": {"name": "a"}, "spec": PATHS},
            422,
            "Invalid",
        ),
        ("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}}, 400, "BadRequest"),
        (
            "POST",
            f"{AUTHORIZATION}/namespaces/b/localsubjectaccessreviews",
            {"spec": {**ASKED, "user": "a"}},
            422,
            "Invalid",
        ),
        ("POST", WHOAMI, {"kind": "Pod", "apiVersion": "v1"}, 400, "BadRequest"),
        ("POST", WHOAMI, [], 400, "BadRequest"),
        ("GET", WHOAMI, None, 405, "MethodNotAllowed"),
        ("POST", f"{AUTHORIZATION}/localsubjectaccessreviews", {"spec": ASKED}, 404, "NotFound"),
        ("POST", f"{AUTHORIZATION}/nothing", {"spec": ASKED}, 404, "NotFound"),
    ],
)
async def test_reviews_that_are_refused(method: str, path: str, body: Any, code: int, reason: str) -> None:
    answer = await Fixture().call(method, path, body)
    assert (answer.status_code, answer.json()["reason"]) == (code, reason)


async def test_discovery_lists_reviews_that_can_only_be_created() -> None:
    found = await Fixture().ok("GET", AUTHORIZATION)
    assert {one["name"]: one["verbs"] for one in found["resources"]} == {
        "localsubjectaccessreviews": ["create"],
        "selfsubjectaccessreviews": ["create"],
        "selfsubjectrulesreviews": ["create"],
        "subjectaccessreviews": ["create"],
    }


BOB = {"impersonate-user": "bob"}


async def test_somebody_who_is_bound_to_nothing_may_do_nothing() -> None:
    """`kubectl auth can-i --as bob` and `kubectl --as bob`."""
    gateway = await with_basics()
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    found = await gateway.ok("POST", path, {"spec": ASKED}, headers=BOB)
    assert found["status"] == {"allowed": False}
    rules = await gateway.ok(
        "POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "a"}}, headers=BOB
    )
    assert rules["status"]["resourceRules"] == [BASIC]
    assert (await gateway.ok("GET", "/api/v1", headers=BOB))["kind"] == "APIResourceList", "clients look names up first"


async def test_whoever_is_in_the_administrators_group_is_one() -> None:
    gateway = Fixture()
    headers = {**BOB, "impersonate-group": "system:masters"}
    found = await gateway.ok("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": ASKED}, headers=headers)
    assert found["status"] == {"allowed": True}
    who = await gateway.ok("POST", WHOAMI, {"apiVersion": "authentication.k8s.io/v1"}, headers=headers)
    assert who["status"]["userInfo"] == {"username": "bob", "groups": ["system:masters", "system:authenticated"]}
    assert await gateway.ok("GET", "/api/v1/nodes", headers=headers)


@table(
    ("method", "path", "told"),
    [
        ("GET", "/api/v1/nodes", 'nodes is forbidden: User "bob" cannot list resource "nodes" in API group ""'),
        ("GET", "/api/v1/nodes?watch=true", 'User "bob" cannot watch resource "nodes"'),
        (
            "GET",
            "/apis/apps/v1/namespaces/shop/deployments/web/scale",
            'cannot get resource "deployments/scale" in API group "apps" in the namespace "shop"',
        ),
        ("POST", "/api/v1/namespaces/shop/pods", 'cannot create resource "pods"'),
        ("PUT", "/api/v1/nodes/n", 'cannot update resource "nodes"'),
        ("PATCH", "/api/v1/nodes/n", 'cannot patch resource "nodes"'),
        ("DELETE", "/api/v1/nodes/n", 'cannot delete resource "nodes"'),
        ("DELETE", "/api/v1/nodes", 'cannot deletecollection resource "nodes"'),
        ("POST", f"{AUTHORIZATION}/subjectaccessreviews", 'cannot create resource "subjectaccessreviews"'),
        (
            "POST",
            f"{AUTHORIZATION}/namespaces/shop/localsubjectaccessreviews",
            'API group "authorization.k8s.io" in the namespace "shop"',
        ),
    ],
)
async def test_requests_as_somebody_else_are_refused(method: str, path: str, told: str) -> None:
    gateway = Fixture()
    answer = await gateway.call(method, path, {"metadata": {"name": "n"}} if method != "GET" else None, headers=BOB)
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert told in answer.json()["message"]
    assert gateway.log.written == []


async def test_a_group_without_a_user_is_refused() -> None:
    answer = await Fixture().call("GET", "/api/v1/nodes", headers={"impersonate-group": "admins"})
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "requested impersonate-group without impersonating a user",
    )
