"""Nobody hands out what he does not have."""

from __future__ import annotations

from tests.support.tables import table

from moorage.apiserver.rbac.rules import EVERYTHING, PolicyRule, missing_rules, refusal
from moorage.decide.kubernetes.attributes import User

ANN = User("ann", ("dev", "system:authenticated"))


def rule(verbs: str, resources: str = "", names: str = "", *, groups: str = ",") -> PolicyRule:
    """A rule from lists with commas."""
    found = [tuple(text.split(",")) if text else () for text in (verbs, resources, names)]
    return PolicyRule(found[0], tuple(dict.fromkeys(groups.split(","))), found[1], found[2])


def paths(verbs: str, urls: str) -> PolicyRule:
    return PolicyRule(tuple(verbs.split(",")), non_resource_urls=tuple(urls.split(",")))


@table(
    ("held", "given", "covered"),
    [
        ([rule("get,list", "pods")], [rule("get", "pods")], True),
        ([rule("get", "pods"), rule("list", "pods")], [rule("get,list", "pods")], True),
        ([rule("get", "pods")], [rule("get,list", "pods")], False),
        ([rule("*", "pods")], [rule("anything", "pods")], True),
        ([rule("get", "pods")], [rule("*", "pods")], False),
        ([rule("get", "*")], [rule("get", "pods/status")], True),
        ([rule("get", "*/status")], [rule("get", "pods/status")], True),
        ([rule("get", "*/status")], [rule("get", "pods/log")], False),
        ([rule("get", "pods/status")], [rule("get", "*/status")], False),
        ([rule("get", "pods")], [rule("get", "pods/status")], False),
        ([rule("get", "pods")], [rule("get", "pods", "web")], True),
        ([rule("get", "pods", "web")], [rule("get", "pods")], False),
        ([rule("get", "pods", "web,db")], [rule("get", "pods", "db")], True),
        ([rule("get", "pods", "web")], [rule("get", "pods", "web,db")], False),
        ([rule("get", "pods", groups="*")], [rule("get", "pods", groups="apps")], True),
        ([paths("get", "/healthz/*")], [paths("get", "/healthz/ping")], True),
        ([paths("get", "/healthz/*")], [paths("get", "/healthz")], False),
        ([paths("get", "*")], [paths("get", "/metrics")], True),
        (EVERYTHING, EVERYTHING, True),
        ([EVERYTHING[0]], EVERYTHING, False),
        ([], [], True),
        ([], [rule("get")], True),
    ],
)
def test_covers(held: list[PolicyRule], given: list[PolicyRule], covered: bool) -> None:  # noqa: FBT001 - a column of the table
    assert (missing_rules(held, given) == []) is covered


def test_what_is_missing_is_told_in_upstreams_words() -> None:
    given = [
        rule("list,get", "pods", groups="apps"),
        rule("delete", "pods", "web", groups="apps"),
        paths("get", "/metrics"),
        rule("get", "pods", groups="apps"),
    ]
    assert refusal(ANN, missing_rules([], given), []) == (
        'user "ann" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:["apps"], Resources:["pods"], ResourceNames:["web"], Verbs:["delete"]}\n'
        '{APIGroups:["apps"], Resources:["pods"], Verbs:["list" "get" "get"]}\n'
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}'
    )
    told = refusal(User("bob"), missing_rules([], [paths("get", "/x")]), ["a is gone", "b is gone", "a is gone"])
    assert told == (
        'user "bob" (groups=[]) is attempting to grant RBAC permissions not currently held:\n'
        '{NonResourceURLs:["/x"], Verbs:["get"]}; resolution errors: [[a is gone, b is gone]]'
    )
