"""The group coordinator: members, generations, and committed offsets.

Heartbeats are not sent one by one. A member whose process reaches the broker is heard of in time; from the moment in
which it does not, its session runs out. What a heartbeat's answer would tell a member, it is told when its next one
would be due.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError
from tests.chaos.seeded.kafka.loop import Process

if TYPE_CHECKING:
    from asyncio import TimerHandle

    from tests.chaos.seeded.kafka.cluster import Cluster, Request
    from tests.chaos.seeded.kafka.consumer import SimConsumer


NOTHING = ConsumerProtocolMemberAssignment(0, [], b"")


class GroupState(Enum):
    """The states, as Kafka names them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    STABLE = "Stable"


class Member:
    """A member of a group."""

    __slots__ = (
        "assignment",
        "expiry",
        "id",
        "joining",
        "owner",
        "protocols",
        "rebalance_timeout",
        "session",
        "topics",
    )

    def __init__(
        self, id_: str, owner: SimConsumer, topics: frozenset[str], session: float, rebalance_timeout: float
    ) -> None:
        self.id = id_
        self.owner = owner
        self.topics = topics
        self.session = session
        self.rebalance_timeout = rebalance_timeout
        self.joining: Request | None = None
        self.protocols: dict[str, Any] = {}
        """What it tells each assignor that it knows, by the assignor's name; the first is the one that it prefers."""

        self.assignment = NOTHING
        self.expiry: TimerHandle | None = None


class Group:
    """One group."""

    __slots__ = ("committed", "deadline", "generation", "members", "pending", "protocol", "state")

    def __init__(self) -> None:
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol = "range"
        self.members: dict[str, Member] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.pending: dict[int, dict[TopicPartition, int]] = {}
        """Offsets in transactions, by the producer's id."""

        self.deadline: TimerHandle | None = None


