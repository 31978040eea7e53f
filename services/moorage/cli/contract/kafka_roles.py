"""Kafka permissions of each part of a fleet, derived from the services' classes and the table of topics.

A role is a service, a chain of services, the gateway, the query worker, the webhook worker, or one of those outside:
probes, deployers, and people at a command line. Each role has a principal of its own. Kafka's own administrators are
not among them: they are superusers of the brokers, or have rights that only they are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from moorage.apiserver.storage.durable_log import WRITTEN
from moorage.apiserver.storage.kafka import report_outcomes, topic_records
from moorage.apiserver.storage.tables import READ
from moorage.cli.local import services
from moorage.insight.diff import question
from moorage.insight.explain import grounds
from moorage.insight.query import chain_index
from moorage.runtime.chains import CHAINS, chain_of
from moorage.runtime.kafka.admin.acls import AclEntry, AclOperation, AclPattern, AclResource
from moorage.runtime.service import Service
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.webhooks import deliveries
from moorage_schemas.topics import (
    AUDIT,
    BINDINGS,
    CLOCKS,
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
    WEBHOOK_STATUSES,
    WORKLOAD_CONDITIONS,
    Topic,
)


@dataclass(frozen=True, slots=True)
class Participant:
    """One service of Moorage with the topics it reads and writes, in the order of the table."""

    name: str
    summary: str
    """A summary of the service in one line."""

    consumes: tuple[Topic, ...]
    """The topics that it consumes with committed offsets, as a member of its consumer group."""

    reads: tuple[Topic, ...]
    """The topics that it reads as tables, without offsets."""

    sends: tuple[Topic, ...]

    looks_up: tuple[str, ...] = ()
    """The services whose committed offsets it looks up."""

    looks_into: tuple[Topic, ...] = ()
    """The topics of which it reads some records when it needs them."""

    writes_in_transactions: bool = True
    """Whether it has transactional ids."""

    groups: tuple[str, ...] = ()
    """Its consumer groups, if they are others than the one of its name. A `*` at the end matches any ending."""


def participants() -> tuple[Participant, ...]:
    """Return every service by name, followed by the webhook worker, the query worker and the gateway."""
    return (*(_participant(service) for service in service_classes()), _webhooks(), _query(), _gateway())


def service_classes() -> Iterator[type[Service[object]]]:
    """Yield the class of every service of `moorage run`."""
    settings = Settings()
    for name in services.names():
        yield type(services.make(name, settings))


def _participant(service: type[Service[object]]) -> Participant:
    return Participant(
        name=service.name,
        summary=f"{service.name}: {service.summary[0].lower()}{service.summary[1:]}",
        consumes=_in_order(set(service.sources)),
        reads=_in_order({*service.follows, *service.globals, *service.changelogs} - set(service.sources)),
        # Every service writes records that it cannot handle to dead-letters, its steps to the journal, and how far its
        # clock is from the brokers'.
        sends=_in_order({*service.changelogs, *service.outputs, DEAD_LETTERS, JOURNAL, CLOCKS}),
        looks_up=tuple(one.service for one in service.upstream),
        looks_into=_in_order({topic for one in service.upstream for topic in (*one.topics, one.writes)}),
    )


def _webhooks() -> Participant:
    return Participant(
        name=services.WEBHOOKS,
        summary="Sends events to receivers outside, over HTTP, and writes those that are not taken to dead-letters.",
        consumes=_in_order({*deliveries.TOPICS.values(), DEAD_LETTERS}),
        reads=(RESOURCES, WEBHOOK_STATUSES),
        sends=(WEBHOOK_STATUSES, DEAD_LETTERS),
        writes_in_transactions=False,
        groups=(f"{services.WEBHOOKS}.*",),
    )


def _query() -> Participant:
    return Participant(
        name=services.QUERY,
        summary="Keeps the tables that explanations are made from, simulates, and answers over HTTP; writes nothing.",
        consumes=(),
        reads=_in_order({*grounds.TOPICS, *chain_index.TOPICS, CONDITION_REPORTS}),
        sends=(),
        # A simulation begins where the services are.
        looks_up=tuple(service.name for service in service_classes()),
        looks_into=question.topics_read(Settings()),
        writes_in_transactions=False,
    )


def _gateway() -> Participant:
    return Participant(
        name=services.GATEWAY,
        summary="The edge for people and programs: Kubernetes-style API and CloudEvents intake; decides nothing.",
        consumes=(),
        reads=_in_order({*READ, OBJECTS}),
        sends=_in_order({*WRITTEN, CLOCKS}),
        looks_up=(report_outcomes.INGEST,),
        looks_into=_in_order({*report_outcomes.FOLLOWED, *topic_records.READ}),
    )


def _in_order(topics: set[Topic]) -> tuple[Topic, ...]:
    return tuple(topic for topic in TOPICS if topic in topics)


PROBE: Final = "probe"
DEPLOYER: Final = "deployer"
BRIDGE: Final = "bridge"
OPERATOR: Final = "operator"
VIEWER: Final = "viewer"

PRINCIPALS: Final = "User:moorage-"
"""The default prefix of the names of principals."""

_CLUSTER: Final = "kafka-cluster"
"""Kafka's name of the cluster as a resource."""

