"""Bindings of RBAC: which role they give, and to whom.

Source: `k8s.io/kubernetes/pkg/registry/rbac/validation/rule.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from moorage.decide.kubernetes.attributes import User
from moorage.decide.kubernetes.field_errors import quote
from moorage.decide.kubernetes.names import account_user

GROUP: Final = "rbac.authorization.k8s.io"
CLUSTER_ROLE: Final = "ClusterRole"
ROLE: Final = "Role"
CLUSTER_ROLE_BINDING: Final = "ClusterRoleBinding"
ROLE_BINDING: Final = "RoleBinding"
_USER: Final = "User"
_GROUP_OF_USERS: Final = "Group"
_ACCOUNT: Final = "ServiceAccount"


class RoleKey(NamedTuple):
    """A role: of a namespace, or of all of them."""

    namespace: str
    """Empty for a ClusterRole."""

    name: str


class SubjectKey(NamedTuple):
    """Whom a subject names: the user of a name, or the members of a group. A service account is a user."""

    is_group: bool
    name: str


@dataclass(frozen=True, slots=True)
class RoleRef:
    """The role that a binding gives."""

    kind: str
    name: str

    @classmethod
    def of(cls, found: Any) -> RoleRef:
        """Return the role that the field `roleRef` names."""
        said = found if isinstance(found, Mapping) else {}
        return cls(str(said.get("kind") or ""), str(said.get("name") or ""))

    def key(self, namespace: str) -> RoleKey | None:
        """Return the key of the role in a binding of a namespace, or of all if empty. None if it names no role."""
        if self.kind == CLUSTER_ROLE:
            return RoleKey("", self.name)
        return RoleKey(namespace, self.name) if self.kind == ROLE and namespace else None

    def unknown(self, resource: str = "") -> str:
        """Return Kubernetes' message for a missing role.

        `resource` is what a request is about. A refusal names that instead of the role's kind.
        """
        if self.kind not in {CLUSTER_ROLE, ROLE}:
            return f"unsupported role reference kind: {quote(self.kind)}"
        return f"{resource or self.kind.lower()}.{GROUP} {quote(self.name)} not found"


class UnknownRoleError(Exception):
    """A binding gives a role that does not exist. The message is Kubernetes'."""

    def __init__(self, role: RoleRef) -> None:
        super().__init__(role.unknown())
        self.role = role


@dataclass(frozen=True, slots=True)
class RoleSubject:
    """One subject of a binding."""

    kind: str
    name: str
    namespace: str = ""
    """Of a service account. If it is empty, that of the binding counts."""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> RoleSubject:
        """Return the subject that a document states."""
        kind, name, namespace = (str(found.get(field) or "") for field in ("kind", "name", "namespace"))
        return cls(kind, name, namespace)

    def key(self, namespace: str) -> SubjectKey | None:
        """Return the subject that it names in a binding of a namespace. None if it names none."""
        if self.kind in {_USER, _GROUP_OF_USERS}:
            return SubjectKey(self.kind == _GROUP_OF_USERS, self.name)
        where = self.namespace or namespace
        if self.kind == _ACCOUNT and where:
            return SubjectKey(is_group=False, name=account_user(where, self.name))
        return None

    def described(self, namespace: str) -> str:
        """Return the subject in Kubernetes' words."""
        name = f"{self.name}/{self.namespace or namespace}" if self.kind == _ACCOUNT else self.name
        return f"{self.kind} {quote(name)}"


@dataclass(frozen=True, slots=True)
class RoleBinding:
    """Gives subjects a role: in its namespace, or everywhere."""

    namespace: str
    """Empty for a ClusterRoleBinding."""

    name: str
    role: RoleRef
    subjects: tuple[RoleSubject, ...] = ()

    @classmethod
    def of(cls, namespace: str, document: Mapping[str, Any]) -> RoleBinding:
        """Return the binding that a document states."""
        subjects = document.get("subjects")
        found = subjects if isinstance(subjects, list) else []
        return cls(
            namespace,
            str(document["metadata"]["name"]),
            RoleRef.of(document.get("roleRef")),
            tuple(RoleSubject.of(one) for one in found if isinstance(one, Mapping)),
        )

    def named(self) -> Iterator[SubjectKey]:
        """Yield whom it names."""
        for subject in self.subjects:
            if (key := subject.key(self.namespace)) is not None:
                yield key

    def described(self, user: User) -> str:
        """Return the binding and the first subject of it that is a user, in Kubernetes' words."""
        named = set(subject_keys(user))
        first = next(one for one in self.subjects if one.key(self.namespace) in named)
        kind = ROLE_BINDING if self.namespace else CLUSTER_ROLE_BINDING
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        return f"{kind} {quote(name)} of {self.role.kind} {quote(self.role.name)} to {first.described(self.namespace)}"


def subject_keys(user: User) -> Iterator[SubjectKey]:
    """Yield the keys of the subjects that are a user."""
    yield SubjectKey(is_group=False, name=user.name)
    for group in user.groups:
        yield SubjectKey(is_group=True, name=group)
