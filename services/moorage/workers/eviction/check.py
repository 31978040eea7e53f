"""A check of one eviction: what it rests on, and the records that follow."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from moorage.decide.disruption.eviction_transitions import Occasion
from moorage.decide.disruption.leave_verdict import Demand
from moorage.decide.taints.eviction_verdict import Keep, Verdict
from moorage.runtime.service import Emit, Freshness
from moorage.workers.eviction.eviction_task import Binding, BoundTarget, Pending, Task
from moorage.workers.eviction.state import EvictionPartition
from moorage_schemas.budget import EvictionAnswered
from moorage_schemas.envelope import Meta

_NO_TARGET: Final = BoundTarget()
_NO_VERDICT: Final = Keep((), "")

Verdicts = dict[tuple[str, int], Verdict]
"""The verdicts of one call, by the target's key and the identity of the tolerations. Equal tolerations are one object.
"""


class EvictionCheck(Struct):
    """A check of one eviction. Every record that is written is folded into the state at once."""

    state: EvictionPartition
    target: str
    workload: str
    cause: Meta
    time: datetime
    due: datetime
    """Deadlines up to this time are due."""

    emits: list[Emit]
    verdicts: Verdicts = {}
    reported: datetime | None = None
    """When the report behind the cause was made."""

    former: Binding | None = None
    """The binding before the record that is the cause; the present one in a sweep."""

    answer: EvictionAnswered | None = None
    """The governor's answer that is the cause."""

    pending: Pending | None = None
    """The pending eviction on which to decide."""

    fresh: Freshness | None = None
    """The result of reading the present state, for a decision."""

    # found by the columns of the table
    occasion: Occasion = Occasion.BINDING
    place: tuple[str, str] = ("", "")
    """The keys of the target and the workload."""

    bound: BoundTarget = _NO_TARGET
    task: Task | None = None
    binding: Binding | None = None
    verdict: Demand = _NO_VERDICT
    lagging: str = ""
    """The service that still has records about the eviction to process."""

    paused: tuple[str, ...] = ()
    """The pauses that were declared after the grant."""

    because: str = ""
    """Why the moves follow."""

    def begin(self, occasion: Occasion) -> None:
        """Start with the present state."""
        self.occasion, workload = occasion, self.workload
        self.place = (self.target, workload)
        self.bound = bound = self.state.targets.get(self.target, _NO_TARGET)
        self.task, self.binding = bound.tasks.get(workload), bound.bindings.get(workload)
