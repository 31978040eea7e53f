"""Checks of the brokers and of Moorage's topics, for `moorage doctor`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from moorage.insight.survey.findings import Finding, Level
from moorage.runtime.kafka.admin.features import finalized_features
from moorage.runtime.kafka.admin.log_dirs import LogDir, log_dirs
from moorage.runtime.kafka.admin.topic_settings import differences
from moorage.runtime.kafka.admin.topics_admin import broker_settings
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.clients.transactions_v2 import FEATURE
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS

BROKERS: Final = "brokers"
TOPICS_CHECK: Final = "topics"
DISK: Final = "disk"

_DAY_MINUTES: Final = 24 * 60
_SAFE_COPIES: Final = 3
_LOW, _VERY_LOW = 0.15, 0.05
"""The free part of a disk below which there is a warning, and an error."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule for a setting of the brokers."""

    name: str
    default: str
    """Kafka's default, for brokers that do not report the setting."""

    is_met: Callable[[str, Settings, int], bool]
    """Takes the value, the settings, and the number of brokers."""

    level: Level
    why: str
    remedy: str


_RULES: Final = (
    _Rule(
        "auto.create.topics.enable",
        "true",
        lambda value, _settings, _brokers: value == "false",
        Level.WARNING,
        "a misspelt name creates a topic with the wrong settings",
        "set auto.create.topics.enable=false on the brokers",
    ),
    _Rule(
        "transaction.max.timeout.ms",
        "900000",
        lambda value, settings, _brokers: int(value) >= settings.transaction_timeout_ms,
        Level.ERROR,
        "transactions of Moorage are refused",
        "raise transaction.max.timeout.ms, or lower MOORAGE_TRANSACTION_TIMEOUT_MS",
    ),
    _Rule(
        "group.min.session.timeout.ms",
        "6000",
        lambda value, settings, _brokers: int(value) <= settings.session_timeout_ms,
        Level.WARNING,
        "a killed process is noticed later than MOORAGE_SESSION_TIMEOUT_MS",
        "set group.min.session.timeout.ms=1000 on the brokers",
    ),
    _Rule(
        "add.partitions.to.txn.retry.backoff.ms",
        "20",
        lambda value, _settings, _brokers: int(value) <= 1,
        Level.WARNING,
        "a transaction right after another one waits for up to 20 ms",
        "set add.partitions.to.txn.retry.backoff.ms=1 on the brokers",
    ),
    _Rule(
        "offsets.retention.minutes",
        "10080",
        lambda value, _settings, _brokers: int(value) >= _DAY_MINUTES,
        Level.ERROR,
        "Kafka forgets the positions of idle services",
        "set offsets.retention.minutes to at least 1440 on the brokers",
    ),
    _Rule(
        "transaction.state.log.replication.factor",
        "3",
        lambda value, _settings, brokers: brokers < _SAFE_COPIES or int(value) >= _SAFE_COPIES,
        Level.WARNING,
        "the loss of a broker stops all transactions",
        "set transaction.state.log.replication.factor=3 and reassign the topic __transaction_state",
    ),
    _Rule(
        "offsets.topic.replication.factor",
        "3",
        lambda value, _settings, brokers: brokers < _SAFE_COPIES or int(value) >= _SAFE_COPIES,
        Level.WARNING,
        "the loss of a broker stops all consumer groups",
        "set offsets.topic.replication.factor=3 and reassign the topic __consumer_offsets",
    ),
    _Rule(
        "min.insync.replicas",
        "1",
        lambda value, _settings, brokers: brokers < _SAFE_COPIES or int(value) > 1,
        Level.WARNING,
        "a record can be lost with a single broker",
        "set min.insync.replicas=2 on the brokers",
    ),
)


async def check_brokers(settings: Settings) -> list[Finding]:
    """Return the findings about brokers, their disks, and Moorage's topics. One that answers nothing gives an error."""
    try:
        async with clients.administration(settings, client_id="moorage-doctor") as admin:
            cluster = await admin.describe_cluster()
            brokers = sorted(int(one["node_id"]) for one in cluster["brokers"])
            found = [Finding(Level.OK, BROKERS, f"{settings.bootstrap_servers} answers; {len(brokers)} in the cluster")]
            for check in (
                lambda: _settings(admin, settings, len(brokers)),
                lambda: _features(admin),
                lambda: _disks(admin, brokers),
            ):
                found += await _checked(check, settings)
            described = await admin.describe_topics([topic.name(settings.topic_prefix) for topic in TOPICS])
        found += topic_findings(described, len(brokers), settings.topic_prefix)
        found += await _checked(lambda: _differences(settings), settings)
    except (KafkaError, OSError, TimeoutError) as error:
        remedy = "check MOORAGE_BOOTSTRAP_SERVERS, the network and the credentials"
        return [Finding(Level.ERROR, BROKERS, f"{settings.bootstrap_servers}: {describe(error, settings)}", remedy)]
    return found


async def _checked(check: Callable[[], Awaitable[list[Finding]]], settings: Settings) -> list[Finding]:
    """Return the findings of a check. What the principal may not read is reported as unknown."""
    try:
        return await check()
    except (KafkaError, ValueError, NotImplementedError) as error:
        why = describe(error, settings) if isinstance(error, KafkaError) else str(error)
        return [Finding(Level.UNKNOWN, BROKERS, f"not checked: {why}")]


