"""Permissions that depend on the written object: roles, cluster sets, and the acceptance of clusters.

Permission to write roles at all is checked before, as for every object. These guards check the roles.

Sources: `k8s.io/kubernetes/pkg/registry/rbac`, `open-cluster-management.io/ocm/pkg/registration/webhook`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moorage.apiserver.authorization.authorizer import Authorizer
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.rbac.bindings import CLUSTER_ROLE, GROUP, RoleRef, UnknownRoleError
from moorage.apiserver.rbac.cluster_sets import REGISTER_GROUP
from moorage.apiserver.rbac.rules import EVERYTHING, PolicyRule, missing_rules, refusal, rules_of
from moorage.decide.kubernetes.attributes import Attributes, User
from moorage.decide.kubernetes.field_errors import quote
from moorage.decide.kubernetes.unstructured import part
from moorage.decide.scheduling.ocm.cluster_sets import CLUSTERS, OCM_GROUP, SETS, named_set

_ROLES: Final = frozenset({"clusterroles", "roles"})
_BINDINGS: Final = frozenset({"clusterrolebindings", "rolebindings"})
_OF_GARBAGE_COLLECTION: Final = ("ownerReferences", "finalizers", "managedFields", "resourceVersion")
_AGGREGATION: Final = "must have cluster-admin privileges to use the aggregationRule"


class WriteGuards:
    """Checks a write against what its writer may do."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def check(self, user: User | None, write: GuardedWrite) -> None:
        """Check a write. None as the user is the gateway itself, which may write everything.

        Raises:
            StatusError: 403 if the writer may not, 404 if a binding gives a role that does not exist.
        """
        if user is None or user.is_master:
            return
        kind = write.kind
        if kind.group == GROUP and kind.plural in _ROLES:
            self._check_role(user, write)
        elif kind.group == GROUP and kind.plural in _BINDINGS:
            self._check_binding(user, write)
        elif kind.kind == "ManagedCluster":
            check_cluster(self._authorizer, user, write)
        elif kind.kind == "ManagedClusterSetBinding":
            check_set_binding(self._authorizer, user, write)

    def _check_role(self, user: User, write: GuardedWrite) -> None:
        asked = Attributes("escalate", GROUP, "*", write.kind.plural, "", write.namespace, write.named)
        if self._authorizer.authorize(user, asked).allowed or _keeps_its_content(write):
            return
        self._check_held(user, write, rules_of(write.after.get("rules")))
        if write.kind.kind == CLUSTER_ROLE and any(_aggregates(one) for one in (write.after, write.before or {})):
            held = self._authorizer.rules_for(user, "").rules
            if missing_rules(held, EVERYTHING):
                raise api_errors.forbidden(GROUP, write.kind.plural, write.name, _AGGREGATION)

    def _check_binding(self, user: User, write: GuardedWrite) -> None:
        if write.before is not None and _keeps_its_content(write):
            return
        role = RoleRef.of(write.after.get("roleRef"))
        plural = "clusterroles" if role.kind == CLUSTER_ROLE else "roles"
        asked = Attributes("bind", GROUP, "*", plural, "", write.namespace, role.name)
        if self._authorizer.authorize(user, asked).allowed:
            return
        try:
            rules = self._authorizer.role_rules(role, write.namespace)
        except UnknownRoleError:
            raise api_errors.not_found(GROUP, write.kind.plural, role.name) from None
        self._check_held(user, write, rules)

    def _check_held(self, user: User, write: GuardedWrite, rules: tuple[PolicyRule, ...]) -> None:
        held = self._authorizer.rules_for(user, write.namespace)
        if missing := missing_rules(held.rules, rules):
            unknown = [role.unknown(write.kind.plural) for role in held.unknown]
            raise api_errors.forbidden(GROUP, write.kind.plural, write.name, refusal(user, missing, unknown))


def _aggregates(role: Mapping[str, Any]) -> bool:
    rule = role.get("aggregationRule")
    return isinstance(rule, Mapping) and bool(rule.get("clusterRoleSelectors"))


def _keeps_its_content(write: GuardedWrite) -> bool:
    """Return whether a change is only about who owns the object and when it may go."""
    return write.before is not None and _content(write.before) == _content(write.after)


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    metadata = document["metadata"]
    kept = {name: value for name, value in metadata.items() if name not in _OF_GARBAGE_COLLECTION}
    return {**document, "metadata": kept}


@dataclass(frozen=True, slots=True)
class GuardedWrite:
    """A write that is checked against what its writer may do."""

    kind: ServedKind
    namespace: str
    """Empty for what is in no namespace."""

    before: Mapping[str, Any] | None
    """The object as it is shown. None if it is created."""

    after: Mapping[str, Any]
    """The object as it is wanted."""

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.after["metadata"].get("name") or "")

    @property
    def named(self) -> str:
        """The name that the request names: none if it creates the object."""
        return self.name if self.before is not None else ""


def check_cluster(authorizer: Authorizer, user: User, write: GuardedWrite) -> None:
    """Check a write of a managed cluster.

    Raises:
        StatusError: 403 if its writer may not accept it, or may not change its set.
    """
    before = write.before or {}
    if _accepted(write.after) and not _accepted(before):
        asked = Attributes("update", REGISTER_GROUP, "", CLUSTERS, "accept", "", write.name)
        if not authorizer.authorize(user, asked).allowed:
            why = f"user {quote(user.name)} cannot update the HubAcceptsClient field"
            raise api_errors.forbidden(OCM_GROUP, f"{CLUSTERS}/accept", write.name, why)
    left = named_set(_labels(before)) if write.before is not None else ""
    joined = named_set(_labels(write.after))
    for name in dict.fromkeys((left, joined)) if left != joined else ():
        if name and not authorizer.authorize(user, _asked("join", name)).allowed:
            why = f"user {quote(user.name)} cannot add/remove a ManagedCluster to/from ManagedClusterSet {quote(name)}"
            raise api_errors.forbidden(OCM_GROUP, f"{SETS}/join", name, why)


def check_set_binding(authorizer: Authorizer, user: User, write: GuardedWrite) -> None:
    """Check a write of a ManagedClusterSetBinding. Only its creation is checked, for it keeps its set.

    Raises:
        StatusError: 403 if the writer may not bind the set.
    """
    name = str(part(write.after, "spec").get("clusterSet") or "")
    if write.before is None and not authorizer.authorize(user, _asked("bind", name)).allowed:
        why = f"user {quote(user.name)} is not allowed to bind cluster set {quote(name)}"
        raise api_errors.forbidden(OCM_GROUP, f"{SETS}/bind", name, why)


def _asked(subresource: str, name: str) -> Attributes:
    return Attributes("create", OCM_GROUP, "", SETS, subresource, "", name)


def _accepted(cluster: Mapping[str, Any]) -> bool:
    return part(cluster, "spec").get("hubAcceptsClient") is True


def _labels(cluster: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in part(part(cluster, "metadata"), "labels").items()}