class Groups:
    """All groups.

    Args:
        cluster: whose they are.
        first_delay: seconds that an empty group waits for more members at first.
    """

    def __init__(self, cluster: Cluster, first_delay: float) -> None:
        self.by_name: dict[str, Group] = {}
        self._cluster = cluster
        self._first_delay = first_delay
        self._paused_at = 0.0

    def group(self, name: str) -> Group:
        """A group, made when there is none."""
        found = self.by_name.get(name)
        if found is None:
            found = self.by_name[name] = Group()
        return found

    # Offsets.

    def pend(self, name: str, pid: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Keep a transaction's offsets until it ends."""
        self.group(name).pending.setdefault(pid, {}).update(offsets)

    def mark(self, name: str, pid: int, *, commit: bool) -> None:
        """A transaction has ended."""
        group = self.group(name)
        offsets = group.pending.pop(pid, {})
        if commit:
            group.committed.update(offsets)

    def commit(self, name: str, member: str, generation: int, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets outside a transaction.

        Raises:
            UnknownMemberIdError: not a member.
            IllegalGenerationError: of an earlier generation.
        """
        group = self.group(name)
        if member or group.members:
            self._check(group, member, generation)
        group.committed.update(offsets)

    @staticmethod
    def _check(group: Group, member: str, generation: int) -> None:
        if member not in group.members:
            raise UnknownMemberIdError
        if generation != group.generation:
            raise IllegalGenerationError

    # Members.

    def join(self, name: str, request: Request, member_id: str, asked: Member) -> None:
        """Take a member in, or again; it is answered when the generation is complete: (id, generation, assignment).

        Raises:
            UnknownMemberIdError: it was a member, and its session has run out.
        """
        cluster, group = self._cluster, self.group(name)
        if member_id and member_id not in group.members:
            raise UnknownMemberIdError
        empty = not group.members
        if member_id:
            member = group.members[member_id]
            member.topics = asked.topics
            member.protocols = asked.protocols
        else:
            member = asked
            member.id = f"{asked.owner.client_id}-{cluster.rng.getrandbits(64):016x}"
            group.members[member.id] = member
        if member.joining is not None:
            cluster.answer(member.joining, None, RebalanceInProgressError())
        member.joining = request
        self._mind(member)
        if group.state is not GroupState.PREPARING:
            self._prepare(name, group, self._first_delay if empty else None)
        self._complete_if_all(name, group)

    def leave(self, name: str, member_id: str) -> None:
        """A member goes."""
        group = self.group(name)
        if member_id in group.members:
            self._remove(name, group, member_id)

    def _remove(self, name: str, group: Group, member_id: str) -> None:
        member = group.members.pop(member_id)
        if member.expiry is not None:
            member.expiry.cancel()
            member.expiry = None
        if member.joining is not None:
            self._cluster.answer(member.joining, None, UnknownMemberIdError())
            member.joining = None
        if not group.members:
            group.state = GroupState.EMPTY
            group.generation += 1
            if group.deadline is not None:
                group.deadline.cancel()
            return
        if group.state is GroupState.STABLE:
            self._prepare(name, group, None)
        self._complete_if_all(name, group)

    def _prepare(self, name: str, group: Group, delay: float | None) -> None:
        """Begin a rebalance: every member learns of it with its next heartbeat."""
        group.state = GroupState.PREPARING
        longest = max(member.rebalance_timeout for member in group.members.values())
        if group.deadline is not None:
            group.deadline.cancel()
        if delay:
            longest = delay
        group.deadline = self._cluster.loop.call_later(longest, self._late, name, context=self._cluster.context)
        for member in group.members.values():
            if member.joining is None:
                member.owner.heartbeat()

    def _late(self, name: str) -> None:
        """The time to join is over: who has not joined is out."""
        group = self.group(name)
        if group.state is not GroupState.PREPARING:
            return
        if not self._cluster.answers:
            group.deadline = self._cluster.loop.call_later(1.0, self._late, name, context=self._cluster.context)
            return
        for member in [one for one in group.members.values() if one.joining is None]:
            del group.members[member.id]
            if member.expiry is not None:
                member.expiry.cancel()
            member.owner.heartbeat()
        if group.members:
            self._complete(name, group)
        else:
            group.state = GroupState.EMPTY

    def _complete_if_all(self, name: str, group: Group) -> None:
        if (
            group.state is GroupState.PREPARING
            and all(member.joining is not None for member in group.members.values())
            and (group.generation or not self._first_delay)
        ):
            self._complete(name, group)

    def _complete(self, name: str, group: Group) -> None:
        cluster = self._cluster
        if group.deadline is not None:
            group.deadline.cancel()
            group.deadline = None
        group.generation += 1
        group.state = GroupState.STABLE
        assign(group, cluster.topics)
        generation = group.generation
        for member in group.members.values():
            request, member.joining = member.joining, None
            if request is not None:
                # Each has its answer, and has synchronised, in its own time.
                cluster.loop.call_later(
                    cluster.draw(cluster.faults.latency),
                    self._synced,
                    name,
                    member,
                    request,
                    generation,
                    context=cluster.context,
                )
            self._mind(member)

    def _synced(self, name: str, member: Member, request: Request, generation: int) -> None:
        group = self.group(name)
        if group.members.get(member.id) is not member:
            self._cluster.answer(request, None, UnknownMemberIdError())
        elif group.generation != generation or group.state is not GroupState.STABLE:
            # The next rebalance has begun: it knows its id, and joins again.
            self._cluster.answer(request, (member.id, generation, None))
        else:
            self._cluster.answer(request, (member.id, generation, (group.protocol, member.assignment)))

    # Sessions.

    def contact_changed(self, process: Process) -> None:
        """A process is heard of from now on, or not any more."""
        for group in self.by_name.values():
            for member in group.members.values():
                if member.owner.process is process:
                    self._mind(member)
        if process.reachable:
            for consumer in list(self._cluster.consumers):
                if consumer.process is process:
                    consumer.heartbeat()

    def _mind(self, member: Member) -> None:
        """Let a session run out, or not, by whether the broker hears of the member."""
        cluster = self._cluster
        heard = member.owner.process.reachable and not member.owner.gone
        if heard or not cluster.answers:
            if member.expiry is not None:
                member.expiry.cancel()
                member.expiry = None
        elif member.expiry is None:
            since = member.owner.heartbeat_interval * cluster.rng.random()
            left = max(0.0, member.session - since)
            member.expiry = cluster.loop.call_later(left, self._expire, member, context=cluster.context)

    def silent(self, consumer: SimConsumer) -> None:
        """A client has closed without leaving: nothing is heard of it any more."""
        for group in self.by_name.values():
            for member in group.members.values():
                if member.owner is consumer:
                    self._mind(member)

    def _expire(self, member: Member) -> None:
        member.expiry = None
        for name, group in self.by_name.items():
            # Who waits for a rebalance to be complete is minded again once it is.
            if group.members.get(member.id) is member and member.joining is None:
                self._remove(name, group, member.id)
                return

    def pause(self) -> None:
        """The broker counts no sessions while it is away."""
        self._paused_at = self._cluster.loop.time()
        for group in self.by_name.values():
            for member in group.members.values():
                if member.expiry is not None:
                    member.expiry.cancel()
                    member.expiry = None

    def go_on(self, *, lenient: bool) -> None:
        """It works again.

        Args:
            lenient: whether sessions begin anew, as after a restart; a broker that hung may find them run out.
        """
        away = self._cluster.loop.time() - self._paused_at
        for name, group in self.by_name.items():
            for member in list(group.members.values()):
                if group.members.get(member.id) is not member:
                    continue
                if not lenient and away > member.session and self._cluster.rng.random() < 0.5:
                    self._remove(name, group, member.id)
                else:
                    self._mind(member)
        for consumer in list(self._cluster.consumers):
            consumer.heartbeat()


def assign(group: Group, topics: Mapping[str, int]) -> None:
    """Let the first member, as the leader, divide the partitions by the assignor that all members know."""
    leader = next(iter(group.members.values()))
    common = [name for name in leader.protocols if all(name in one.protocols for one in group.members.values())]
    group.protocol = common[0]
    assignor = next(one for one in leader.owner.assignors if one.name == group.protocol)
    told = {member.id: member.protocols[group.protocol] for member in group.members.values()}
    found = assignor.assign(_Partitions(topics), told)
    for member in group.members.values():
        member.assignment = found.get(member.id, NOTHING)


class _Partitions:
    """What an assignor asks of the cluster's metadata."""

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._topics = topics

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The partitions of a topic; None if there is no such topic."""
        return set(range(self._topics[topic])) if topic in self._topics else None


def described(group: Group, name: str) -> tuple[Any, ...]:
    """A group as the describe request's answer holds it."""
    members = [
        (member.id, member.owner.client_id, "/127.0.0.1", b"", member.assignment.encode())
        for member in (group.members.values() if group.state is not GroupState.PREPARING else ())
    ]
    return (0, name, group.state.value, "consumer", group.protocol, members)
