"""Which service reads and writes which topic, as the services' own classes declare it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from moorage.cli.local import services
from moorage.gateway.log import WRITTEN
from moorage.gateway.tables import READ
from moorage.runtime.service import Service
from moorage.runtime.settings import Settings
from moorage_schemas.topics import AUDIT, DEAD_LETTERS, JOURNAL, TOPICS, Topic


@dataclass(frozen=True, slots=True)
class Participant:
    """One service of Moorage and the topics it touches, each in the order of the table."""

    name: str
    summary: str
    """What it does, in one line."""

    consumes: tuple[Topic, ...]
    """With committed offsets, as a member of its consumer group."""

    reads: tuple[Topic, ...]
    """As tables, without offsets."""

    sends: tuple[Topic, ...]


def participants() -> tuple[Participant, ...]:
    """Every service, by name, the gateway last."""
    return (*(_participant(service) for service in service_classes()), _gateway())


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
        # Whatever cannot be decoded or handled goes to dead-letters, how it came to its decisions to the journal.
        sends=_in_order({*service.changelogs, *service.outputs, DEAD_LETTERS, JOURNAL}),
    )


def _gateway() -> Participant:
    return Participant(
        name=services.GATEWAY,
        summary="The edge for people and programs: Kubernetes-style API and CloudEvents intake; decides nothing.",
        consumes=(),
        reads=_in_order({*READ, AUDIT}),  # `audit` says which gateway took the writing over last
        sends=_in_order(set(WRITTEN)),
    )


def _in_order(topics: set[Topic]) -> tuple[Topic, ...]:
    return tuple(topic for topic in TOPICS if topic in topics)
