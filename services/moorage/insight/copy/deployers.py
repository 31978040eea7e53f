"""Deployers while the services run: each acknowledges at once what it has to, because nobody reports to a copy.

Otherwise every binding whose deployer acknowledges would stay in the copy forever. Work that a deployer has failed or
refused to remove stays, as far as anybody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from moorage.runtime.service import Emit, Input, Service
from moorage_schemas.base import Model
from moorage_schemas.condition import EVICTED, ConditionStatus, WorkloadConditionChanged
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import workload_condition_key
from moorage_schemas.topics import EVICTIONS, WORKLOAD_CONDITIONS, Topic


class Deployers(Service[None]):
    """Writes what condition-ingest would write of the reports of deployers."""

    name: ClassVar[str] = "deployers"
    sources: ClassVar[tuple[Topic, ...]] = (EVICTIONS,)
    outputs: ClassVar[tuple[Topic, ...]] = (WORKLOAD_CONDITIONS,)

    def new_state(self, partition: int) -> None:
        """Return nothing: it keeps nothing."""

    def apply(self, state: None, topic: Topic, key: str, event: Model | None) -> None:
        """Keep nothing."""

    def process(
        self,
        state: None,  # noqa: ARG002 - it keeps nothing
        batch: Sequence[Input],
        now: datetime,
        *,
        fresh: bool = False,  # noqa: ARG002 - it needs nothing that could be late
    ) -> list[Emit]:
        """Acknowledge each eviction that waits for its deployer."""
        return [
            Emit(
                WORKLOAD_CONDITIONS,
                workload_condition_key(event.workload, event.target, EVICTED),
                event.target.key,
                _acknowledgement(event, now),
                record.meta,
            )
            for record in batch
            if isinstance(event := record.event, EvictionDecided) and _waits(event)
        ]


def _waits(event: EvictionDecided) -> bool:
    is_open = event.state is EvictionState.REQUESTED and event.acknowledged is None
    return is_open and bool(event.deployer) and event.escalated is None


def _acknowledgement(event: EvictionDecided, now: datetime) -> WorkloadConditionChanged:
    return WorkloadConditionChanged(
        target=event.target,
        type=EVICTED,
        status=ConditionStatus.TRUE,
        reason="Simulated",
        source=event.deployer,
        last_transition_time=now,
        last_heartbeat_time=now,
        generation=1,
        workload=event.workload,
        workload_uid=event.workload_uid,
        binding_generation=event.generation,
    )
