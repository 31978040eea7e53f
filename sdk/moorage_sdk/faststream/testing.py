"""Plays decisions to the handlers of a broker, without Kafka and without a gateway.

    async with playing(broker) as decisions:
        bound = await decisions.bind("Pod/shop/web", "Node/n1")
        await decisions.evict(bound)
        await decisions.unbind(bound)
    assert [report.status for report in decisions.reports] == [...]

The handlers are called at once, by FastStream's `TestKafkaBroker`. An error of a handler is raised here. What they get
is what Moorage writes: the same keys, attributes and values, and tombstones. The player does not decide anything, so it
also plays what Moorage would not decide.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from faststream.kafka import KafkaBroker, TestKafkaBroker

from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import binding_key, eviction_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.topics import BINDINGS, CONDITION_REPORTS, EVICTIONS, Topic
from moorage_sdk.settings import Connection

_UNTOLERATED = "UntoleratedTaint"
_SOURCE = "moorage/played"


class DecisionPlayer:
    """Plays decisions. Generations and revisions increase as Moorage's do.

    Args:
        broker: the broker, in test mode.
        prefix: the first part of the topics' names.
    """

    def __init__(self, broker: KafkaBroker, prefix: str = "moorage") -> None:
        self.reports: list[ConditionReported] = []
        """The reports that the handlers have published, in their order."""

        self._broker = broker
        self._prefix = prefix
        self._count = 0
        self._generations: dict[str, int] = {}
        self._bindings: dict[str, WorkloadBound] = {}
        self._evictions: dict[str, EvictionDecided] = {}

    async def bind(self, workload: WorkloadRef | str, target: TargetRef | str, **fields: Any) -> WorkloadBound:
        """Play that a workload is to run on a target. Called again, it plays a change: `replicas=3`.

        Args:
            workload: `Kind/namespace/name`.
            target: `Kind/name`.
            fields: further fields of the binding.
        """
        workload = WorkloadRef.parse(workload) if isinstance(workload, str) else workload
        target = TargetRef.parse(target) if isinstance(target, str) else target
        key = binding_key(workload, target)
        known = self._bindings.get(key)
        if known is not None:
            bound = WorkloadBound.model_validate({**dict(known), "revision": known.revision + 1, **fields})
        else:
            self._generations[key] = generation = self._generations.get(key, 0) + 1
            now = datetime.now(UTC)
            given = {"uid": f"uid-{generation}", "owner": workload, "generation": generation, "bound_time": now}
            bound = WorkloadBound(workload=workload, target=target, **{**given, **fields})
        self._bindings[key] = bound
        await self.play(BINDINGS, key, bound)
        return bound

    async def unbind(self, bound: WorkloadBound) -> None:
        """Play that a binding has ended: its tombstone."""
        key = binding_key(bound.workload, bound.target)
        self._bindings.pop(key, None)
        await self.play(BINDINGS, key, None)

    async def schedule(self, bound: WorkloadBound, seconds: float = 300.0, **fields: Any) -> EvictionDecided:
        """Play that a binding has to end after some seconds."""
        deadline = datetime.now(UTC) + timedelta(seconds=seconds)
        return await self._decide(bound, EvictionState.SCHEDULED, {"deadline": deadline, **fields})

    async def hold(
        self, bound: WorkloadBound, by: Sequence[str] = ("EvictionPause/all",), **fields: Any
    ) -> EvictionDecided:
        """Play that an eviction is due, and held by budgets, pauses or rates."""
        return await self._decide(bound, EvictionState.HELD, {"held_by": tuple(by), **fields})

    async def evict(self, bound: WorkloadBound, **fields: Any) -> EvictionDecided:
        """Play that the work is to be removed now: the eviction is Requested."""
        return await self._decide(bound, EvictionState.REQUESTED, fields)

    async def complete(self, bound: WorkloadBound, **fields: Any) -> EvictionDecided:
        """Play that the eviction is Completed. Its binding ends with it."""
        event = await self._decide(bound, EvictionState.COMPLETED, fields)
        await self.unbind(bound)
        return event

    async def cancel(self, bound: WorkloadBound, **fields: Any) -> EvictionDecided:
        """Play that the work may stay after all."""
        return await self._decide(bound, EvictionState.CANCELLED, {"reason": "TaintRemoved", **fields})

    async def forget(self, bound: WorkloadBound) -> None:
        """Play that an eviction that has ended is removed after a while: its tombstone."""
        key = eviction_key(bound.workload, bound.target, bound.generation)
        self._evictions.pop(key, None)
        await self.play(EVICTIONS, key, None)

    async def play(self, topic: Topic, key: str, event: Model | None) -> None:
        """Play a record of any topic. None is a tombstone."""
        self._count += 1
        meta = Meta(event_id(topic.short, key, self._count), _SOURCE, topic.event_type, datetime.now(UTC))
        await self._broker.publish(
            None if event is None else event.model_dump_json().encode(),
            topic.name(self._prefix),
            key=key.encode(),
            headers={name: value.decode() for name, value in to_headers(meta)},
        )

    async def _decide(self, bound: WorkloadBound, state: EvictionState, fields: dict[str, Any]) -> EvictionDecided:
        key = eviction_key(bound.workload, bound.target, bound.generation)
        known = self._evictions.get(key)
        given = {
            "workload": bound.workload,
            "workload_uid": bound.uid,
            "owner": bound.owner,
            "target": bound.target,
            "generation": bound.generation,
            "revision": known.revision + 1 if known is not None else 1,
            "state": state,
            "purge_mode": bound.purge_mode,
            "deployer": bound.deployer,
            "reason": _UNTOLERATED,
            "decided_time": datetime.now(UTC),
        }
        self._evictions[key] = event = EvictionDecided(**{**given, **fields})
        await self.play(EVICTIONS, key, event)
        return event


@asynccontextmanager
async def playing(broker: KafkaBroker, connection: Connection | None = None) -> AsyncIterator[DecisionPlayer]:
    """Put a broker into test mode, and play decisions to its handlers.

    Args:
        broker: your broker, with its subscribers.
        connection: the prefix of the topics' names. Read from the environment if None.
    """
    player = DecisionPlayer(broker, (connection or Connection()).topic_prefix)
    reports = broker.subscriber(CONDITION_REPORTS.name(player._prefix), persistent=False)  # noqa: SLF001 - its own class

    @reports
    async def on_report(report: ConditionReported) -> None:
        player.reports.append(report)

    try:
        async with TestKafkaBroker(broker, connect_only=False):
            yield player
    finally:
        broker._subscribers.discard(reports)  # noqa: SLF001 - as FastStream does with its own fakes
