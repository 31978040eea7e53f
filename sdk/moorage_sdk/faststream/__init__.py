"""Moorage's topics for FastStream: typed subscribers and publishers on a broker or a router of your own.

    broker = moorage_broker()
    topics = MoorageTopics(broker)

    @topics.subscriber(BINDINGS, targets=["Node/*"])
    async def on_binding(bound: WorkloadBound | None, key: RecordKey) -> None: ...

`moorage_sdk.faststream.testing` plays decisions to handlers without Kafka.
"""

from __future__ import annotations

from moorage_sdk.faststream.broker import moorage_broker
from moorage_sdk.faststream.records import EventMeta, RecordKey, RecordMessage, RecordTarget
from moorage_sdk.faststream.reports import ReportPublisher
from moorage_sdk.faststream.topics import MoorageTopics

__all__ = [
    "EventMeta",
    "MoorageTopics",
    "RecordKey",
    "RecordMessage",
    "RecordTarget",
    "ReportPublisher",
    "moorage_broker",
]
