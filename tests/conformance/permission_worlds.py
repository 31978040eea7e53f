"""Random roles and bindings, and questions about who may do what by them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Json = dict[str, Any]

GROUP: Final = "rbac.authorization.k8s.io"
NAMESPACES: Final = ("rbac-a", "rbac-b")
QUESTIONS: Final = 40
RULES: Final = 6
WRITES: Final = 14
LABEL: Final = "conformance.moorage.io/world"

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "bind", "escalate", "*")
_GROUPS = ("", "apps", "example.com", "*")
_RESOURCES = ("pods", "pods/log", "pods/status", "deployments", "deployments/scale", "*/scale", "nodes", "things", "*")
_NAMES = ("a", "b")
_PATHS = ("/healthz", "/healthz/*", "/metrics", "/a/b*", "*", "/a*/**")
_ASKED_PATHS = ("/healthz", "/healthz/ping", "/metrics", "/a/bc", "/a", "/b", "/a*/x")
_WRITER = "writer"


@dataclass(frozen=True)
class Asker:
    """A user, as an access review names it."""

    name: str
    groups: tuple[str, ...]

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers of a request on its behalf."""
        return [("impersonate-user", self.name), *(("impersonate-group", group) for group in self.groups)]


@dataclass(frozen=True)
class Write:
    """A role or a binding that somebody tries to create, or what somebody tries to make of one."""

    asker: Asker
    plural: str
    namespace: str
    document: Json
    is_new: bool


