"""Whether somebody may hand out permissions: only those that one has.

Source: `k8s.io/component-helpers/auth/rbac/validation` and `k8s.io/kubernetes/pkg/registry/rbac/validation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from moorage.apiserver.rbac.rules import ALL, ALL_WITH, PolicyRule, covers_path, quoted
from moorage.decide.kubernetes.attributes import User

EVERYTHING: Final = (
    PolicyRule(verbs=(ALL,), api_groups=(ALL,), resources=(ALL,)),
    PolicyRule(verbs=(ALL,), non_resource_urls=(ALL,)),
)
"""The rules that allow everything."""


def missing_rules(held: Sequence[PolicyRule], given: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Return what rules give that others do not cover, each with one verb, one resource and one name at most.

    Like Kubernetes, it compares with one rule at a time: two rules that cover a wildcard only together do not cover it.
    """
    return [rule for rule in _broken_down(given) if not any(_covers(one, rule) for one in held)]


def refusal(user: User, missing: Iterable[PolicyRule], errors: Sequence[str]) -> str:
    """Return why somebody may not hand out rules, in Kubernetes' words.

    Args:
        user: who wants to.
        missing: the rules that the user does not have (`missing_rules`).
        errors: why some of the user's rules are not known.
    """
    shown = "\n".join(sorted({str(rule) for rule in _compact(missing)}))
    text = (
        f"user {quoted([user.name])[1:-1]} (groups={quoted(user.groups)}) is attempting to grant RBAC permissions "
        f"not currently held:\n{shown}"
    )
    return f"{text}; resolution errors: [{joined(errors)}]" if errors else text


def joined(errors: Sequence[str]) -> str:
    """Return errors as one text, each once: in brackets if they are several."""
    found = list(dict.fromkeys(errors))
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def _broken_down(rules: Iterable[PolicyRule]) -> Iterator[PolicyRule]:
    for rule in rules:
        for group in rule.api_groups:
            for resource in rule.resources:
                for verb in rule.verbs:
                    for name in rule.resource_names or ("",):
                        named = (name,) if rule.resource_names else ()
                        yield PolicyRule((verb,), (group,), (resource,), named)
        for path in rule.non_resource_urls:
            for verb in rule.verbs:
                yield PolicyRule((verb,), non_resource_urls=(path,))


def _covers(held: PolicyRule, one: PolicyRule) -> bool:
    """Whether a rule covers another one that is broken down."""
    return (
        (ALL in held.verbs or set(one.verbs) <= set(held.verbs))
        and (ALL in held.api_groups or set(one.api_groups) <= set(held.api_groups))
        and all(_covers_resource(held.resources, resource) for resource in one.resources)
        and all(any(covers_path(own, path) for own in held.non_resource_urls) for path in one.non_resource_urls)
        and (
            not held.resource_names or (bool(one.resource_names) and set(one.resource_names) <= {*held.resource_names})
        )
    )


def _covers_resource(held: tuple[str, ...], resource: str) -> bool:
    if resource in held or ALL in held:
        return True
    _, slash, subresource = resource.partition("/")
    return bool(slash) and f"{ALL_WITH}{subresource}" in held


def _compact(rules: Iterable[PolicyRule]) -> Iterator[PolicyRule]:
    """Rules of which those of the same resource and name are one, with the verbs of all."""
    verbs: dict[PolicyRule, list[str]] = {}
    for rule in rules:
        if rule.non_resource_urls:
            yield rule
        else:
            about = PolicyRule((), rule.api_groups, rule.resources, rule.resource_names)
            verbs.setdefault(about, []).extend(rule.verbs)
    for about, found in verbs.items():
        yield PolicyRule(tuple(found), about.api_groups, about.resources, about.resource_names)
