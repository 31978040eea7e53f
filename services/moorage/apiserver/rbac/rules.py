"""Rules of RBAC: what a rule allows, with Kubernetes' wildcards.

Source: `k8s.io/kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from moorage.decide.kubernetes.attributes import Attributes
from moorage.decide.kubernetes.field_errors import quote

ALL: Final = "*"
"""Every verb, group, resource or path."""

ALL_WITH: Final = "*/"
"""What precedes a subresource of every resource."""

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
        """The rule in the form that the API shows. Empty fields are left out, and `verbs` is always there."""
        found = {name: list(getattr(self, field)) for name, field in _FIELDS.items()}
        return {name: values for name, values in found.items() if values or name == "verbs"}

    def allows(self, asked: Attributes) -> bool:
        """Whether it allows what somebody asks to do."""
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
        """Whether it allows what somebody asks to do with objects, for any of them at all."""
        return replace(self, resource_names=()).allows(asked)

    def _is_about(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if not subresource:
            return resource in resources or ALL in resources
        return f"{resource}/{subresource}" in resources or ALL in resources or f"{ALL_WITH}{subresource}" in resources

    def __str__(self) -> str:
        """The rule as Kubernetes' refusals show it."""
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
    """Whether a path of a rule covers another one. It may end with `*`."""
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
        """Whether one of them allows what somebody asks to do."""
        for rule in self._by_verb.get(asked.verb, ()):
            if rule.allows(asked):
                return True
        return any(rule.allows(asked) for rule in self._of_all_verbs)


def _has(values: tuple[str, ...], value: str) -> bool:
    return value in values or ALL in values


def _texts(found: Any) -> tuple[str, ...]:
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()