@dataclass
class PermissionWorld:
    """Roles and bindings that follow from a seed, and questions about them."""

    seed: str
    objects: list[tuple[str, str, Json]] = field(default_factory=list)
    """The plural, the namespace or an empty text, and the object, in the order in which they are created."""

    def __post_init__(self) -> None:
        self._pick = random.Random(self.seed)  # noqa: S311 - cases, not secrets
        self._prefix = f"w-{self.seed}"
        self.askers = self._askers()
        self._cluster_roles = [self._name("c", number) for number in range(4)]
        self._roles = [self._name("r", number) for number in range(2)]
        for number, name in enumerate(self._cluster_roles):
            labels = {f"{LABEL}-{self.seed}": self._pick.choice(_NAMES)} if number else {}
            self._add("clusterroles", "", name, {"rules": self._rules(whole=True)}, labels)
        for number in range(2):
            selectors = [self._selector() for _ in range(self._pick.randint(1, 2))]
            fields = {"aggregationRule": {"clusterRoleSelectors": selectors}, "rules": []}
            self._add("clusterroles", "", self._name("x", number), fields, {})
        for namespace in NAMESPACES:
            for name in self._roles:
                self._add("roles", namespace, name, {"rules": self._rules(whole=False)}, {})
        for number in range(self._pick.randint(3, 7)):
            self._bind("clusterrolebindings", "", number)
        for namespace in NAMESPACES:
            for number in range(self._pick.randint(2, 6)):
                self._bind("rolebindings", namespace, number)
        self._add("clusterroles", "", self._name(_WRITER, 0), {"rules": [_WRITING]}, {})
        for plural, namespace in (("clusterrolebindings", ""), ("rolebindings", NAMESPACES[0])):
            subjects = [_user(self.askers[0].name if not namespace else self.askers[1].name)]
            self._add(plural, namespace, self._name(_WRITER, 0), self._binding(self._name(_WRITER, 0), subjects), {})

    def questions(self) -> Iterator[Json]:
        """What SubjectAccessReviews ask: their `spec`."""
        pick = random.Random(f"{self.seed}-questions")  # noqa: S311 - cases, not secrets
        for _ in range(QUESTIONS):
            asker = pick.choice(self.askers)
            spec: Json = {"user": asker.name, "groups": list(asker.groups)}
            rules = [rule for _, _, one in self.objects for rule in one.get("rules") or () if "resources" in rule]
            if rules and pick.random() < 0.6:
                yield {**spec, "resourceAttributes": self._asked_by(pick, pick.choice(rules))}
                continue
            if pick.random() < 0.3:
                asked = {"verb": pick.choice(("get", "post")), "path": pick.choice(_ASKED_PATHS)}
                yield {**spec, "nonResourceAttributes": asked}
                continue
            plural, _, subresource = pick.choice(_RESOURCES[:-1]).partition("/")
            asked = {
                "verb": pick.choice(_VERBS[:-1]),
                "group": pick.choice(_GROUPS[:-1]),
                "resource": plural,
                "subresource": subresource,
                "name": pick.choice(("", *_NAMES)),
                "namespace": pick.choice(("", *NAMESPACES)),
            }
            yield {**spec, "resourceAttributes": {key: value for key, value in asked.items() if value}}

    @staticmethod
    def _asked_by(pick: random.Random, rule: Json) -> Json:
        """Attributes that a rule allows."""
        plural, _, subresource = pick.choice(rule["resources"]).replace("*/", "deployments/").partition("/")
        asked = {
            "verb": pick.choice(rule["verbs"]),
            "group": pick.choice(rule["apiGroups"]),
            "resource": plural,
            "subresource": subresource,
            "name": pick.choice(rule.get("resourceNames") or ("",)),
            "namespace": pick.choice(("", *NAMESPACES, *NAMESPACES)),
        }
        return {key: value for key, value in asked.items() if value}

    def rules_asked(self) -> Iterator[tuple[Asker, str]]:
        """Whose rules are asked for, and in which namespace."""
        pick = random.Random(f"{self.seed}-rules")  # noqa: S311 - cases, not secrets
        for _ in range(RULES):
            yield pick.choice(self.askers), pick.choice(NAMESPACES)

    def writes(self) -> Iterator[Write]:
        """Roles and bindings that somebody tries to write who may write such objects."""
        self._pick = pick = random.Random(f"{self.seed}-writes")  # noqa: S311 - cases, not secrets
        for number in range(WRITES):
            everywhere = pick.random() < 0.6
            asker = self.askers[0] if everywhere else self.askers[1]
            namespace = pick.choice(("", *NAMESPACES)) if everywhere else NAMESPACES[0]
            is_binding = pick.random() < 0.5
            plural = ("clusterrole" if not namespace else "role") + ("bindings" if is_binding else "s")
            of_kind = [
                one for one in self.objects if one[:2] == (plural, namespace) and _WRITER not in _name_of(one[2])
            ]
            is_new = not of_kind or pick.random() < 0.6
            document = self._wanted(plural, namespace, number) if is_new else dict(pick.choice(of_kind)[2])
            if not is_new and is_binding:
                document["subjects"] = self._subjects()
            elif not is_new and "aggregationRule" not in document:
                document["rules"] = self._rules(whole=not namespace)
            yield Write(asker, plural, namespace, document, is_new)

    def _wanted(self, plural: str, namespace: str, number: int) -> Json:
        name = self._name("n", number)
        if plural.endswith("bindings"):
            return self._object(plural, namespace, name, self._random_binding(namespace), {})
        fields: Json = {"rules": self._rules(whole=not namespace)}
        if not namespace and self._pick.random() < 0.2:
            fields["aggregationRule"] = {"clusterRoleSelectors": [self._selector()]}
        return self._object(plural, namespace, name, fields, {})

    def _askers(self) -> tuple[Asker, ...]:
        everybody = "system:authenticated"
        groups = [f"{self._prefix}-g{number}" for number in range(2)]
        accounts = [
            Asker(
                f"system:serviceaccount:{namespace}:{self._prefix}-s",
                ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", everybody),
            )
            for namespace in NAMESPACES
        ]
        users = [Asker(f"{self._prefix}-u{number}", (*groups[: number % 3], everybody)) for number in range(4)]
        return (*users, *accounts)

    def _name(self, kind: str, number: int) -> str:
        return f"{self._prefix}-{kind}{number}"

    def _selector(self) -> Json:
        label = f"{LABEL}-{self.seed}"
        if self._pick.random() < 0.3:
            return {"matchExpressions": [{"key": label, "operator": "Exists"}]}
        return {"matchLabels": {label: self._pick.choice(_NAMES)}}

    def _add(self, plural: str, namespace: str, name: str, fields: Json, labels: Json) -> None:
        self.objects.append((plural, namespace, self._object(plural, namespace, name, fields, labels)))

    def _object(self, plural: str, namespace: str, name: str, fields: Json, labels: Json) -> Json:
        kinds = {
            "clusterroles": "ClusterRole",
            "roles": "Role",
            "clusterrolebindings": "ClusterRoleBinding",
            "rolebindings": "RoleBinding",
        }
        metadata: Json = {"name": name, "labels": {LABEL: self.seed, **labels}}
        metadata |= {"namespace": namespace} if namespace else {}
        return {"apiVersion": f"{GROUP}/v1", "kind": kinds[plural], "metadata": metadata, **fields}

    def _rules(self, *, whole: bool) -> list[Json]:
        return [self._rule(whole=whole) for _ in range(self._pick.randint(0, 3))]

    def _rule(self, *, whole: bool) -> Json:
        pick = self._pick
        rule: Json = {"verbs": pick.sample(_VERBS, pick.choice((1, 1, 2, 3)))}
        if whole and pick.random() < 0.25:
            return {**rule, "nonResourceURLs": pick.sample(_PATHS, pick.randint(1, 2))}
        rule["apiGroups"] = pick.sample(_GROUPS, pick.choice((1, 1, 2)))
        rule["resources"] = pick.sample(_RESOURCES, pick.choice((1, 2, 3)))
        if pick.random() < 0.3:
            rule["resourceNames"] = pick.sample(_NAMES, pick.randint(1, 2))
        return rule

    def _bind(self, plural: str, namespace: str, number: int) -> None:
        self._add(plural, namespace, self._name("b", number), self._random_binding(namespace), {})

    def _random_binding(self, namespace: str) -> Json:
        aggregated = [self._name("x", number) for number in range(2)]
        names = [*self._cluster_roles, *aggregated, self._name("gone", 0)]
        kind = "Role" if namespace and self._pick.random() < 0.5 else "ClusterRole"
        name = self._pick.choice([*self._roles, self._name("gone", 1)] if kind == "Role" else names)
        return self._binding(name, self._subjects(), kind)

    @staticmethod
    def _binding(role: str, subjects: list[Json], kind: str = "ClusterRole") -> Json:
        return {"roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}, "subjects": subjects}

    def _subjects(self) -> list[Json]:
        return [self._subject() for _ in range(self._pick.choice((0, 1, 2, 3, 4)))]

    def _subject(self) -> Json:
        pick = self._pick
        if pick.random() < 0.2:
            name = f"{self._prefix}-s"
            return {"kind": "ServiceAccount", "name": name, "namespace": pick.choice(NAMESPACES)}
        if pick.random() < 0.4:
            name = pick.choice((f"{self._prefix}-g0", f"{self._prefix}-g1", "system:serviceaccounts:rbac-a"))
            return {"apiGroup": GROUP, "kind": "Group", "name": name}
        return _user(pick.choice(self.askers).name)


_WRITING: Json = {
    "verbs": ["create", "update", "patch"],
    "apiGroups": [GROUP],
    "resources": ["clusterroles", "roles", "clusterrolebindings", "rolebindings"],
}


def _user(name: str) -> Json:
    return {"apiGroup": GROUP, "kind": "User", "name": name}


def _name_of(document: Json) -> str:
    return str(document["metadata"]["name"])
