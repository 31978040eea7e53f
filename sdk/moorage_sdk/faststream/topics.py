"""Moorage's topics as subscribers and publishers of FastStream."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar, get_args, get_type_hints

from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaRouter
from faststream.kafka.schemas import Topic as KafkaTopic

from moorage_schemas.topics import CONDITION_REPORTS, TOPICS, Cleanup, Topic
from moorage_sdk.errors import InvalidValueError, SdkError
from moorage_sdk.faststream.records import Reading
from moorage_sdk.faststream.reports import ReportPublisher
from moorage_sdk.settings import Connection
from moorage_sdk.signing import signer_of
from moorage_sdk.targets import Targets

Handler = TypeVar("Handler", bound=Callable[..., Any])

CONSUMER: Final[dict[str, Any]] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
"""How the topics are read: from the beginning, and nothing of a transaction that did not end."""

_OURS: Final = frozenset({"batch", "codec", "decoder", "isolation_level", "parser", "partitions", "pattern"})
_EVENTS: Final = {topic.event: topic for topic in TOPICS}


class MoorageTopics:
    """Moorage's topics on a broker or a router.

    Without a consumer group, a subscriber reads its topic from the beginning at each start, as a table. With
    `group_id`, it goes on where the group was.

    A record is acknowledged when its handler has returned. After an error it is read again, with pauses of up to 10 s.
    So a handler may be called again for the same record, and no decision is lost. FastStream's own default acknowledges
    before the handler.

    Args:
        broker: your broker, or a router without a prefix.
        connection: the prefix of the topics' names, and the key that signs reports. Read from the environment if None.

    Raises:
        SdkError: the router has a prefix, or the key cannot be read.
    """

    def __init__(self, broker: KafkaBroker | KafkaRouter, connection: Connection | None = None) -> None:
        connection = connection or Connection()
        if broker.config.prefix:
            raise InvalidValueError(
                "prefix", broker.config.prefix, "expected a router without one, because topics have fixed names"
            )
        self.broker = broker
        self.prefix = connection.topic_prefix
        self._signer = signer_of(connection)

    def name(self, topic: Topic) -> str:
        """Return the name of a topic in Kafka."""
        return topic.name(self.prefix)

    def subscriber(
        self,
        topic: Topic,
        *,
        targets: Collection[str] | None = None,
        deployer: str = "",
        tombstones: bool = True,
        group_id: str | None = None,
        ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR,
        **options: Any,
    ) -> Callable[[Handler], Handler]:
        """Return a decorator for the handler of a topic's records. It gets the event, or None for a tombstone.

        Args:
            topic: the topic, such as `EVICTIONS` of `moorage_schemas.topics`.
            targets: patterns of targets, such as `Node/*`. Other records are passed over. All if None.
            deployer: passes over events that another deployer, or none, has to acknowledge. Tombstones name none, so
                they are handed over.
            tombstones: whether the handler gets tombstones. False hands over events alone.
            group_id: the consumer group that stores positions. None reads from the beginning at each start.
            ack_policy: `NACK_ON_ERROR` reads a record again after an error, `ACK` goes on, and with `MANUAL` the
                handler acknowledges.
            options: further options of FastStream's `subscriber`.

        Raises:
            SdkError: the topic cannot be read so, or the handler's annotation does not fit the topic.
        """
        made = self.reader(
            topic,
            targets=targets,
            deployer=deployer,
            tombstones=tombstones,
            group_id=group_id,
            ack_policy=ack_policy,
            **options,
        )
        may_be_none = tombstones and topic.cleanup is Cleanup.COMPACT

        def decorate(handler: Handler) -> Handler:
            _check(handler, topic, may_be_none=may_be_none)
            wrapped: Handler = made(handler)
            return wrapped

        return decorate

    def reader(
        self,
        *topics: Topic,
        targets: Collection[str] | None = None,
        deployer: str = "",
        tombstones: bool = True,
        group_id: str | None = None,
        ack_policy: AckPolicy = AckPolicy.NACK_ON_ERROR,
        **options: Any,
    ) -> Any:
        """Return FastStream's subscriber of topics, without a handler: for `async for`, or for handlers with filters.

        The arguments are those of `subscriber`.

        Raises:
            SdkError: a topic cannot be read so.
        """
        for topic in topics:
            _check_topic(topic, has_targets=targets is not None, deployer=deployer)
        if ack_policy is AckPolicy.ACK_FIRST:
            raise InvalidValueError("ack_policy", ack_policy.value, "expected one that acknowledges after the handler")
        if ours := sorted(_OURS & options.keys()):
            raise SdkError(f"{ours[0]}: not an option: expected FastStream's own subscriber for it")
        reading = Reading(
            {self.name(topic): topic for topic in topics},
            targets=Targets(targets),
            deployer=deployer,
            has_tombstones=tombstones,
            has_group=group_id is not None,
        )
        given: dict[str, Any] = {
            **CONSUMER,
            "no_reply": True,  # a record must not choose a topic that this program writes
            "title": ", ".join(topic.short for topic in topics),
            "description": " ".join(map(summary, topics)),
            **options,
            "group_id": group_id,
            "ack_policy": ack_policy,
            "parser": reading.parse,
            "decoder": reading.decode,
        }
        # Moorage creates its topics alone. FastStream would create them with one partition.
        names = [KafkaTopic(self.name(topic), declare=False) for topic in topics]
        broker: Any = self.broker
        return broker.subscriber(*names, **given)

    def reports(self, source: str) -> ReportPublisher:
        """Return the publisher of reports, which works as a decorator as well.

        Args:
            source: the name of the probe or the deployer, such as `probe/disk`.

        Raises:
            InvalidValueError: it is no such name.
        """
        publisher = self.broker.publisher(
            self.name(CONDITION_REPORTS),
            title=CONDITION_REPORTS.short,
            description=summary(CONDITION_REPORTS),
            schema=CONDITION_REPORTS.event,
        )
        return ReportPublisher(publisher, source, self._signer)


def summary(topic: Topic) -> str:
    """Return the first sentence about the event of a topic, and its key."""
    first = (topic.event.__doc__ or "").splitlines()[0]
    return f"{first} The key of a record: {topic.key}."


def _check_topic(topic: Topic, *, has_targets: bool, deployer: str) -> None:
    if topic is CONDITION_REPORTS:
        raise InvalidValueError(
            "topic", topic.short, "expected conditions, because any program may write unchecked reports"
        )
    if has_targets and "target" not in topic.key.split("|"):
        raise SdkError(f"targets: not for {topic.short}: its keys name no target")
    if deployer and "deployer" not in topic.event.model_fields:
        raise SdkError(f"deployer: not for {topic.short}: its events name none")


def _check(handler: Callable[..., Any], topic: Topic, *, may_be_none: bool) -> None:
    """Check that a handler takes what it gets. Annotations that cannot be evaluated are not checked."""
    try:
        hints = get_type_hints(inspect.unwrap(handler))
    except (NameError, TypeError):
        return
    expected = f"{topic.event.__name__} | None" if may_be_none else topic.event.__name__
    name = getattr(handler, "__name__", "handler")
    for parameter, hint in hints.items():
        if parameter == "return":
            continue
        kinds = [kind for kind in (hint, *get_args(hint)) if kind in _EVENTS]
        if kinds and topic.event not in kinds:
            raise InvalidValueError(f"{name}({parameter})", kinds[0].__name__, f"expected {expected}")
        if kinds and may_be_none and hint is topic.event:
            raise SdkError(f"{name}({parameter}): tombstones have no event: expected {expected}, or tombstones=False")
