"""What a rule allows, with every wildcard."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import table

from moorage.apiserver.rbac.rules import PolicyRule, RoleRules, rules_of
from moorage.decide.kubernetes.attributes import Attributes

PODS = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/status"]}
SCALES = {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"]}
NAMED = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one", "two"]}
PATHS = {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/metrics/*", "/logs**"]}
ALL = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}


def asked(verb: str, resource: str, group: str = "", name: str = "") -> Attributes:
    plural, _, subresource = resource.partition("/")
    return Attributes(verb, group=group, resource=plural, subresource=subresource, name=name, namespace="shop")


@table(
    ("rule", "question", "allowed"),
    [
        (PODS, asked("get", "pods"), True),
        (PODS, asked("get", "pods", name="web"), True),
        (PODS, asked("get", "pods/status"), True),
        (PODS, asked("get", "pods/log"), False),
        (PODS, asked("watch", "pods"), False),
        (PODS, asked("get", "pods", "metrics.k8s.io"), False),
        (PODS, asked("get", "*"), False),
        (SCALES, asked("update", "deployments/scale", "apps"), True),
        (SCALES, asked("update", "deployments", "apps"), False),
        (SCALES, asked("update", "deployments/status", "apps"), False),
        (SCALES, asked("update", "scale", "apps"), False),
        (NAMED, asked("get", "secrets", name="two"), True),
        (NAMED, asked("get", "secrets", name="three"), False),
        (NAMED, asked("get", "secrets"), False),
        (ALL, asked("anything", "things/parts", "example.com", "x"), True),
        (ALL, Attributes("get", path="/healthz"), False),
        (PATHS, Attributes("get", path="/healthz"), True),
        (PATHS, Attributes("get", path="/healthz/ping"), False),
        (PATHS, Attributes("get", path="/metrics/slis"), True),
        (PATHS, Attributes("get", path="/metrics"), False),
        (PATHS, Attributes("get", path="/logs"), True),
        (PATHS, Attributes("post", path="/healthz"), False),
        (PATHS, asked("get", "pods"), False),
    ],
)
def test_what_a_rule_allows(rule: dict[str, Any], question: Attributes, allowed: bool) -> None:  # noqa: FBT001 - a column of the table
    assert PolicyRule.of(rule).allows(question) is allowed
    assert RoleRules(rules_of([rule])).allow(question) is allowed


def test_a_role_is_what_all_its_rules_are_together() -> None:
    role = RoleRules(rules_of([PODS, SCALES, NAMED, PATHS]))
    assert role.allow(asked("list", "pods"))
    assert role.allow(asked("patch", "replicasets/scale", "apps"))
    assert role.allow(Attributes("get", path="/metrics/x"))
    assert not role.allow(asked("list", "secrets"))


def test_a_rule_is_shown_as_it_was_said() -> None:
    assert PolicyRule.of(NAMED).document() == NAMED
    assert PolicyRule.of(PATHS).document() == PATHS


@pytest.mark.parametrize("rules", [None, "all", [7, None], {"verbs": ["*"]}])
def test_what_is_no_rule_allows_nothing(rules: Any) -> None:
    assert rules_of(rules) == ()


def test_values_that_are_no_texts_allow_nothing() -> None:
    (rule,) = rules_of([{"verbs": [7, "get"], "apiGroups": "", "resources": ["pods"]}])
    assert rule == PolicyRule(verbs=("get",), resources=("pods",))
    assert not rule.allows(asked("get", "pods"))
