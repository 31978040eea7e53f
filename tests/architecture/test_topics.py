"""The table of topics is consistent, and the services follow it."""

from __future__ import annotations

import inspect
import re
import sys
from collections import defaultdict

import pytest
from tests.support.tables import table

from moorage.cli.contract.kafka_roles import participants, service_classes
from moorage_schemas.topics import (
    BINDINGS,
    COMPACTION_LAG_MS,
    CONDITION_REPORTS,
    CONDITIONS,
    DEAD_LETTERS,
    EVICTIONS,
    OBJECTS,
    TAINTS,
    TIMER_FIRED,
    TIMERS,
    TOPICS,
    WATCHABLE_MS,
    Cleanup,
    Topic,
)

DAY_MS = 86_400_000
MIB = 1024 * 1024
SERVICES = sorted(service_classes(), key=lambda service: service.name)


def test_names_are_unique_and_versioned() -> None:
    names = [topic.name() for topic in TOPICS]
    assert len(set(names)) == len(names) == 28
    assert all(name.startswith("moorage.") and name.endswith(".v1") for name in names)
    assert CONDITIONS.name("fleet-a") == "fleet-a.conditions.v1"


@table("topic", TOPICS, ids=lambda topic: topic.short)
def test_what_is_compacted_is_kept_and_what_is_deleted_has_a_term(topic: Topic) -> None:
    config = topic.config()
    assert config["cleanup.policy"] == topic.cleanup.value
    if topic.cleanup is Cleanup.COMPACT:
        assert "retention.ms" not in config
    else:
        assert int(config["retention.ms"]) in (DAY_MS, 7 * DAY_MS, 30 * DAY_MS)
    assert topic.writer


@table("topic", TOPICS, ids=lambda topic: topic.short)
def test_segments_are_small_enough_for_what_is_to_be_removed(topic: Topic) -> None:
    """Kafka never touches the segment that is written, so it must be closed long before what is in it may go."""
    config = {name: int(value) for name, value in topic.config().items() if value.lstrip("-").isdigit()}
    assert 16 * MIB <= config["segment.bytes"] <= 128 * MIB
    assert config["segment.bytes"] >= 2 * config["max.message.bytes"]
    # Each index entry has 8 bytes and stands for at least 4 KiB of log.
    assert config["segment.index.bytes"] * 512 >= config["segment.bytes"]
    if topic.cleanup is Cleanup.COMPACT:
        lag = WATCHABLE_MS if topic is OBJECTS else COMPACTION_LAG_MS
        assert lag == config["min.compaction.lag.ms"] < config["max.compaction.lag.ms"]
        assert config["segment.ms"] <= config["max.compaction.lag.ms"]
        assert config["max.compaction.lag.ms"] < config["delete.retention.ms"]
    else:
        assert 7 * config["segment.ms"] <= config["retention.ms"]


def test_what_is_keyed_by_a_target_is_partitioned_by_it() -> None:
    of_targets = (CONDITION_REPORTS, CONDITIONS, TAINTS, BINDINGS, TIMERS, TIMER_FIRED, EVICTIONS)
    assert {topic.partition_by for topic in of_targets} == {"target"}


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_consumes_topics_that_line_up(service: type) -> None:
    """One owner has partition p of all sources, so records that belong together must be partitioned alike."""
    sources = service.sources  # type: ignore[attr-defined]  # a Service, as the fixture makes sure
    alike = {topic.partition_by.split(",")[0] for topic in sources}
    assert len(alike) == 1, sources


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_names_all_that_it_writes(service: type) -> None:
    """A partition task ends open transactions on these topics. The table and the module's docstring agree."""
    named = {*service.changelogs, *service.outputs}  # type: ignore[attr-defined]  # a Service
    assert {topic for topic in TOPICS if service.name in topic.writer.split(", ")} <= named  # type: ignore[attr-defined]  # as above
    _, _, emits = (inspect.getdoc(sys.modules[service.__module__]) or "").partition("Emits:\n")
    said = set(re.findall(r"`([a-z]+(?:-[a-z]+)*)`", emits.partition("\n\n")[0]))
    assert {topic.short for topic in TOPICS if topic.short in said} - {DEAD_LETTERS.short} == {
        topic.short for topic in named
    }


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_a_service_says_in_one_line_what_it_does(service: type) -> None:
    (participant,) = [one for one in participants() if one.name == service.name]  # type: ignore[attr-defined]  # a Service
    assert participant.summary.startswith(f"{participant.name}: ")
    assert participant.summary.endswith(".")


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_tables_are_among_the_sources_and_restored_topics_are_compacted(service: type) -> None:
    assert service.source_tables <= set(service.sources)  # type: ignore[attr-defined]  # a Service
    assert not set(service.changelogs) & set(service.sources)  # type: ignore[attr-defined]  # a Service
    assert service.refuses <= set(service.sources)  # type: ignore[attr-defined]  # a Service


def test_a_state_topic_has_one_writer() -> None:
    """`timers` is an exception by design: each key is written by the service that owns the timer."""
    writers = defaultdict(set)
    for participant in participants():
        for topic in participant.sends:
            writers[topic.short].add(participant.name)
    compacted = {topic.short for topic in TOPICS if topic.cleanup is Cleanup.COMPACT}
    states = compacted - {TIMERS.short}
    assert {short: names for short, names in writers.items() if short in states and len(names) > 1} == {}
    assert compacted <= writers.keys()


def test_the_table_names_the_writers() -> None:
    by_topic = {topic: topic.writer.split(", ") for topic in TOPICS}
    names = {participant.name for participant in participants()}
    others = {"third parties", "all services", "the timer's issuer"}
    for topic, writers in by_topic.items():
        assert set(writers) <= names | others, topic.short
