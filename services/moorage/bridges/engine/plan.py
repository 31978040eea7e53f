"""The plan of a bridge: the access to its cluster, the objects to read, and the acts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

from moorage.bridges.engine.gateway_client import GatewayAddress
from moorage.bridges.kube.client import ClusterAccess

Act = TypeVar("Act", bound=StrEnum)


_TAINTS: Final = "taints"
"""The act on taints, whose name is the same in all bridges."""


class FollowedKind(NamedTuple):
    """A kind of objects that a bridge follows."""

    kind: str
    path: str
    """Of the list of all of them."""

    params: Mapping[str, str] = {}
    """Selectors of the list."""


class LeaseResource(NamedTuple):
    """Where the Leases of targets are."""

    every: str
    """The path of a list that has all of them."""

    params: Mapping[str, str]
    """Selectors of that list."""

    one: Callable[[str], str]
    """Returns the path of a target's Lease."""


@dataclass(frozen=True, slots=True)
class Link:
    """How a bridge reaches its cluster and the gateway, and how one of several is elected.

    Attributes:
        access: which cluster, and as whom.
        gateway: where objects and reports are sent.
        lease_namespace: where the Lease is that elects one of several bridges.
        lease_duration: seconds without a renewal after which another bridge takes it.
    """

    access: ClusterAccess
    gateway: GatewayAddress
    lease_namespace: str
    lease_duration: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgePlan(Generic[Act]):
    """The work of a bridge.

    Attributes:
        link: how its cluster and the gateway are reached.
        source: of its objects and reports.
        lease: the name of the Lease that elects one of several bridges.
        target_acts: those that write to targets.
        held_acts: those that wait until the topics contain the fleet.
        target: the kind of the targets.
        work: the kinds of what is placed on them.
        mirrored: the kinds of those that are mirrored.
        grace: seconds without a sign of life after which a target is silent, unless it has a grace period of its own.
        patience: seconds after which work is placed although something of the fleet is not known. None waits for ever.
        pace: seconds between two batches of objects that are not urgent.
        cluster: the name of the cluster in references. Empty for the home fleet.
    """

    link: Link
    source: str
    lease: str
    acts: frozenset[Act]
    target_acts: tuple[Act, ...]
    held_acts: frozenset[Act]
    target: str
    work: frozenset[str]
    followed: tuple[FollowedKind, ...]
    mirrored: frozenset[str]
    leases: LeaseResource
    grace: float
    patience: float | None
    pace: float = 0.0
    cluster: str = ""

    @property
    def keeps_taints(self) -> bool:
        """Whether the cluster's own controllers decide on taints: the bridge acts, but not on them.

        One without any act shows what Moorage would do, so its taints follow from the conditions, as with all acts.
        """
        return bool(self.acts) and _TAINTS not in self.acts
