"""The gateway's garbage collection while the services run: deletes the resources of bare pods that were evicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from moorage.decide.disruption.budgets import is_pod
from moorage.runtime.service import Emit, Input, Service
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared, resource_partition_key
from moorage_schemas.topics import PLACEMENTS, RESOURCES, Topic


@dataclass(slots=True)
class Pods:
    """The uids of the declared pods of one partition that no finalizer holds."""

    uids: dict[str, str] = field(default_factory=dict)


class Sweep(Service[Pods]):
    """Does the same as `gateway.controllers.pod_gc`, without HTTP and locks.

    It deletes mirrored pods, too, as their clusters would.

    A bare pod is its own owner, so the record of its placement and that of its resource are in the same partition.
    """

    name: ClassVar[str] = "gateway"
    sources: ClassVar[tuple[Topic, ...]] = (PLACEMENTS,)
    outputs: ClassVar[tuple[Topic, ...]] = (RESOURCES,)
    follows: ClassVar[tuple[Topic, ...]] = (RESOURCES,)

    def new_state(self, partition: int) -> Pods:  # noqa: ARG002 - every partition has the same initial state
        """Return an empty state for a partition."""
        return Pods()

    def apply(self, state: Pods, topic: Topic, key: str, event: Model | None) -> None:
        """Apply a declared pod."""
        if topic is RESOURCES and is_pod(key):
            if isinstance(event, ResourceDeclared) and not event.object["metadata"].get("finalizers"):
                state.uids[key] = event.uid
            else:
                state.uids.pop(key, None)

    def process(
        self,
        state: Pods,
        batch: Sequence[Input],
        now: datetime,
        *,
        fresh: bool = False,  # noqa: ARG002 - it needs nothing that could be late
    ) -> list[Emit]:
        """Delete the resource of each bare pod that was evicted, if it is still the same pod."""
        emits = []
        for record in batch:
            placed = record.event
            if (
                isinstance(placed, WorkloadPlaced)
                and placed.state is PlacementState.EVICTED
                and state.uids.get(record.key) == placed.uid
            ):
                del state.uids[record.key]
                meta = Meta(
                    id=event_id(record.key, placed.uid, "deleted"),
                    source=f"moorage/{self.name}",
                    type=RESOURCES.event_type,
                    time=now,
                    subject=record.key,
                )
                emits.append(Emit(RESOURCES, record.key, resource_partition_key(record.key), None, record.meta, meta))
        return emits
