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
from moorage_schemas.topics import CONDITION_REPORTS, CONDITIONS, TAINTS, TOPICS, Topic

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


def replace_partitions(settings: Settings, partitions: int) -> Settings:
    return settings.model_copy(update={"partitions": partitions})


async def create_named(settings: Settings, name: str) -> None:
    async with clients.administration(settings) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])


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


# `moorage topics apply`


async def topics(settings: Settings, *words: str, **more: str) -> Result:
    environment = {
        "MOORAGE_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "MOORAGE_TOPIC_PREFIX": settings.topic_prefix,
        "MOORAGE_PARTITIONS": "2",
        **more,
    }
    return await asyncio.to_thread(CliRunner().invoke, app, ["topics", *words], env=environment)


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


async def test_topics_apply_shows_the_difference_first(broker: Broker, topic_prefix: str) -> None:
    settings = await older(broker, topic_prefix)
    conditions, reports = (topic.name(settings.topic_prefix) for topic in (CONDITIONS, CONDITION_REPORTS))
    shown = await topics(settings, "apply", "--dry-run")
    assert shown.exit_code == 0
    table = lines(shown.stdout)
    assert (
        len([line for line in table if line[1:] == ["topic", "missing", "2", "partitions", "create"]])
        == len(TOPICS) - 2
    )
    assert table[0] == ["TOPIC", "DIFFERENCE", "PRESENT", "WANTED", "ACTION"]
    assert [reports, "retention.ms", "604800000", "86400000", "keep"] in table
    assert [conditions, "segment.ms", "604800000", "7200000", "change"] in table
    assert (await present(settings, CONDITION_REPORTS)).keys() == {
        "cleanup.policy",
        "max.message.bytes",
        "retention.ms",
    }

    refused = await topics(settings, "make")
    assert refused.exit_code == 1
    assert "not a terminal: pass --yes to change" in refused.stderr
    assert [conditions, "segment.ms", "604800000", "7200000", "change"] in lines(refused.stderr)
    assert "segment.ms" not in await present(settings, CONDITIONS)

    done = await topics(settings, "apply", "--yes", "-o", "name")
    assert (done.exit_code, done.stdout.count("\n")) == (0, len(TOPICS))
    assert "settings changed" in done.stderr

    async def changed() -> bool:
        return (await present(settings, CONDITIONS)).get("segment.ms") == "7200000"

    await until(changed, message="the setting was not changed")
    assert (await present(settings, CONDITION_REPORTS))["retention.ms"] == "604800000", "somebody has set it"

    named = await topics(settings, "plan", "--overwrite", "-o", "name")
    assert named.stdout == f"topic/{conditions} configured (dry run)\n", "reports would be kept for a shorter time"
    whole = await topics(settings, "plan", "-o", "json")
    assert json.loads(whole.stdout)["items"][0] == {
        "topic": reports,
        "difference": "retention.ms",
        "present": "604800000",
        "wanted": "86400000",
        "action": "keep",
        "remedy": "it is set on the topic; --overwrite changes it",
    }
    assert whole.exit_code == 0, "what is kept needs no answer"
    again = await topics(settings, "apply")
    assert again.exit_code == 0, "what is kept needs no answer"
    some = await topics(settings, "apply", "--yes", "--overwrite")
    assert "1 settings changed" in some.stderr
    assert "records would be kept for a shorter time; --shorten allows it" in some.stderr
    assert (await present(settings, CONDITION_REPORTS))["retention.ms"] == "604800000"
    everything = await topics(settings, "apply", "--yes", "--overwrite", "--shorten")
    assert "1 settings changed" in everything.stderr
    await none_differs(settings)
    done = await topics(settings, "plan")
    assert (done.exit_code, done.stdout) == (0, "nothing to change\n")


async def test_topics_plan_names_a_remedy_for_what_would_lose_records(broker: Broker, topic_prefix: str) -> None:
    settings = settings_for(broker.bootstrap, topic_prefix, partitions=2)
    compacted = CONDITION_REPORTS.config() | {"cleanup.policy": "compact"}
    compacted = {name: value for name, value in compacted.items() if not name.startswith("retention")}
    await create(settings, {CONDITIONS: CONDITIONS.config(), CONDITION_REPORTS: compacted})
    await create(replace_partitions(settings, 3), {TAINTS: TAINTS.config()})
    await create_named(settings, f"{settings.topic_prefix}.conditions.v2")
    found: dict[tuple[str, str], dict[str, str]] = {}

    async def all_are_listed() -> bool:
        # A broker learns of a new topic a moment after the answer.
        shown = await topics(settings, "plan", "--overwrite", "-o", "json")
        assert shown.exit_code == 1
        found.update({(one["topic"], one["difference"]): one for one in json.loads(shown.stdout)["items"]})
        present_ = {topic for topic, difference in found if difference != "topic"}
        return len(present_) == 2 and (f"{settings.topic_prefix}.conditions.v2", "topic") in found

    await until(all_are_listed, message="the topics are not listed")
    reports, taints = (topic.name(settings.topic_prefix) for topic in (CONDITION_REPORTS, TAINTS))
    policy = found[reports, "cleanup.policy"]
    assert (policy["action"], policy["present"], policy["wanted"]) == ("refuse", "compact", "delete")
    assert "moorage export --state" in policy["remedy"]
    parts = found[taints, "partitions"]
    assert (parts["action"], parts["present"], parts["wanted"]) == ("refuse", "3", "2")
    assert "delete this one if it is empty" in parts["remedy"]
    assert found[f"{settings.topic_prefix}.conditions.v2", "topic"]["action"] == "keep"
    wider = await topics(settings, "plan", "-o", "json", MOORAGE_PARTITIONS="8", MOORAGE_REPLICATION_FACTOR="3")
    more = {(one["topic"], one["difference"]): one for one in json.loads(wider.stdout)["items"]}
    conditions = more[CONDITIONS.name(settings.topic_prefix), "partitions"]
    assert (conditions["action"], conditions["wanted"]) == ("refuse", "8")
    assert "moorage restore" in conditions["remedy"]
    copies = more[CONDITIONS.name(settings.topic_prefix), "copies"]
    assert (copies["action"], copies["present"], copies["wanted"]) == ("refuse", "1", "3")
    refused = await topics(settings, "apply", "--yes", "--overwrite")
    assert refused.exit_code == 1
    assert "must have the same number of partitions" in refused.stderr
    assert (await present(settings, CONDITION_REPORTS))["cleanup.policy"] == "compact"
