"""The assignor of Moorage's consumer groups: assigns whole partitions, preferably to their present or warm workers.

The report of a worker, and its share beyond its partitions, are JSON in the `user_data` of Kafka's consumer protocol.
Members of earlier versions leave it empty, and count as new.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from typing_extensions import override

from moorage.runtime.kafka.partition.balancing import WorkerClaim, divide

NAME = "range"
"""The name of the protocol in the group. It is that of Kafka's own assignor, which earlier versions used: all members
of a group must have a protocol in common, and aiokafka cannot offer two. With several, it sends a request to join for
each of them. The members' metadata then seems to change all the time, and the group never becomes stable.
"""

_VERSION = 0


class StickyAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka publishes no types
    """One worker's part in the division of partitions. aiokafka accepts an object where it expects a class.

    Args:
        owned: returns the partitions that the worker owns.
        cold: returns those of them whose tables it has not read.
        warm: returns the partitions for which the worker is warm.
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
        """The number of the latest division that the worker has received; -1 before the first."""

        self.standby: frozenset[int] = frozenset()
        """The partitions for which the worker is to be a standby."""

        self.coming: frozenset[int] = frozenset()
        """Those of them that it is to own once it has reported that it is warm for them."""

    @override
    def metadata(self, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        report = {
            "round": self.round,
            "owned": sorted(self._owned()),
            "cold": sorted(self._cold()),
            "warm": sorted(self._warm()),
        }
        return ConsumerProtocolMemberMetadata(_VERSION, sorted(topics), json.dumps(report).encode())

    @override
    def assign(
        self,
        cluster: object,
        members: Mapping[str, ConsumerProtocolMemberMetadata],
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        # only the leader of the group calls it
        claims = {member: _claim(metadata.user_data) for member, metadata in members.items()}
        shares = divide(range(self._partitions), claims, standbys=self._standbys)
        number = 1 + max((claim.generation for claim in claims.values()), default=0)
        found = {}
        for member, share in shares.items():
            owned = sorted(share.owned)
            extra = {"round": number, "standby": sorted(share.standby), "coming": sorted(share.coming)}
            topics = [(topic, owned) for topic in sorted(members[member].subscription)]
            found[member] = ConsumerProtocolMemberAssignment(
                _VERSION, topics if owned else [], json.dumps(extra).encode()
            )
        return found

    @override
    def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        extra = _extra(assignment.user_data)
        self.round = int(extra.get("round", -1))
        self.standby = frozenset(extra.get("standby", ()))
        self.coming = frozenset(extra.get("coming", ()))


def _claim(data: bytes) -> WorkerClaim:
    """Return the report of a worker. A malformed one counts as new."""
    extra = _extra(data)
    try:
        owned, warm, cold = (frozenset(map(int, extra.get(name, ()))) for name in ("owned", "warm", "cold"))
        return WorkerClaim(owned, warm, cold, int(extra["round"]))
    except (KeyError, TypeError, ValueError):
        return WorkerClaim()


def _extra(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
