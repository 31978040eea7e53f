"""All roles and bindings, found by whom they are about, and what follows from them.

Kubernetes looks at all bindings of the cluster and of a namespace for each question. Here those of a user are looked up
once, and again after a binding has changed. A question then costs a few lookups for each role that the user has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from moorage.apiserver.rbac.bindings import RoleBinding, RoleKey, RoleRef, SubjectKey, UnknownRoleError, subject_keys
from moorage.apiserver.rbac.rules import PolicyRule, RoleRules, joined
from moorage.decide.kubernetes.attributes import Attributes, Permission, User

_KEPT: Final = 4096  # users, each with a namespace, whose bindings are remembered
_KEPT_BINDINGS: Final = 200_000  # of all of them together

_NAME: Final = "rbac"  # of this authorizer among those that a kube-apiserver may have; a refusal begins with it

_MASTER: Final = Permission(allowed=True)
_REFUSED: Final = Permission(allowed=False)


class _BindingKey(NamedTuple):
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class UserRules:
    """The rules of a user in a namespace."""

    rules: tuple[PolicyRule, ...]
    unknown: tuple[RoleRef, ...] = ()
    """The bound roles that do not exist."""


class _Grant:
    """A binding that names a user."""

    __slots__ = ("_permission", "binding", "is_repeated", "key")

    def __init__(self, binding: RoleBinding, key: RoleKey | None, *, is_repeated: bool) -> None:
        self.binding = binding
        self.key = key
        self.is_repeated = is_repeated
        self._permission: Permission | None = None

    def permission(self, user: User) -> Permission:
        """Return what it permits, with the reason. The user is always the same."""
        if self._permission is None:
            self._permission = Permission(allowed=True, reason=f"RBAC: allowed by {self.binding.described(user)}")
        return self._permission


class RbacPolicy:
    """Roles and bindings, and who may do what by them."""

    def __init__(self) -> None:
        self._roles: dict[RoleKey, RoleRules] = {}
        self._bindings: dict[_BindingKey, RoleBinding] = {}
        self._by_subject: dict[tuple[str, SubjectKey], dict[_BindingKey, None]] = {}
        """The bindings of a namespace, or of all with an empty text, that name a subject."""

        self._remembered: dict[tuple[str, tuple[str, ...], str], tuple[_Grant, ...]] = {}
        self._size = 0
        """The number of bindings in it."""

    def put_role(self, key: RoleKey, rules: Iterable[PolicyRule]) -> None:
        """Add a role, or replace it."""
        self._roles[key] = RoleRules(rules)

    def remove_role(self, key: RoleKey) -> None:
        """Remove a role, if it exists."""
        self._roles.pop(key, None)

    def put_binding(self, binding: RoleBinding) -> None:
        """Add a binding, or replace it."""
        self.remove_binding(binding.namespace, binding.name)
        key = _BindingKey(binding.namespace, binding.name)
        self._bindings[key] = binding
        for subject in binding.named():
            self._by_subject.setdefault((binding.namespace, subject), {})[key] = None

    def remove_binding(self, namespace: str, name: str) -> None:
        """Remove a binding, if it exists."""
        self._forget()
        key = _BindingKey(namespace, name)
        binding = self._bindings.pop(key, None)
        for subject in binding.named() if binding is not None else ():
            place = (namespace, subject)
            if (found := self._by_subject.get(place)) is not None:
                found.pop(key, None)
                if not found:
                    del self._by_subject[place]

    def authorize(self, user: User, asked: Attributes) -> Permission:
        """Return whether a user may do something, with Kubernetes' reason."""
        if user.is_master:
            return _MASTER
        unknown: list[str] = []
        for grant in self._grants(user, asked.namespace):
            if grant.is_repeated:
                continue
            role = self._roles.get(grant.key) if grant.key is not None else None
            if role is None:
                unknown.append(grant.binding.role.unknown())
            elif role.allow(asked):
                return grant.permission(user)
        return Permission(allowed=False, reason=f"{_NAME}: RBAC: {joined(unknown)}") if unknown else _REFUSED

    def rules_for(self, user: User, namespace: str) -> UserRules:
        """Return the rules of a user in a namespace, or everywhere if it is empty."""
        rules: list[PolicyRule] = []
        unknown: list[RoleRef] = []
        for binding in (grant.binding for grant in self._grants(user, namespace)):
            try:
                rules += self.role_rules(binding.role, binding.namespace)
            except UnknownRoleError as error:
                unknown.append(error.role)
        return UserRules(tuple(rules), tuple(unknown))

    def role_rules(self, role: RoleRef, namespace: str) -> tuple[PolicyRule, ...]:
        """Return the rules of a role. Raises UnknownRoleError if the role does not exist."""
        key = role.key(namespace)
        found = self._roles.get(key) if key is not None else None
        if found is None:
            raise UnknownRoleError(role)
        return found.rules

    def _forget(self) -> None:
        self._remembered.clear()
        self._size = 0

    def _grants(self, user: User, namespace: str) -> tuple[_Grant, ...]:
        """Return the bindings that name a user: those of the whole fleet, then those of the namespace, both by name."""
        place = (user.name, user.groups, namespace)
        found = self._remembered.get(place)
        if found is None:
            found = tuple(self._found(user, namespace))
            if len(self._remembered) >= _KEPT or self._size + len(found) > _KEPT_BINDINGS:
                self._forget()
            self._remembered[place] = found
            self._size += len(found)
        return found

    def _found(self, user: User, namespace: str) -> Iterator[_Grant]:
        seen: set[RoleKey] = set()
        for where in dict.fromkeys(("", namespace)):
            keys = {key for subject in subject_keys(user) for key in self._by_subject.get((where, subject), ())}
            for key in sorted(keys):
                binding = self._bindings[key]
                role = binding.role.key(binding.namespace)
                yield _Grant(binding, role, is_repeated=role in seen)
                if role is not None:
                    seen.add(role)