async def _settings(admin: AIOKafkaAdminClient, settings: Settings, brokers: int) -> list[Finding]:
    values = await broker_settings(admin, *(rule.name for rule in _RULES))
    return setting_findings(values, settings, brokers)


def setting_findings(values: Mapping[str, str], settings: Settings, brokers: int) -> list[Finding]:
    """Return the settings of the brokers that break a rule, or that all of them are right.

    Args:
        values: the settings that the brokers report.
        settings: the settings of Moorage.
        brokers: the number of brokers.
    """
    broken = [rule for rule in _RULES if not rule.is_met(values.get(rule.name, rule.default), settings, brokers)]
    if not broken:
        return [Finding(Level.OK, BROKERS, f"{len(_RULES)} settings are as Moorage needs them")]
    return [
        Finding(rule.level, BROKERS, f"{rule.name}={values.get(rule.name, rule.default)}: {rule.why}", rule.remedy)
        for rule in broken
    ]


async def _features(admin: AIOKafkaAdminClient) -> list[Finding]:
    level = (await finalized_features(admin)).get(FEATURE, 0)
    if level >= 2:  # noqa: PLR2004 - the version of the protocol
        return [Finding(Level.OK, BROKERS, f"{FEATURE} is {level}")]
    remedy = f"kafka-features.sh upgrade --feature {FEATURE}=2, then restart Moorage's processes"
    return [Finding(Level.WARNING, BROKERS, f"{FEATURE} is {level}: transactions take longer than necessary", remedy)]


async def _disks(admin: AIOKafkaAdminClient, brokers: Sequence[int]) -> list[Finding]:
    found = [one for broker in brokers for one in await log_dirs(admin, broker)]
    return disk_findings(found)


def disk_findings(found: Sequence[LogDir]) -> list[Finding]:
    """Return the disks of brokers that are nearly full, or that none is."""
    low = [one for one in found if one.usable < _LOW * one.total]
    if not low:
        free = min((one.usable for one in found), default=0)
        return [Finding(Level.OK, DISK, f"the brokers have at least {gib(free)} free")] if found else []
    return [
        Finding(
            Level.ERROR if one.usable < _VERY_LOW * one.total else Level.WARNING,
            DISK,
            f"broker {one.broker} has {gib(one.usable)} of {gib(one.total)} free in {one.path}",
            "free or add disk; a full disk stops the broker",
        )
        for one in low
    ]


def gib(count: int) -> str:
    """Return a number of bytes in GiB."""
    return f"{count / 2**30:.1f} GiB"


def topic_findings(described: Sequence[Mapping[str, Any]], brokers: int, prefix: str) -> list[Finding]:
    """Return what is wrong with Moorage's topics, or that nothing is.

    Args:
        described: the topics as Kafka describes them.
        brokers: the number of brokers.
        prefix: the prefix of their names.
    """
    missing = [one["topic"] for one in described if one["error_code"]]
    there = [one for one in described if not one["error_code"]]
    found = []
    if missing and not there:
        text = f"no topic of the prefix {prefix!r} exists: this Kafka has no fleet"
        return [Finding(Level.WARNING, TOPICS_CHECK, text, "moorage topics apply, or start the services")]
    if missing:
        text = f"{len(missing)} of {len(described)} topics do not exist: {', '.join(missing[:3])}"
        found.append(Finding(Level.ERROR, TOPICS_CHECK, text, "moorage topics apply, or start the services once"))
    counts = {one["topic"]: len(one["partitions"]) for one in there}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))
        text = f"the topics have different numbers of partitions ({listed})"
        remedy = "no process starts on them: restore an export into another prefix"
        found.append(Finding(Level.ERROR, TOPICS_CHECK, text, remedy))
    parts = [(one["topic"], part) for one in there for part in one["partitions"]]
    leaderless = {name for name, part in parts if part["leader"] < 0}
    if leaderless:
        text = f"{len(leaderless)} topics have partitions without a leader, such as {min(leaderless)}"
        found.append(Finding(Level.ERROR, TOPICS_CHECK, text, "start the brokers that have their replicas"))
    behind = {name for name, part in parts if len(part["isr"]) < len(part["replicas"])}
    if behind:
        text = f"{len(behind)} topics have replicas that are not in sync, such as {min(behind)}"
        found.append(Finding(Level.WARNING, TOPICS_CHECK, text, "check that all brokers run and keep up"))
    single = {name for name, part in parts if len(part["replicas"]) == 1}
    if single and brokers >= _SAFE_COPIES:
        text = f"{len(single)} topics have one replica, such as {min(single)}: the loss of a broker stops the fleet"
        remedy = "add replicas with kafka-reassign-partitions.sh, and set MOORAGE_REPLICATION_FACTOR=3"
        found.append(Finding(Level.WARNING, TOPICS_CHECK, text, remedy))
    if not found:
        count = next(iter(counts.values()), 0)
        text = f"{len(there)} topics with {count} partition{'s' * (count != 1)}, all in sync"
        found.append(Finding(Level.OK, TOPICS_CHECK, text))
    return found


async def _differences(settings: Settings) -> list[Finding]:
    return [
        Finding(
            Level.WARNING,
            TOPICS_CHECK,
            f"{one.topic}: {one.setting} is {one.present}, and {one.wanted} in Moorage's table",
            "moorage topics apply" + " --overwrite" * one.chosen + ", unless it is your choice",
        )
        for one in await differences(settings)
    ]
