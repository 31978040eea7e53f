"""Answers who may do what, by the roles and bindings that the gateway shows.

Every gateway follows the object log, so each answers by itself, whether it leads or not. A gateway that has just
written a binding has read it back before it answers the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import orjson

from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.rbac.bindings import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    RoleBinding,
    RoleKey,
    RoleRef,
)
from moorage.apiserver.rbac.policy import RbacPolicy, UserRules
from moorage.apiserver.rbac.rules import PolicyRule, rules_of
from moorage.apiserver.storage.store import Store
from moorage.decide.kubernetes.attributes import Attributes, Permission, User
from moorage.decide.scheduling.ocm.cluster_sets import OCM_GROUP, named_set, of_cluster, set_attributes

_CLUSTER: Final = "ManagedCluster"
_ROLES: Final = frozenset({CLUSTER_ROLE, ROLE})
_KINDS: Final = (CLUSTER_ROLE, ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING)
_FLEET_KINDS: Final = (CLUSTER_ROLE, CLUSTER_ROLE_BINDING)
_NOT_READ: Final = Permission(allowed=False, reason="RBAC: roles and bindings have not been read yet")


class Authorizer:
    """Follows the roles and bindings of a store.

    As long as the store has not read all of them, only members of `system:masters` may do anything: a binding
    that was read may have been deleted later.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._policy = RbacPolicy()
        for kind in _KINDS:
            store.tell(kind, self._changed)

    def authorize(self, user: User, asked: Attributes) -> Permission:
        """Return whether a user may do something, and why, in Kubernetes' words. It takes microseconds."""
        if not self._store.ready and not user.is_master:
            return _NOT_READ
        found = self._policy.authorize(user, asked)
        if found.allowed or not of_cluster(asked):
            return found
        by_set = self._by_set(user, asked)
        return by_set if by_set.allowed else found

    def authorize_some(self, user: User, asked: Attributes) -> Permission:
        """Return whether a user may do something with any objects at all, when the body names them."""
        found = self.authorize(user, asked)
        if found.allowed or not any(rule.allows_for_some(asked) for rule in self.rules_for(user, "").rules):
            return found
        return Permission(allowed=True)

    def _by_set(self, user: User, asked: Attributes) -> Permission:
        """Return whether a user may do something with a managed cluster because of its set."""
        shown = self._store.get(ObjectId(_CLUSTER, "", asked.name))
        if shown is None:
            return Permission(allowed=False)
        return self._by_labels(user, asked, shown.document["metadata"].get("labels"))

    def _by_labels(self, user: User, asked: Attributes, labels: Mapping[str, str] | None) -> Permission:
        for one in set_attributes(asked, named_set(labels or {})):
            if (found := self._policy.authorize(user, one)).allowed:
                return found
        return Permission(allowed=False)

    def sees(self, user: User, plural: str, metadata: Mapping[str, Any]) -> bool:
        """Return whether a user may get a managed cluster or a set with this metadata."""
        asked = Attributes("get", OCM_GROUP, "", plural, "", "", str(metadata.get("name") or ""))
        if self._policy.authorize(user, asked).allowed:
            return True
        return of_cluster(asked) and self._by_labels(user, asked, metadata.get("labels")).allowed

    async def rules_changed(self, user: User) -> None:
        """Return when a user has other rules for objects without a namespace."""
        before = self.rules_for(user, "")
        while self.rules_for(user, "") == before:
            waits = [asyncio.ensure_future(self._store.history.wait(kind)) for kind in _FLEET_KINDS]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in waits:
                    one.cancel()

    def rules_for(self, user: User, namespace: str) -> UserRules:
        """Return the rules of a user in a namespace, or everywhere if it is empty. None before all are read."""
        if not self._store.ready:
            return UserRules(())
        return self._policy.rules_for(user, namespace)

    def role_rules(self, role: RoleRef, namespace: str) -> tuple[PolicyRule, ...]:
        """Return the rules of a role that a binding of a namespace gives.

        Raises:
            UnknownRoleError: the role does not exist.
        """
        return self._policy.role_rules(role, namespace)

    def _changed(self, object_id: ObjectId, json: bytes | None) -> None:
        kind, namespace, name = object_id.kind, object_id.namespace, object_id.name
        document = orjson.loads(json) if json is not None else None
        if kind in _ROLES:
            key = RoleKey(namespace, name)
            if document is None:
                self._policy.remove_role(key)
            else:
                self._policy.put_role(key, rules_of(document.get("rules")))
        elif document is None:
            self._policy.remove_binding(namespace, name)
        else:
            self._policy.put_binding(RoleBinding.of(namespace, document))
