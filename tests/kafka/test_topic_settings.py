"""Existing topics are brought to the table, and what the table says keeps their logs small. On a real Kafka."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from structlog.testing import capture_logs
from tests.support.brokers import Broker
from tests.support.log_sizes import log_sizes
from tests.support.toys import read_all, settings_for
from tests.support.waiting import until
from typer.testing import CliRunner, Result

from moorage.cli.app import app
from moorage.runtime.kafka.admin import topic_settings
from moorage.runtime.kafka.admin.topic_settings import SettingDifference, add_missing, change, differences
from moorage.runtime.kafka.clients import clients
from moorage.runtime.process.failures import TopicsError
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, TOPICS, Topic

pytestmark = pytest.mark.kafka

NEW = {"segment.bytes", "segment.ms", "segment.index.bytes", "max.compaction.lag.ms", "min.cleanable.dirty.ratio"}
"""The settings that earlier versions of the table did not have for compacted topics."""

OPERATORS = {"segment.bytes": "2097152", "compression.type": "gzip"}
"""What an operator has set: one setting of the table, and one that the table does not have."""


async def create(settings: Settings, configs: Mapping[Topic, Mapping[str, str]]) -> None:
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        await admin.create_topics(
            [
                NewTopic(topic.name(settings.topic_prefix), settings.partitions, 1, topic_configs=dict(config))
                for topic, config in configs.items()
            ]
        )
    finally:
        await admin.close()


async def present(settings: Settings, topic: Topic) -> dict[str, str]:
    """The settings that have a value on a topic itself."""
    admin = clients.admin_client(settings)
    await admin.start()
    try:
        asked = ConfigResource(ConfigResourceType.TOPIC, topic.name(settings.topic_prefix), None)
        (answer,) = await admin.describe_configs([asked])
        return {entry[0]: entry[1] for entry in answer.resources[0][4] if entry[3] == 1}
    finally:
        await admin.close()


async def shows(settings: Settings, topic: Topic, wanted: Mapping[str, str]) -> None:
    """Wait until a topic has these settings and no others. A broker learns of a change a moment after the answer."""

    async def there() -> bool:
        return await present(settings, topic) == dict(wanted)

    await until(there, message=f"{topic.short} has other settings")


async def none_differs(settings: Settings) -> None:
    async def there() -> bool:
        return await differences(settings) == []

    await until(there, message="settings differ")


async def older(broker: Broker, prefix: str) -> Settings:
    """Two topics as an earlier version made them; an operator has changed the first one."""
    settings = settings_for(broker.bootstrap, prefix, partitions=2)
    before = {name: value for name, value in CONDITIONS.config().items() if name not in NEW}
    reports = {"cleanup.policy": "delete", "max.message.bytes": "1048588", "retention.ms": "604800000"}
    made = {CONDITIONS: before | OPERATORS, CONDITION_REPORTS: reports}
    await create(settings, made)
    for topic, wanted in made.items():
        await shows(settings, topic, wanted)
    return settings


def chosen(settings: Settings, topic: Topic, setting: str, now: str) -> SettingDifference:
    return SettingDifference(topic.name(settings.topic_prefix), setting, now, topic.config()[setting], chosen=True)


async def test_a_process_adds_what_is_missing_and_keeps_what_somebody_has_set(
    broker: Broker, topic_prefix: str
) -> None:
    settings = await older(broker, topic_prefix)
    found = await differences(settings)
    assert {one.topic for one in found} == {
        topic.name(settings.topic_prefix) for topic in (CONDITIONS, CONDITION_REPORTS)
    }
    added = {one.setting for one in found if not one.chosen}
    missing = {"segment.bytes", "segment.ms", "max.compaction.lag.ms", "message.timestamp.type"}
    assert added == missing, "the cluster's default is right elsewhere"
    with capture_logs() as logged:
        await asyncio.gather(*(add_missing(settings) for _ in range(3)))
    wanted = CONDITIONS.config()
    new = {name: wanted[name] for name in ("segment.ms", "max.compaction.lag.ms")}
    await shows(settings, CONDITIONS, {name: wanted[name] for name in wanted if name not in NEW} | OPERATORS | new)
    kept = [
        chosen(settings, CONDITION_REPORTS, "retention.ms", "604800000"),
        chosen(settings, CONDITIONS, "segment.bytes", "2097152"),
    ]
    assert await differences(settings) == kept
    assert len(kept) == 2
    assert {one["event"] for one in logged} == {"topics.setting_added", "topics.setting_differs"}
    await change(settings, kept)
    await none_differs(settings)
    assert (await present(settings, CONDITIONS))["compression.type"] == "gzip", "the table does not have it"


async def test_a_broker_that_refuses_a_setting_stops_no_process(broker: Broker, topic_prefix: str) -> None:
    settings = await older(broker, topic_prefix)
    impossible = replace(CONDITIONS, segments=replace(CONDITIONS.segments, ms=-5))
    with capture_logs() as logged:
        await add_missing(settings, (impossible, CONDITION_REPORTS))
    refused = [one for one in logged if one["event"] == "topics.settings_refused"]
    assert [one["topic"] for one in refused] == [CONDITIONS.name(settings.topic_prefix)]
    assert "segment.ms" in refused[0]["why"]

    async def there() -> bool:
        return "segment.ms" in await present(settings, CONDITION_REPORTS)

    await until(there, message="the other topic has not got its settings")
    with pytest.raises(TopicsError, match=r"conditions\.v1: InvalidConfigurationError: .*segment\.ms"):
        await change(settings, await differences(settings, (impossible,)))


async def test_a_broker_that_does_not_answer_stops_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_settings, "_ANSWER_SECONDS", 0.0)
    with capture_logs() as logged:
        await add_missing(settings_for("127.0.0.1:1", "nowhere"))
    assert [one["event"] for one in logged] == ["topics.settings_unknown"]


async def test_a_small_segment_lets_a_table_shrink_to_the_last_record_of_each_key(
    broker: Broker, topic_prefix: str
) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=1)
    small = {"segment.bytes": str(1024 * 1024), "min.compaction.lag.ms": "0"}  # the least that Kafka 4 accepts
    await create(settings, {CONDITIONS: CONDITIONS.config() | small})
    written, keys, value = 6000, 20, b"x" * 1000
    name = CONDITIONS.name(settings.topic_prefix)
    async with AIOKafkaProducer(bootstrap_servers=settings.bootstrap_servers, linger_ms=5) as producer:
        for number in range(written):
            await producer.send(name, value, key=b"k%d" % (number % keys), partition=0)

    async def smaller() -> bool:
        # Nearly 6 MB were written. The segment that is written is never compacted, so up to 1 MiB of it stays.
        return (await log_sizes(settings, (CONDITIONS,)))[CONDITIONS.short] < 1.2 * 1024 * 1024

    await until(smaller, message="the log was not compacted")
    left = [record.key for record in await read_all(settings, CONDITIONS)]
    assert set(left) == {b"k%d" % number for number in range(keys)}
    assert len(left) < written / 4


# `moorage topics make`


async def make(settings: Settings, *words: str) -> Result:
    environment = {
        "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
        "MOORAGE_PARTITIONS": "2",
    }
    return await asyncio.to_thread(CliRunner().invoke, app, ["topics", "make", *words], env=environment)


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_topics_make_shows_the_difference_first(broker: Broker, topic_prefix: str) -> None:
    settings = await older(broker, topic_prefix)
    conditions, reports = (topic.name(settings.topic_prefix) for topic in (CONDITIONS, CONDITION_REPORTS))
    shown = await make(settings, "--dry-run")
    assert shown.exit_code == 0
    missing = [line for line in lines(shown.stdout) if line[1:] == ["created", "(dry", "run)"]]
    assert len(missing) == len(TOPICS) - 2
    table = lines(shown.stdout)[len(missing) :]
    assert table[0] == ["TOPIC", "SETTING", "PRESENT", "WANTED", "ACTION"]
    assert [reports, "retention.ms", "604800000", "86400000", "keep"] in table
    assert [conditions, "segment.ms", "604800000", "7200000", "change"] in table
    assert (await present(settings, CONDITION_REPORTS)).keys() == {
        "cleanup.policy",
        "max.message.bytes",
        "retention.ms",
    }

    refused = await make(settings)
    assert refused.exit_code == 1
    assert "not a terminal: pass --yes to change" in refused.stderr
    assert [conditions, "segment.ms", "604800000", "7200000", "change"] in lines(refused.stderr)
    assert "segment.ms" not in await present(settings, CONDITIONS)

    done = await make(settings, "--yes", "-o", "name")
    assert (done.exit_code, done.stdout.count("\n")) == (0, len(TOPICS))
    assert "settings changed" in done.stderr

    async def changed() -> bool:
        return (await present(settings, CONDITIONS)).get("segment.ms") == "7200000"

    await until(changed, message="the setting was not changed")
    assert (await present(settings, CONDITION_REPORTS))["retention.ms"] == "604800000", "somebody has set it"

    named = await make(settings, "--dry-run", "--overwrite", "-o", "name")
    assert named.stdout == f"topic/{reports} configured (dry run)\ntopic/{conditions} configured (dry run)\n"
    whole = await make(settings, "--dry-run", "-o", "json")
    values = {"present": "604800000", "wanted": "86400000"}
    assert json.loads(whole.stdout)["items"][0] == {
        "topic": reports,
        "setting": "retention.ms",
        **values,
        "changes": False,
    }
    again = await make(settings)
    assert again.exit_code == 0, "what is kept needs no answer"
    everything = await make(settings, "--yes", "--overwrite")
    assert "2 settings changed" in everything.stderr
    await none_differs(settings)
