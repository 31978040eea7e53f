"""Compares the topics of the table with those of the cluster: missing topics, partitions, copies, settings.

What loses records is never done: no topic is deleted, none gets more partitions, because keys would move, and no record
is kept for a shorter time unless that is requested.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from aiokafka.errors import TopicAuthorizationFailedError

from moorage.runtime.kafka.admin.topic_settings import SettingDifference, differences
from moorage.runtime.kafka.admin.topics_admin import wanted_copies
from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.clients.refusals import hidden_topic
from moorage.runtime.process.failures import TopicsError
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS, Topic

_KEEPS: Final = frozenset({"retention.ms", "retention.bytes", "delete.retention.ms", "min.compaction.lag.ms"})
"""Settings that determine how long records are kept. -1 stands for ever."""

_POLICY: Final = "cleanup.policy"
_ANOTHER_FLEET: Final = "`moorage export --state`, and `moorage restore` under another prefix with that number"


class PlannedAction(StrEnum):
    """The way in which `moorage topics apply` treats a difference."""

    CREATE = "create"
    CHANGE = "change"
    KEEP = "keep"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class TopicDifference:
    """A difference between the table and the cluster."""

    topic: str
    """The name of the topic in Kafka."""

    subject: str
    """`topic`, `partitions`, `copies`, or the name of a setting."""

    present: str
    wanted: str
    action: PlannedAction
    remedy: str = ""
    """How to reach the wanted state, if nothing is done about it."""

    setting: SettingDifference | None = None


async def planned(
    settings: Settings,
    *,
    partitions: int | None = None,
    overwrite: bool = False,
    shorten: bool = False,
    topics: Sequence[Topic] = TOPICS,
) -> list[TopicDifference]:
    """Return the differences, in the order of the table.

    Args:
        settings: the address of Kafka, the topics' prefix, and the number of copies.
        partitions: the number of partitions that is wanted; None for that of the fleet.
        overwrite: whether settings that have another value on the topic are changed.
        shorten: whether records may be kept for a shorter time than now.
        topics: the table.

    Raises:
        KafkaError: Kafka does not answer, or refuses.
        OSError: there was no connection.
        TopicsError: a topic is hidden from this user.
    """
    names = [topic.name(settings.topic_prefix) for topic in topics]
    async with clients.administration(settings) as admin:
        answers = await admin.describe_topics(names)
        if hidden := [one["topic"] for one in answers if one["error_code"] == TopicAuthorizationFailedError.errno]:
            raise TopicsError(hidden_topic(hidden[0], settings))
        described = {one["topic"]: one["partitions"] for one in answers if not one["error_code"]}
        copies = await wanted_copies(admin, settings)
        others = [name for name in await admin.list_topics() if name not in names and _is_of(settings, name)]
    found = [_setting(one, overwrite=overwrite, shorten=shorten) for one in await differences(settings, topics)]
    by_topic: dict[str, list[TopicDifference]] = {name: [] for name in names}
    fleet = _usual(described)
    for name in names:
        if name not in described:
            wanted = f"{fleet or partitions or settings.partitions} partitions"
            by_topic[name].append(TopicDifference(name, "topic", "missing", wanted, PlannedAction.CREATE))
            continue
        by_topic[name] += _shape(name, described[name], fleet, partitions or fleet, copies)
    for one in found:
        by_topic[one.topic].append(one)
    rest = [
        TopicDifference(name, "topic", "present", "not in the table", PlannedAction.KEEP) for name in sorted(others)
    ]
    return [one for name in names for one in by_topic[name]] + rest


def _is_of(settings: Settings, name: str) -> bool:
    """Return whether a topic has the form of one of this fleet: the prefix, one word, and a version."""
    rest = name.removeprefix(f"{settings.topic_prefix}.")
    return rest != name and rest.count(".") == 1 and rest.rpartition(".")[2].startswith("v")


def _usual(described: Mapping[str, Sequence[Any]]) -> int:
    """Return the number of partitions that most topics have; 0 if there are none."""
    counts = Counter(len(parts) for parts in described.values())
    return counts.most_common(1)[0][0] if counts else 0


def _shape(name: str, parts: Sequence[Any], fleet: int, partitions: int, copies: int) -> list[TopicDifference]:
    found: list[TopicDifference] = []
    if len(parts) != partitions:
        remedy = _ANOTHER_FLEET
        if len(parts) != fleet:
            remedy = f"the other topics have {fleet}: delete this one if it is empty, and run this again"
        found.append(
            TopicDifference(name, "partitions", f"{len(parts)}", f"{partitions}", PlannedAction.REFUSE, remedy)
        )
    fewest = min(len(part["replicas"]) for part in parts)
    if fewest < copies:
        remedy = "Kafka's kafka-reassign-partitions.sh adds copies"
        found.append(TopicDifference(name, "copies", f"{fewest}", f"{copies}", PlannedAction.REFUSE, remedy))
    return found


def _setting(one: SettingDifference, *, overwrite: bool, shorten: bool) -> TopicDifference:
    action, remedy = PlannedAction.CHANGE, ""
    if one.chosen and not overwrite:
        action, remedy = PlannedAction.KEEP, "it is set on the topic; --overwrite changes it"
    elif one.setting == _POLICY:
        action = PlannedAction.REFUSE
        remedy = "records would be deleted: `moorage export --state`, and `moorage restore` under another prefix"
    elif _is_shorter(one) and not shorten:
        action, remedy = PlannedAction.REFUSE, "records would be kept for a shorter time; --shorten allows it"
    return TopicDifference(one.topic, one.setting, one.present, one.wanted, action, remedy, one)


def _is_shorter(one: SettingDifference) -> bool:
    """Return whether Kafka would keep records for a shorter time, or fewer of them."""
    if one.setting not in _KEEPS:
        return False
    present, wanted = (float("inf") if value == "-1" else float(value) for value in (one.present, one.wanted))
    return wanted < present
