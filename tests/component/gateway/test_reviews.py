"""Access reviews answer for the one administrator that there is."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
WHOAMI = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
ASKED = {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "shop"}}
PATHS = {"nonResourceAttributes": {"verb": "get", "path": "/healthz"}}


@pytest.mark.parametrize(
    ("path", "spec", "allowed"),
    [
        ("selfsubjectaccessreviews", ASKED, True),
        ("selfsubjectaccessreviews", PATHS, True),
        ("subjectaccessreviews", {**ASKED, "user": "moorage:admin"}, True),
        ("subjectaccessreviews", {**ASKED, "user": "ann", "groups": ["system:masters"]}, True),
        ("subjectaccessreviews", {**ASKED, "user": "ann"}, False),
        ("namespaces/shop/localsubjectaccessreviews", {**ASKED, "user": "ann"}, False),
    ],
)
async def test_who_may_do_what(path: str, spec: Any, allowed: bool) -> None:  # noqa: FBT001 - a column of the table
    gateway = Fixture()
    found = await gateway.ok("POST", f"{AUTHORIZATION}/{path}", {"spec": spec})
    assert (found["status"]["allowed"], found["spec"]) == (allowed, spec)
    assert gateway.log.written == []


async def test_the_rules_of_the_administrator_allow_everything() -> None:
    found = await Fixture().ok("POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "shop"}})
    assert found["status"] == {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }


async def test_who_the_caller_is() -> None:
    found = await Fixture().ok("POST", WHOAMI, {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"})
    assert found["status"]["userInfo"] == {
        "username": "moorage:admin",
        "groups": ["system:masters", "system:authenticated"],
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason"),
    [
        ("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {}}, 422, "Invalid"),
        ("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": {**ASKED, **PATHS}}, 422, "Invalid"),
        ("POST", f"{AUTHORIZATION}/subjectaccessreviews", {"spec": ASKED}, 422, "Invalid"),
        ("POST", f"{AUTHORIZATION}/selfsubjectaccessreviews", {"spec": 7}, 400, "BadRequest"),
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
