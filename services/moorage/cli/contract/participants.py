"""The topics that each service reads and writes, as the services' classes declare them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moorage.apiserver.storage.durable_log import WRITTEN
from moorage.apiserver.storage.kafka import dead_letters, report_outcomes
from moorage.apiserver.storage.tables import READ
from moorage.cli.local import services
from moorage.insight.diff import question
from moorage.insight.explain import grounds
from moorage.insight.query import chain_index
from moorage.runtime.service import Service
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.webhooks import deliveries
from moorage_schemas.topics import (
    CONDITION_REPORTS,
    DEAD_LETTERS,
    JOURNAL,
    OBJECTS,
    RESOURCES,
    TOPICS,
    WEBHOOK_STATUSES,
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
    """The class of every service that `moorage run` knows."""
    settings = Settings()
    for name in services.names():
        yield type(services.make(name, settings))


def _participant(service: type[Service[object]]) -> Participant:
    return Participant(
        name=service.name,
        summary=f"{service.name}: {service.summary[0].lower()}{service.summary[1:]}",
        consumes=_in_order(set(service.sources)),
        reads=_in_order({*service.follows, *service.globals, *service.changelogs} - set(service.sources)),
        # Every service writes records that it cannot handle to dead-letters, and its steps to the journal.
        sends=_in_order({*service.changelogs, *service.outputs, DEAD_LETTERS, JOURNAL}),
        looks_up=tuple(one.service for one in service.upstream),
        looks_into=_in_order({topic for one in service.upstream for topic in (*one.topics, one.via)}),
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
        sends=_in_order(set(WRITTEN)),
        looks_up=(report_outcomes.INGEST,),
        looks_into=_in_order({*report_outcomes.FOLLOWED, *dead_letters.READ}),
    )


def _in_order(topics: set[Topic]) -> tuple[Topic, ...]:
    return tuple(topic for topic in TOPICS if topic in topics)
