"""What somebody may see and do. It asks what the API would ask for the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.core.authorization.attributes import CLUSTERS, OWN_GROUP, Attributes, User
from moorage.gateway.authorization.authorizer import Authorizer
from moorage.gateway.errors import StatusError
from moorage.gateway.http.access import forbidden
from moorage.gateway.http.cluster_paths import about_cluster
from moorage.kinds import kind as kinds
from moorage.kinds.kind import Kind


@dataclass
class Rights:
    """The rights of one user, for one page.

    Args:
        authorizer: knows all roles.
        user: the user.
        cluster: whose page it is. Empty for the home fleet.
    """

    authorizer: Authorizer
    user: User
    cluster: str = ""
    _known: dict[Attributes, bool] = field(default_factory=dict)

    def may(self, verb: str, kind: str, namespace: str = "", name: str = "", subresource: str = "") -> bool:
        """Whether the user may do something with objects of a kind."""
        asked = asked_of(verb, kind, namespace, name, subresource)
        found = self._known.get(asked)
        if found is None:
            found = self._known[asked] = self._refused(asked) is None
        return found

    @property
    def at_home(self) -> Rights:
        """The user's rights in the home fleet."""
        return self if not self.cluster else Rights(self.authorizer, self.user)

    def may_see_cluster(self, name: str) -> bool:
        """Whether the user may look at a cluster at all."""
        return self.authorizer.authorize(self.user, seen_cluster(name)).allowed

    def check_cluster(self) -> None:
        """Check that the user may look at the cluster whose page it is.

        Raises:
            StatusError: 403 if not.
        """
        if self.cluster and not self.may_see_cluster(self.cluster):
            asked = seen_cluster(self.cluster)
            raise forbidden(self.user, asked, self.authorizer.authorize(self.user, asked).reason)

    def _refused(self, asked: Attributes) -> Attributes | None:
        """What the user may not do of all that is asked to do something. None if they may do it."""
        every = about_cluster(self.cluster, asked) if self.cluster else (asked,)
        return next((one for one in every if not self.authorizer.authorize(self.user, one).allowed), None)

    def may_create(self, resource: str, namespace: str = "", subresource: str = "") -> bool:
        """Whether the user may create what is permitted like an object of Moorage, and is none."""
        asked = Attributes("create", "moorage.io", "v1alpha1", resource, subresource, namespace)
        return self._refused(asked) is None

    def check(self, verb: str, kind: str, namespace: str = "", name: str = "") -> None:
        """Check that the user may do something.

        Raises:
            StatusError: 403 if not.
        """
        if not self.may(verb, kind, namespace, name):
            raise self.refusal(verb, kind, namespace, name)

    def refusal(self, verb: str, kind: str, namespace: str = "", name: str = "") -> StatusError:
        """The API's own error for what the user may not do."""
        asked = asked_of(verb, kind, namespace, name)
        refused = self._refused(asked) or asked
        return forbidden(self.user, refused, self.authorizer.authorize(self.user, refused).reason)

    def sees(self, kind: str, namespace: str) -> bool:
        """Whether the user may list the objects of a kind in a namespace, or in all."""
        return self.may("list", kind) or (bool(namespace) and self.may("list", kind, namespace))

    def sees_cluster(self, metadata: Mapping[str, Any]) -> bool:
        """Whether the user may get a managed cluster, be it because of the set that it is in."""
        # Who may see a set of managed clusters may see those of the home fleet.
        return not self.cluster and self.authorizer.sees(self.user, "managedclusters", metadata)


def seen_cluster(name: str) -> Attributes:
    """What is asked of the API to look at a cluster."""
    return Attributes("get", OWN_GROUP, "v1alpha1", CLUSTERS, "", "", name)


def kind_named(name: str) -> Kind[Any]:
    """The kind of a name.

    Raises:
        StatusError: 404 if there is none.
    """
    found = kinds.named(name)
    if found is None:
        raise StatusError(404, f"kind: invalid value {name[:63]!r}: there is no such kind", reason="NotFound")
    return found


def asked_of(verb: str, kind: str, namespace: str = "", name: str = "", subresource: str = "") -> Attributes:
    """What is asked of the API to do something with objects of a kind."""
    found = kind_named(kind)
    return Attributes(verb, found.group, found.versions[0], found.plural, subresource, namespace, name)
