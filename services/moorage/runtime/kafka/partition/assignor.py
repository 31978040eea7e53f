"""The assignor of Moorage's consumer groups: gives partitions away whole, to those that have them or are warm for them.

What a worker reports, and what it is told beyond its partitions, is JSON in the `user_data` of Kafka's consumer
protocol. Members of earlier versions leave it empty, and count as new.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from moorage.runtime.kafka.partition.assignment import WorkerClaim, divide

NAME = "range"
"""The name of the protocol in the group. It is that of Kafka's own assignor, which earlier versions used: all members
of a group must have a protocol in common, and aiokafka cannot offer two. With several, it sends a request to join for
each of them. The members then look as if their metadata changed all the time, and the group never comes to rest."""

_VERSION = 0


class StickyAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka publishes no types
    """One worker's part in the division of partitions. aiokafka accepts an object where it expects a class.

    Args:
        owned: returns the partitions that the worker owns.
        cold: returns those of them whose tables it has not read.
        warm: returns the partitions for which the worker is warm.
        partitions: the number of partitions of each topic.
        standbys: the number of standbys of each partition.
    """

    name = NAME

    def __init__(
        self,
        *,
        owned: Callable[[], Iterable[int]],
        cold: Callable[[], Iterable[int]],
        warm: Callable[[], Iterable[int]],
        partitions: int,
        standbys: int,
    ) -> None:
        self._owned = owned
        self._cold = cold
        self._warm = warm
        self._partitions = partitions
        self._standbys = standbys
        self.round = -1
        """The number of the latest division that the worker was told; -1 before the first."""

        self.standby: frozenset[int] = frozenset()
        """The partitions for which the worker is to be a standby."""

        self.coming: frozenset[int] = frozenset()
        """Those of them that it is to own once it has reported that it is warm for them."""

    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return what the worker reports when it joins."""
        report = {
            "round": self.round,
            "owned": sorted(self._owned()),
            "cold": sorted(self._cold()),
            "warm": sorted(self._warm()),
        }
        return ConsumerProtocolMemberMetadata(_VERSION, sorted(topics), json.dumps(report).encode())

    def assign(
        self,
        cluster: object,  # noqa: ARG002 - the number of partitions never changes, and is known
        members: Mapping[str, ConsumerProtocolMemberMetadata],
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Divide the partitions. Only the leader of the group is asked.

        A member of a version that reads fewer topics gets those of its partitions. See `clients.whole_partitions`.
        """
        claims = {member: _claim(metadata.user_data) for member, metadata in members.items()}
        shares = divide(range(self._partitions), claims, standbys=self._standbys)
        number = 1 + max((claim.generation for claim in claims.values()), default=0)
        found = {}
        for member, share in shares.items():
            owned = sorted(share.owned)
            told = {"round": number, "standby": sorted(share.standby), "coming": sorted(share.coming)}
            topics = [(topic, owned) for topic in sorted(members[member].subscription)]
            found[member] = ConsumerProtocolMemberAssignment(
                _VERSION, topics if owned else [], json.dumps(told).encode()
            )
        return found

    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Note what the worker was told."""
        told = _told(assignment.user_data)
        self.round = int(told.get("round", -1))
        self.standby = frozenset(told.get("standby", ()))
        self.coming = frozenset(told.get("coming", ()))


def _claim(data: bytes) -> WorkerClaim:
    """Return what a worker reports. One that cannot be understood counts as new."""
    told = _told(data)
    try:
        owned, warm, cold = (frozenset(map(int, told.get(name, ()))) for name in ("owned", "warm", "cold"))
        return WorkerClaim(owned, warm, cold, int(told["round"]))
    except (KeyError, TypeError, ValueError):
        return WorkerClaim()


def _told(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