_NOT_FOR_VIEWERS: Final = frozenset({RESOURCES, OBJECTS, CONDITION_REPORTS, DEAD_LETTERS, JOURNAL, AUDIT})
"""The topics of declared objects, Secrets among them, of the audit, and of received reports."""


@dataclass(frozen=True, slots=True)
class KafkaRole:
    """The permissions of one principal."""

    name: str
    """The name of the service, or of whom it is for."""

    summary: str
    reads: tuple[Topic, ...] = ()
    writes: tuple[Topic, ...] = ()
    groups: tuple[str, ...] = ()
    """The consumer groups of which it is a member, or in which it commits offsets, without the topics' prefix. A `*` at
    the end matches any ending."""

    group_offsets: tuple[str, ...] = ()
    """The groups whose offsets and members it may look up."""

    transactional_ids: tuple[str, ...] = ()
    """The transactional ids that it writes with or fences, in the same form."""

    runs: bool = False
    """Whether its process reads the settings of topics and brokers."""

    makes_topics: bool = False
    """Whether it may create the topics, and change their settings."""

    def entries(self, prefix: str, principals: str = PRINCIPALS) -> Iterator[AclEntry]:
        """Yield its permissions. Names of topics begin with `prefix`, and those of principals with `principals`."""
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
    """Return every role: the services, the webhook and query workers, the gateway, the chains, and those outside."""
    own = {one.name: _of(one) for one in participants()}
    chains = (_of_chain(name, [own[member] for member in members]) for name, members in CHAINS.items())
    return (*own.values(), *chains, *_OUTSIDE)


def entries(prefix: str, principals: str = PRINCIPALS, only: Iterable[KafkaRole] | None = None) -> set[AclEntry]:
    """Return the permissions of roles; of all of them by default."""
    chosen: Sequence[KafkaRole] = roles() if only is None else tuple(only)
    return {entry for role in chosen for entry in role.entries(prefix, principals)}


def _of(service: Participant) -> KafkaRole:
    read = {*service.consumes, *service.reads, *service.looks_into}
    # Services have an id for each partition. The leading gateway has one.
    ids = f"{service.name}.*" if service.consumes else service.name
    # A service of a chain waits while the chain has members, and fences its tasks.
    chain = chain_of(service.name)
    return KafkaRole(
        name=service.name,
        summary=service.summary.removeprefix(f"{service.name}: "),
        reads=tuple(topic for topic in TOPICS if topic in read),
        writes=service.sends,
        groups=service.groups or ((service.name,) if service.writes_in_transactions else ()),
        group_offsets=service.looks_up if chain is None else (*service.looks_up, chain),
        transactional_ids=(ids, *(() if chain is None else (f"{chain}.*",))) if service.writes_in_transactions else (),
        runs=True,
    )


def _of_chain(name: str, services: Sequence[KafkaRole]) -> KafkaRole:
    """Return the role of a process that runs a chain: what its services may do, in one transaction.

    Its group assigns the partitions. Offsets are committed in the groups of the services, whose tasks it fences.
    """
    reads = {topic for one in services for topic in one.reads}
    groups = (name, *(one.name for one in services))
    return KafkaRole(
        name=name,
        summary=f"Runs as one: {', '.join(groups[1:])}.",
        reads=_in_order(reads),
        writes=_in_order({topic for one in services for topic in one.writes}),
        groups=groups,
        group_offsets=tuple(
            dict.fromkeys(group for one in services for group in one.group_offsets if group not in groups)
        ),
        transactional_ids=tuple(f"{group}.*" for group in groups),
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
