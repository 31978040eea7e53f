"""The rights of users, from access reviews of the API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moorage.console.api import ApiClient
from moorage.console.host import PageError
from moorage.console.kinds import Kinds
from moorage.decide.kubernetes.attributes import (
    CLUSTERS,
    OWN_GROUP,
    Attributes,
    Permission,
    User,
    about_cluster,
    refusal_text,
)
from moorage.decide.scheduling.ocm.cluster_sets import named_set, of_cluster, set_attributes

ROLE_KINDS: Final = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
"""The kinds from which rights follow."""

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_KEPT: Final = 20_000
_ALLOWED: Final = Permission(allowed=True)


class Reviews:
    """Access reviews of the API. Their results are kept until roles or bindings change.

    `changed_at` returns the version of the latest change of a role or binding.
    """

    def __init__(self, api: ApiClient, changed_at: Callable[[], int]) -> None:
        self._api = api
        self._changed_at = changed_at
        self._known: dict[tuple[str, tuple[str, ...], Attributes], Permission] = {}
        self._known_at = -1

    async def permission(self, user: User, asked: Attributes, *, in_any_set: bool = False) -> Permission:
        """Return whether a user may do something.

        `in_any_set`: whether no set of managed clusters permits it. Otherwise it also depends on a cluster's labels.

        Raises:
            PageError: the API does not answer.
        """
        if user.is_master:
            return _ALLOWED
        if (now := self._changed_at()) != self._known_at or len(self._known) > _KEPT:
            self._known.clear()
            self._known_at = now
        key = user.name, user.groups, asked
        found = self._known.get(key)
        if found is None:
            found = await self._answer(user, asked)
            if self._changed_at() == now and (in_any_set or not of_cluster(asked)):
                self._known[key] = found
        return found

    async def _answer(self, user: User, asked: Attributes) -> Permission:
        of_objects = {
            "verb": asked.verb,
            "group": asked.group,
            "version": asked.version,
            "resource": asked.resource,
            "subresource": asked.subresource,
            "namespace": asked.namespace,
            "name": asked.name,
        }
        spec = {"user": user.name, "groups": list(user.groups), "resourceAttributes": of_objects}
        answer = await self._api.call("POST", _REVIEWS, body={"spec": spec})
        answer.check()
        status = answer.document["status"]
        return Permission(allowed=bool(status.get("allowed")), reason=str(status.get("reason") or ""))


class Rights:
    """The rights of one user, for one page."""

    def __init__(self, reviews: Reviews, user: User, kinds: Kinds, cluster: str = "") -> None:
        self._reviews = reviews
        self._kinds = kinds
        self.user = user
        self.cluster = cluster

    @property
    def at_home(self) -> Rights:
        """The user's rights in the home fleet."""
        return self if not self.cluster else Rights(self._reviews, self.user, self._kinds)

    async def may(self, verb: str, kind: str, namespace: str = "", name: str = "", subresource: str = "") -> bool:
        """Return whether the user may do something with objects of a kind."""
        return not await self.missing(self._kinds.named(kind).asked(verb, namespace, name, subresource))

    async def may_create(self, resource: str) -> bool:
        """Return whether the user may create what is permitted like an object of Moorage, and is none."""
        return not await self.missing(Attributes("create", OWN_GROUP, "v1alpha1", resource))

    async def may_see_cluster(self, name: str) -> bool:
        """Return whether the user may look at a cluster at all."""
        return (await self._reviews.permission(self.user, _seen_cluster(name))).allowed

    async def missing(self, asked: Attributes) -> str:
        """Return why the user may not do something in this fleet, in the words of the API. Empty if they may."""
        for one in about_cluster(self.cluster, asked) if self.cluster else (asked,):
            found = await self._reviews.permission(self.user, one)
            if not found.allowed:
                return refusal_text(self.user, one, found.reason)
        return ""

    async def check_cluster(self) -> None:
        """Check that the user may look at the cluster whose page it is. Raises PageError: 403 if not."""
        asked = _seen_cluster(self.cluster)
        found = await self._reviews.permission(self.user, asked)
        if self.cluster and not found.allowed:
            raise PageError(403, refusal_text(self.user, asked, found.reason))

    async def check(self, verb: str, kind: str, namespace: str = "", name: str = "") -> None:
        """Check that the user may do something. Raises PageError: 403 if not."""
        if why := await self.missing(self._kinds.named(kind).asked(verb, namespace, name)):
            raise PageError(403, why)

    async def sees(self, kind: str, namespace: str) -> bool:
        """Return whether the user may list the objects of a kind in a namespace, or in all."""
        return await self.may("list", kind) or (bool(namespace) and await self.may("list", kind, namespace))

    async def sees_managed(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether the user may get a managed cluster, be it because of the set that it is in."""
        if self.cluster:  # sets of managed clusters exist in the home fleet only
            return False
        asked = self._kinds.named("ManagedCluster").asked("get", name=str(metadata.get("name") or ""))
        for one in set_attributes(asked, named_set(metadata.get("labels") or {})):
            if (await self._reviews.permission(self.user, one)).allowed:
                return True
        return (await self._reviews.permission(self.user, asked, in_any_set=True)).allowed


def _seen_cluster(name: str) -> Attributes:
    """Return the attributes of a request to see a cluster."""
    return Attributes("get", OWN_GROUP, "v1alpha1", CLUSTERS, "", "", name)
