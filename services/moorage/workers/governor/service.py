"""The service governor: the brake on the whole fleet.

Consumes:
    `zone-members`: what each node is like to its zone. `eviction-asks`: evictions that have come due and that
    something may hold.
Keeps:
    Both (source tables); of each zone its state, its token and whom it has granted (changelog `zones`); the evictions
    that count for a budget (changelog `eviction-slots`) and what each budget counts (changelog `budgets`). The budgets'
    view of resources, bindings and workloads' conditions is global.
Emits:
    `zones`, `eviction-slots`, `budgets`; and the answers: `zone-grants` to nodes that wait for the taint that evicts,
    `eviction-answers` to evictions.

All that it reads and keeps is in the one partition of the key `fleet`, for whether every zone is disrupted and how much
is evicted are questions about the whole; the other partitions' owners have nothing to do. Whatever it answers is
written in one transaction with its memory of the answer, so nothing is granted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

from moorage.runtime.service import Emit, GlobalView, Input, Needs, Service
from moorage.runtime.settings import Settings
from moorage.workers.governor.budgets import BudgetBook
from moorage.workers.governor.view import GovernorView
from moorage.workers.governor.writing import Write
from moorage.workers.governor.zones import ZoneBook
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.times import format_time
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_SLOTS,
    RESOURCES,
    WORKLOAD_CONDITIONS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    ZONES,
    Topic,
)

_OF_ZONES = frozenset({ZONE_MEMBERS.short, ZONES.short})
_OF_NODES = Needs((ZONE_MEMBERS, EVICTION_ASKS))
_OF_ASKS = Needs((ZONE_MEMBERS, EVICTION_ASKS), frozenset({RESOURCES, BINDINGS, WORKLOAD_CONDITIONS}))
_AT_ONCE = datetime.min.replace(tzinfo=UTC)
_AGAIN = frozenset({EVICTION_SLOTS.short, EVICTION_ANSWERS.short})
"""What is written of a request more than once, for answers are repeated and a slot that is over is made again."""

_OF_BUDGETS = frozenset({EVICTION_ASKS.short, EVICTION_SLOTS.short, BUDGETS.short})


@dataclass(slots=True)
class GovernorPartition:
    """One partition; only that of the key `fleet` has anything in it."""

    partition: int
    zones: ZoneBook
    budgets: BudgetBook
    view: GovernorView = field(default_factory=GovernorView)
    unsettled: bool = False
    """Whether something was folded in since the whole was looked at."""


class Governor(Service[GovernorPartition]):
    """Nodes and evictions that wait in, who may go out."""

    name: ClassVar[str] = "governor"
    summary: ClassVar[str] = "How fast nodes are tainted and work is evicted, over the whole fleet."
    sources: ClassVar[tuple[Topic, ...]] = (ZONE_MEMBERS, EVICTION_ASKS)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({ZONE_MEMBERS, EVICTION_ASKS})
    changelogs: ClassVar[tuple[Topic, ...]] = (ZONES, EVICTION_SLOTS, BUDGETS)
    outputs: ClassVar[tuple[Topic, ...]] = (ZONE_GRANTS, EVICTION_ANSWERS)
    globals: ClassVar[tuple[Topic, ...]] = (RESOURCES, BINDINGS, WORKLOAD_CONDITIONS)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def new_state(self, partition: int) -> GovernorPartition:
        """An empty state for a partition."""
        return GovernorPartition(partition, ZoneBook(self._settings), BudgetBook(self._settings))

    def new_globals(self) -> GlobalView:
        """What budgets look at."""
        return GovernorView()

    def use_globals(self, state: GovernorPartition, view: GlobalView) -> None:
        """Give a partition its view of the whole."""
        if isinstance(view, GovernorView):
            state.view = view

    def apply(self, state: GovernorPartition, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in what nodes and evictions say, or what was decided on them."""
        if topic.short in _OF_ZONES:
            state.zones.apply(topic, key, event)
            state.budgets.at_home = True  # this is the one partition: budgets are counted before anybody asks
        elif topic.short in _OF_BUDGETS:
            state.budgets.apply(topic, key, event)

    def process(
        self,
        state: GovernorPartition,
        batch: Sequence[Input],
        now: datetime,  # noqa: ARG002 - what comes due is for `wake`
        *,
        fresh: bool = False,  # noqa: ARG002 - it follows nothing
    ) -> list[Emit]:
        """Fold all of the batch in; `wake`, which follows at once, decides on the whole."""
        for record in batch:
            book = state.zones if record.topic.short in _OF_ZONES else state.budgets
            book.note(record)
            self.apply(state, record.topic, record.key, record.event)
        state.unsettled = True
        return []

    def needs(self, state: GovernorPartition, now: datetime) -> Needs | None:
        """All that budgets look at, while anybody asks, and all nodes, when one may be granted.

        What is let go cannot be called back; and a process that stood still finds grants due, and the news of the other
        nodes yet to be read.
        """
        if state.budgets.asked:
            return _OF_ASKS
        return _OF_NODES if state.zones.may_grant(now) else None

    def wake(self, state: GovernorPartition, now: datetime) -> list[Emit]:
        """Give what has come due with a record, with time, or with a change of the view."""
        return self._settle(state, now)

    def next_wake(self, state: GovernorPartition) -> datetime | None:
        """At once after a record; when the next token, or the end of a wait, changes something."""
        if state.unsettled:
            return _AT_ONCE
        return min(
            (due for due in (state.zones.next_wake(), state.budgets.next_wake()) if due is not None), default=None
        )

    def reconcile(self, state: GovernorPartition, now: datetime) -> list[Emit]:
        """Look at everything anew; what differs is repaired."""
        state.zones.look_again()
        return self._settle(state, now)

    def _settle(self, state: GovernorPartition, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        state.unsettled = False
        write = self._writer(state, emits, now)
        state.zones.settle(now, write, state.view.nodes)
        state.budgets.settle(state.view, now, write)
        return emits

    def _writer(self, state: GovernorPartition, emits: list[Emit], now: datetime) -> Write:
        def write(topic: Topic, key: str, partition_key: str, event: Model | None, cause: Meta) -> None:
            self.apply(state, topic, key, event)
            step = format_time(now) if topic.short in _AGAIN else ""
            emits.append(Emit(topic, key, partition_key, event, cause, step=step))

        return write


def service(settings: Settings) -> Governor:
    """The service, for the command line to run."""
    return Governor(settings)
