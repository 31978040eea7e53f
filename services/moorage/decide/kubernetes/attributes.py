"""Users, and the operations that they request, as Kubernetes' authorizers model both.

Source: `k8s.io/apiserver/pkg/authentication/user` and `…/pkg/authorization/authorizer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

MASTERS: Final = "system:masters"
"""The group whose members may do everything, independent of roles."""

AUTHENTICATED: Final = "system:authenticated"
"""The group of all authenticated users."""

UNAUTHENTICATED: Final = "system:unauthenticated"
"""The group of all other users."""

ANONYMOUS: Final = "system:anonymous"
"""The name of an unauthenticated user."""

CONSOLE: Final = "system:moorage:console"
"""The name of the console as a user of the API. It reads the shared data of its pages."""

OWN_GROUP: Final = "moorage.io"
"""The group of resources that exist only for permissions."""

REPORTS: Final = "conditionreports"
"""The resource that reporting conditions creates."""

EXPLANATIONS: Final = "explanations"
"""The resource of explanations, which has the reasons of decisions."""

CLUSTERS: Final = "clusters"
"""The real clusters that bridges mirror. Permission to get or update one also covers its objects, within the limits of
roles.
"""

MIRRORS: Final = "clustermirrors"
"""The resource that a bridge updates with its observations of a cluster."""

SIMULATIONS: Final = "simulations"
"""The resource that a simulation of a change creates."""

DECISIONS: Final = "decisions"
"""The resource to watch for bindings and evictions as events."""


_READING: Final = frozenset({"get", "list", "watch", "head"})


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def is_master(self) -> bool:
        """Whether it may do everything."""
        return MASTERS in self.groups


@dataclass(frozen=True, slots=True)
class Attributes:
    """A requested operation: on an object or objects, or at a path without objects."""

    verb: str
    """Such as `get`, `list`, `create` and `deletecollection`, or at a path the HTTP method in lower case."""

    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    """Empty for a resource without a namespace, and for all namespaces."""

    name: str = ""
    path: str = ""
    """The path, such as `/metrics`. Empty if the question is about objects."""

    @property
    def is_of_objects(self) -> bool:
        """Whether it is about objects, not about a path."""
        return not self.path


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether a user may do something, with the reason."""

    allowed: bool
    reason: str = ""


def about_cluster(cluster: str, asked: Attributes) -> tuple[Attributes, Attributes]:
    """Return the permissions that a request in a cluster needs.

    It needs the cluster itself: `get` for reading, `update` for anything else. It also needs the permission for the
    same request in the home fleet, in all of its namespaces. A role that is bound in one of them is about that one, and
    not about the namespace of that name in a cluster.
    """
    verb = "get" if asked.verb in _READING else "update"
    return Attributes(verb, OWN_GROUP, "v1alpha1", CLUSTERS, "", "", cluster), replace(asked, namespace="")


def refusal_text(user: User, asked: Attributes, reason: str = "") -> str:
    """Return the refusal of an operation, in Kubernetes' words."""
    why = f": {reason}" if reason else ""
    if not asked.is_of_objects:
        return f'forbidden: User "{user.name}" cannot {asked.verb} path "{asked.path}"{why}'
    resource = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    what = f'{resource} "{asked.name}"' if asked.name else resource
    whole = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return (
        f'{what} is forbidden: User "{user.name}" cannot {asked.verb} resource "{whole}" in API group '
        f'"{asked.group}" {where}{why}'
    )
