"""What each part of a fleet may do in Kafka, and no more, as the services' classes and the table of topics tell it.

A role is a service, the gateway, the query worker, the webhook worker, or one of those outside: probes, deployers, and
people at a command line. Each role has a principal of its own. Kafka's own administrators are not among them: they are
superusers of the brokers, or have rights that only they are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from moorage.cli.contract.participants import Participant, participants
from moorage.runtime.kafka.admin.acls import AclEntry, AclOperation, AclPattern, AclResource
from moorage_schemas.topics import (
    AUDIT,
    BINDINGS,
    CONDITION_REPORTS,
    CONDITIONS,
    DEAD_LETTERS,
    EVICTIONS,
    JOURNAL,
    OBJECTS,
    PLACEMENTS,
    RESOURCES,
    TAINTS,
    TOPICS,
    WORKLOAD_CONDITIONS,
    Topic,
)

PROBE: Final = "probe"
DEPLOYER: Final = "deployer"
BRIDGE: Final = "bridge"
OPERATOR: Final = "operator"
VIEWER: Final = "viewer"

PRINCIPALS: Final = "User:moorage-"
"""What the names of principals begin with, unless another beginning is given."""

_CLUSTER: Final = "kafka-cluster"
"""Kafka's name of the cluster as a resource."""

_NOT_FOR_VIEWERS: Final = frozenset({RESOURCES, OBJECTS, CONDITION_REPORTS, DEAD_LETTERS, JOURNAL, AUDIT})
"""What people have declared, Secrets among it, and what they have done; and what others have sent."""


@dataclass(frozen=True, slots=True)
class KafkaRole:
    """What one principal may do."""

    name: str
    """The name of the service, or of whom it is for."""

    summary: str
    reads: tuple[Topic, ...] = ()
    writes: tuple[Topic, ...] = ()
    groups: tuple[str, ...] = ()
    """The consumer groups of which it is a member, without the topics' prefix. A `*` at the end matches any ending."""

    group_offsets: tuple[str, ...] = ()
    """The groups whose offsets it may look up."""

    transactional_ids: tuple[str, ...] = ()
    """The transactional ids that it writes with, in the same form."""

    runs: bool = False
    """Whether it is a process that has to know the settings of topics and brokers."""

    makes_topics: bool = False
    """Whether it may create the topics, and change their settings."""

    def entries(self, prefix: str, principals: str = PRINCIPALS) -> Iterator[AclEntry]:
        """Yield its permissions.

        Args:
            prefix: the first part of the topics' names.
            principals: what the names of principals begin with.
        """
        who = f"{principals}{self.name}"
        literal, prefixed = AclPattern.LITERAL, AclPattern.PREFIXED
        for topics, operation in ((self.reads, AclOperation.READ), (self.writes, AclOperation.WRITE)):
            for topic in topics:
                yield AclEntry(who, AclResource.TOPIC, topic.name(prefix), literal, operation)
        every = [AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS] if self.runs or self.makes_topics else []
        every += [AclOperation.CREATE, AclOperation.ALTER_CONFIGS] if self.makes_topics else []
        for operation in every:
            yield AclEntry(who, AclResource.TOPIC, f"{prefix}.", prefixed, operation)
        if every:
            # How short a session may be, and how many copies a new topic gets, are settings of the brokers.
            yield AclEntry(who, AclResource.CLUSTER, _CLUSTER, literal, AclOperation.DESCRIBE_CONFIGS)
        for names, kind, operation in (
            (self.groups, AclResource.GROUP, AclOperation.READ),
            (self.group_offsets, AclResource.GROUP, AclOperation.DESCRIBE),
            (self.transactional_ids, AclResource.TRANSACTIONAL_ID, AclOperation.WRITE),
        ):
            for name in names:
                pattern = prefixed if name.endswith("*") else literal
                yield AclEntry(who, kind, f"{prefix}.{name.removesuffix('*')}", pattern, operation)


def roles() -> tuple[KafkaRole, ...]:
    """Return every role: the services, the webhook and query workers, the gateway, and those outside."""
    return (*map(_of, participants()), *_OUTSIDE)


def entries(prefix: str, principals: str = PRINCIPALS, only: Iterable[KafkaRole] | None = None) -> set[AclEntry]:
    """Return the permissions of roles; of all of them by default."""
    chosen: Sequence[KafkaRole] = roles() if only is None else tuple(only)
    return {entry for role in chosen for entry in role.entries(prefix, principals)}


def _of(service: Participant) -> KafkaRole:
    read = {*service.consumes, *service.reads, *service.looks_into}
    # Services have an id for each partition. The leading gateway has one.
    ids = f"{service.name}.*" if service.consumes else service.name
    return KafkaRole(
        name=service.name,
        summary=service.summary.removeprefix(f"{service.name}: "),
        reads=tuple(topic for topic in TOPICS if topic in read),
        writes=service.sends,
        groups=service.groups or ((service.name,) if service.writes_in_transactions else ()),
        group_offsets=service.looks_up,
        transactional_ids=(ids,) if service.writes_in_transactions else (),
        runs=True,
    )


_OUTSIDE: Final = (
    KafkaRole(PROBE, "Reports conditions.", writes=(CONDITION_REPORTS,)),
    KafkaRole(
        DEPLOYER,
        "Follows decisions, and reports how the work is.",
        reads=(BINDINGS, PLACEMENTS, EVICTIONS),
        writes=(CONDITION_REPORTS,),
        groups=("deployer*",),
    ),
    KafkaRole(
        BRIDGE,
        "Follows what was decided on a real cluster. What it has seen there, it sends to the gateway.",
        reads=(RESOURCES, CONDITIONS, TAINTS, BINDINGS, PLACEMENTS, EVICTIONS, WORKLOAD_CONDITIONS),
        runs=True,
    ),
    KafkaRole(
        OPERATOR,
        "A person: creates topics, and reads all of them for `watch`, `explain`, `simulate` and `replay`.",
        reads=TOPICS,
        group_offsets=("*",),
        makes_topics=True,
    ),
    KafkaRole(
        VIEWER,
        "A person: reads decisions, but not what was declared, which includes Secrets.",
        reads=tuple(topic for topic in TOPICS if topic not in _NOT_FOR_VIEWERS),
    ),
)
