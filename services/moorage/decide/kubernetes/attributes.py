"""Users, and what they ask to do, as Kubernetes' authorizers see both.

Source: `k8s.io/apiserver/pkg/authentication/user` and `…/pkg/authorization/authorizer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

MASTERS: Final = "system:masters"
"""The group whose members may do everything, whatever roles say."""

AUTHENTICATED: Final = "system:authenticated"
"""The group of everybody who has said, and shown, who it is."""

UNAUTHENTICATED: Final = "system:unauthenticated"
"""The group of those who have not."""

ANONYMOUS: Final = "system:anonymous"
"""The name of those who have not."""

CONSOLE: Final = "system:moorage:console"
"""The name of the console as a user of the API. It reads what its pages share."""

OWN_GROUP: Final = "moorage.io"
"""The group of what is permitted like objects, and is none."""

REPORTS: Final = "conditionreports"
"""What is created by reporting conditions."""

EXPLANATIONS: Final = "explanations"
"""What one gets by asking for the reasons of decisions."""

CLUSTERS: Final = "clusters"
"""The real clusters that bridges mirror. Who may get one, or update it, may do so with its objects, too, as far as
their roles go."""

MIRRORS: Final = "clustermirrors"
"""What a bridge updates by saying what it has seen in a cluster."""

SIMULATIONS: Final = "simulations"
"""What one creates by asking what a change would do."""

DECISIONS: Final = "decisions"
"""What one watches to follow bindings and evictions as events."""


_READING: Final = frozenset({"get", "list", "watch", "head"})


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who asks."""

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
    """What somebody asks to do: to an object or objects, or at a path that is not of objects."""

    verb: str
    """Such as `get`, `list`, `create` and `deletecollection`, or at a path the HTTP method in lower case."""

    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    """Empty for what is in no namespace, and for all namespaces."""

    name: str = ""
    path: str = ""
    """The path, such as `/metrics`. Empty if the question is about objects."""

    @property
    def is_of_objects(self) -> bool:
        """Whether it is about objects, not about a path."""
        return not self.path


@dataclass(frozen=True, slots=True)
class Permission:
    """Whether somebody may do something, and why or why not."""

    allowed: bool
    reason: str = ""


def about_cluster(cluster: str, asked: Attributes) -> tuple[Attributes, Attributes]:
    """What somebody has to be permitted who asks something in a cluster.

    They need the cluster itself: to get it for reading, to update it for anything else. And they need what the same
    request needs in the home fleet, in all of its namespaces: a role that is bound in one of them is about that one,
    and not about the namespace of that name in a cluster.
    """
    verb = "get" if asked.verb in _READING else "update"
    return Attributes(verb, OWN_GROUP, "v1alpha1", CLUSTERS, "", "", cluster), replace(asked, namespace="")


def refusal_text(user: User, asked: Attributes, reason: str = "") -> str:
    """That somebody may not do something, in Kubernetes' words."""
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
