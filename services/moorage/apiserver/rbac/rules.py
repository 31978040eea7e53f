"""Rules of RBAC: what a rule allows, aggregation, and who may grant a rule.

Sources: `k8s.io/component-helpers/auth/rbac/validation`, `k8s.io/kubernetes/pkg/registry/rbac/validation`,
`k8s.io/kubernetes/pkg/controller/clusterroleaggregation`, `k8s.io/kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError

from moorage.decide.kubernetes.attributes import Attributes, User
from moorage.decide.kubernetes.field_errors import quote
from moorage.decide.kubernetes.selectors import check_requirement, matches_labels
from moorage.decide.kubernetes.unstructured import part
from moorage_schemas.resources.meta import LabelSelector

ALL: Final = "*"
"""Every verb, group, resource or path."""

ALL_WITH: Final = "*/"
"""The beginning of the name of a subresource of every resource."""

_FIELDS: Final = {
    "verbs": "verbs",
    "apiGroups": "api_groups",
    "resources": "resources",
    "resourceNames": "resource_names",
    "nonResourceURLs": "non_resource_urls",
}


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Verbs on resources, or on paths that are not of objects."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    """Such as `pods`, `deployments/scale` and `*/scale`."""

    resource_names: tuple[str, ...] = ()
    """The objects that it is about. All, if there are none."""

    non_resource_urls: tuple[str, ...] = ()
    """Such as `/metrics` and `/healthz/*`."""

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PolicyRule:
        """Return the rule that a document states. Values that are not texts are left out: they allow nothing."""
        return cls(**{field: _texts(document.get(name)) for name, field in _FIELDS.items()})

    def document(self) -> dict[str, list[str]]:
        """Return the rule in the form that the API shows. Empty fields are left out, and `verbs` is always there."""
        found = {name: list(getattr(self, field)) for name, field in _FIELDS.items()}
        return {name: values for name, values in found.items() if values or name == "verbs"}

    def allows(self, asked: Attributes) -> bool:
        """Return whether it allows a request."""
        if not _has(self.verbs, asked.verb):
            return False
        if not asked.is_of_objects:
            return any(covers_path(path, asked.path) for path in self.non_resource_urls)
        return (
            _has(self.api_groups, asked.group)
            and self._is_about(asked.resource, asked.subresource)
            and (not self.resource_names or asked.name in self.resource_names)
        )

    def allows_for_some(self, asked: Attributes) -> bool:
        """Return whether it allows a request for any objects at all."""
        return replace(self, resource_names=()).allows(asked)

    def _is_about(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if not subresource:
            return resource in resources or ALL in resources
        return f"{resource}/{subresource}" in resources or ALL in resources or f"{ALL_WITH}{subresource}" in resources

    def __str__(self) -> str:
        """Return the rule as Kubernetes' refusals show it."""
        parts = (
            ("APIGroups", self.api_groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.non_resource_urls),
            ("ResourceNames", self.resource_names),
            ("Verbs", self.verbs),
        )
        return f"{{{', '.join(f'{name}:{quoted(values)}' for name, values in parts if values)}}}"


def rules_of(documents: Any) -> tuple[PolicyRule, ...]:
    """Return the rules in the field `rules` of a role."""
    found = documents if isinstance(documents, list) else []
    return tuple(PolicyRule.of(one) for one in found if isinstance(one, Mapping))


def covers_path(pattern: str, path: str) -> bool:
    """Return whether a path of a rule covers another one. It may end with `*`."""
    return pattern == path or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


def quoted(texts: Sequence[str]) -> str:
    """Return texts as Kubernetes' messages list them."""
    return f"[{' '.join(map(quote, texts))}]"


class RoleRules:
    """The rules of one role, found by their verbs. Most rules of a long role are about other verbs."""

    __slots__ = ("_by_verb", "_of_all_verbs", "rules")

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self.rules = tuple(rules)
        found: dict[str, list[PolicyRule]] = {}
        self._of_all_verbs = tuple(rule for rule in self.rules if ALL in rule.verbs)
        for rule in self.rules:
            for verb in dict.fromkeys(rule.verbs):
                if ALL not in rule.verbs:
                    found.setdefault(verb, []).append(rule)
        self._by_verb = {verb: tuple(rules) for verb, rules in found.items()}

    def allow(self, asked: Attributes) -> bool:
        """Return whether one of them allows a request."""
        for rule in self._by_verb.get(asked.verb, ()):
            if rule.allows(asked):
                return True
        return any(rule.allows(asked) for rule in self._of_all_verbs)


def _has(values: tuple[str, ...], value: str) -> bool:
    return value in values or ALL in values


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


Document = Mapping[str, Any]


def is_aggregated(role: Document) -> bool:
    """Return whether the rules of a ClusterRole are those of others."""
    return isinstance(role.get("aggregationRule"), Mapping)


def aggregated_rules(role: Document, others: Iterable[Document]) -> list[PolicyRule]:
    """Return the rules that an aggregated ClusterRole should have.

    `others` are all ClusterRoles. The role may be among them, and does not count.

    Raises:
        ValueError: a selector is none.
    """
    name = role["metadata"]["name"]
    known = sorted((one for one in others if one["metadata"]["name"] != name), key=lambda one: one["metadata"]["name"])
    found: dict[PolicyRule, None] = {}
    for selector in map(_selector, part(role, "aggregationRule").get("clusterRoleSelectors") or ()):
        for one in known:
            if matches_labels(selector, one["metadata"].get("labels")):
                found |= dict.fromkeys(rules_of(one.get("rules")))
    return list(found)


def _selector(found: Any) -> LabelSelector:
    try:
        selector = LabelSelector.model_validate(found)
    except ValidationError as error:
        raise ValueError(f"aggregationRule.clusterRoleSelectors: {error.errors()[0]['msg']}") from None
    for requirement in selector.match_expressions or ():
        if problem := check_requirement(requirement, node=False):
            raise ValueError(f"aggregationRule.clusterRoleSelectors: {requirement.key}: {problem}")
    return selector


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
    """Return why a user may not grant rules, in Kubernetes' words."""
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
    """Return whether a rule covers another one that is broken down."""
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
    """Yield rules of which those of the same resource and name are one, with the verbs of all."""
    verbs: dict[PolicyRule, list[str]] = {}
    for rule in rules:
        if rule.non_resource_urls:
            yield rule
        else:
            about = PolicyRule((), rule.api_groups, rule.resources, rule.resource_names)
            verbs.setdefault(about, []).extend(rule.verbs)
    for about, found in verbs.items():
        yield PolicyRule(tuple(found), about.api_groups, about.resources, about.resource_names)
