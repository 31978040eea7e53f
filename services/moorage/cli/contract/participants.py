"""Which service reads and writes which topic, taken from the services' own classes and the topic table."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from moorage.cli.local import services
from moorage.gateway.tables import READ
from moorage.query import chain_index
from moorage.runtime.service import Service
from moorage.runtime.settings import Settings
from moorage.simulation.explain import grounds
from moorage_schemas.topics import AUDIT, CONDITION_REPORTS, DEAD_LETTERS, JOURNAL, RESOURCES, TOPICS, Topic


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
    """Every service, by name, then the query worker and the gateway."""
    return (*(_participant(service) for service in service_classes()), _query(), _gateway())


def service_classes() -> Iterator[type[Service[object]]]:
    """The class of every service that `moorage run` knows."""
    settings = Settings()
    for name in services.names():
        yield type(services.make(name, settings))


def _participant(service: type[Service[object]]) -> Participant:
    writes = set(service.changelogs) | {topic for topic in TOPICS if service.name in _writers(topic)}
    # Whatever cannot be decoded or handled goes to the one, how it came to its decisions to the other.
    writes |= _said_to_emit(service) | {DEAD_LETTERS, JOURNAL}
    return Participant(
        name=service.name,
        summary=_summary(service),
        consumes=_in_order(set(service.sources)),
        reads=_in_order({*service.follows, *service.globals, *service.changelogs} - set(service.sources)),
        sends=_in_order(writes),
    )


def _summary(service: type[Service[object]]) -> str:
    """What its package says of it in its first line."""
    package = sys.modules[service.__module__.rpartition(".")[0]]
    return (inspect.getdoc(package) or "").partition("\n")[0]


def _said_to_emit(service: type[Service[object]]) -> set[Topic]:
    """The topics under `Emits:` in the docstring with which a service's module begins."""
    _, _, emits = (inspect.getdoc(sys.modules[service.__module__]) or "").partition("Emits:\n")
    section = emits.partition("\n\n")[0]
    names = set(re.findall(r"^ +`([a-z-]+)`", section, re.MULTILINE))
    return {topic for topic in TOPICS if topic.short in names}


def _query() -> Participant:
    return Participant(
        name=services.QUERY,
        summary="Keeps the tables that explanations are made from, and answers over HTTP; writes nothing.",
        consumes=(),
        reads=_in_order({*grounds.TOPICS, *chain_index.TOPICS, CONDITION_REPORTS}),
        sends=(),
    )


def _gateway() -> Participant:
    sends = {topic for topic in TOPICS if services.GATEWAY in _writers(topic)} | {CONDITION_REPORTS, RESOURCES, AUDIT}
    return Participant(
        name=services.GATEWAY,
        summary="The edge for people and programs: Kubernetes-style API and CloudEvents intake; decides nothing.",
        consumes=(),
        reads=_in_order({*READ, AUDIT}),  # `audit` says which gateway took the writing over last
        sends=_in_order(sends),
    )


def _writers(topic: Topic) -> list[str]:
    return [writer.strip() for writer in topic.writer.split(",")]


def _in_order(topics: set[Topic]) -> tuple[Topic, ...]:
    return tuple(topic for topic in TOPICS if topic in topics)
