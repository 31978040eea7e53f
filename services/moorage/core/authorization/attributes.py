"""Users, and what they ask to do, as Kubernetes' authorizers see both.

Source: `k8s.io/apiserver/pkg/authentication/user` and `…/pkg/authorization/authorizer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

MASTERS: Final = "system:masters"
"""The group whose members may do everything, whatever roles say."""

AUTHENTICATED: Final = "system:authenticated"
"""The group of everybody who has said, and shown, who it is."""

UNAUTHENTICATED: Final = "system:unauthenticated"
"""The group of those who have not."""

ANONYMOUS: Final = "system:anonymous"
"""The name of those who have not."""

ACCOUNT_PREFIX: Final = "system:serviceaccount:"
"""How the name of a service account as a user begins. Its namespace and its name follow."""

ACCOUNTS: Final = "system:serviceaccounts"
"""The group of all service accounts. With `:` and a namespace, of all in that namespace."""

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


def account_user(namespace: str, name: str) -> str:
    """Return the name that a service account has as a user."""
    return f"{ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of a service account, in addition to that of everybody who is authenticated."""
    return (ACCOUNTS, f"{ACCOUNTS}:{namespace}")
