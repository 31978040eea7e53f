"""The service governor. It limits taints and evictions in the whole fleet.

Consumes:
    `zone-members`: the state of each node as its zone sees it. `eviction-asks`: evictions that have come due and that a
    guard may hold.
Keeps:
    Source tables: both. Changelogs: the state, token and granted nodes of each zone (`zones`), the evictions that count
    for a budget (`eviction-slots`), and the status of each budget (`budgets`), and the state of each
    maintenance (`maintenances`). Global view: resources, bindings and
    workloads' conditions, for budgets, and `configuration`. Other rates and thresholds apply at once, and a token that
    was gained under the old rate counts.
Emits:
    `zones`, `eviction-slots`, `budgets`, `maintenances`; and the answers: `zone-grants` for nodes that wait for the
    taint that evicts, `eviction-answers` for evictions.

A disruption budget counts a pod as unhealthy while its node is not ready. It grants nothing while condition-ingest or
the taint-manager have unprocessed records about the health of its pods, or about whether their nodes are ready.

Everything that it reads and keeps is in the one partition of the key `fleet`, because its decisions rest on all zones
and evictions of the fleet. The tasks of other partitions are idle. Each answer is written in one transaction with the
record that stores it, so nothing is granted twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import ClassVar

from typing_extensions import override

from moorage.decide.conditions.reports import reported_binding, reported_status
from moorage.runtime.measures import Measure
from moorage.runtime.service import Describe, Emit, Freshness, GlobalView, Input, Needs, Service, Upstream
from moorage.runtime.settings.moorage_configuration import Configuration, configuration_of
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.governor.budgets import BudgetBook
from moorage.workers.governor.guard_measures import PAUSES, THRESHOLD, zone_measures
from moorage.workers.governor.maintenances import MaintenanceBook
from moorage.workers.governor.replies import Write
from moorage.workers.governor.view import GovernorView
from moorage.workers.governor.zone_lines import answer_lines, grant_lines, zone_lines
from moorage.workers.governor.zones import ZoneBook
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import BindingKey, ConditionKey, split_cluster
from moorage_schemas.refs import TargetKind
from moorage_schemas.times import format_time
from moorage_schemas.topics import (
    BINDINGS,
    BUDGETS,
    CONDITION_REPORTS,
    CONDITIONS,
    CONFIGURATION,
    EVICTION_ANSWERS,
    EVICTION_ASKS,
    EVICTION_SLOTS,
    FLEET,
    MAINTENANCES,
    RESOURCES,
    WORKLOAD_CONDITIONS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    ZONES,
    Topic,
    partition_of,
)

_OF_ZONES = frozenset({ZONE_MEMBERS.short, ZONES.short})
_OF_NODES = Needs((ZONE_MEMBERS, EVICTION_ASKS))


_NODES = f"{TargetKind.NODE.value}/"
_READY = "Ready"


def _reported(_topic: Topic, key: str, value: bytes) -> str | None:
    """Return the binding that a report about a workload concerns, or the node whose readiness it is about."""
    if (binding := reported_binding(key, value)) is not None:
        return binding
    said = reported_status(key, value) if split_cluster(key)[1].startswith(_NODES) else None
    return key if said is not None and said[0][1] == _READY else None


def _stated(key: str, value: bytes) -> tuple[object, object] | None:
    """Return what a report states about a node. Of reports about workloads, each one counts."""
    return None if reported_binding(key, value) is not None else reported_status(key, value)


def _changed(_topic: Topic, key: str, _value: bytes) -> str | None:
    """Return the node whose readiness a record of `conditions` is about."""
    target, condition = ConditionKey.parse(key)
    return target if condition == _READY and split_cluster(target)[1].startswith(_NODES) else None


def _target_of(key: str) -> str:
    """Return the target of a binding, or the target itself: it determines the partition of the reports."""
    return BindingKey.parse(key).target or key


def _fleet(_key: str) -> str:
    return FLEET


_CONDITION_INGEST = Upstream(
    "condition-ingest",
    (CONDITION_REPORTS,),
    WORKLOAD_CONDITIONS,
    _reported,
    states=_stated,
    where=_target_of,
    lands=_target_of,
)
_TAINT_MANAGER = Upstream("taint-manager", (CONDITIONS,), ZONE_MEMBERS, _changed, where=_target_of, lands=_fleet)
_REQUEST_NEEDS = Needs((ZONE_MEMBERS, EVICTION_ASKS), frozenset({RESOURCES, BINDINGS, WORKLOAD_CONDITIONS}))
_HEALTH_NEEDS = replace(_REQUEST_NEEDS, upstream=(_CONDITION_INGEST, _TAINT_MANAGER))
_AT_ONCE = datetime.min.replace(tzinfo=UTC)
_AGAIN = frozenset({EVICTION_SLOTS.short, EVICTION_ANSWERS.short})
"""Topics to which one request may cause several writes. Answers and the slots of ended evictions are written again."""

_OF_BUDGETS = frozenset({EVICTION_ASKS.short, EVICTION_SLOTS.short, BUDGETS.short})


@dataclass(slots=True)
class GovernorPartition:
    """The state of one partition. Only the partition of the key `fleet` contains anything."""

    partition: int
    zones: ZoneBook
    budgets: BudgetBook
    configuration: Configuration
    view: GovernorView = field(default_factory=GovernorView)
    maintenances: MaintenanceBook = field(default_factory=MaintenanceBook)
    undecided: bool = False
    """Whether any record was folded in since everything was last checked."""


class Governor(Service[GovernorPartition]):
    """Grants taints to nodes, and evictions to workloads."""

    name: ClassVar[str] = "governor"
    summary: ClassVar[str] = "Limits how fast nodes are tainted and work is evicted in the whole fleet."
    sources: ClassVar[tuple[Topic, ...]] = (ZONE_MEMBERS, EVICTION_ASKS)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({ZONE_MEMBERS, EVICTION_ASKS})
    changelogs: ClassVar[tuple[Topic, ...]] = (ZONES, EVICTION_SLOTS, BUDGETS, MAINTENANCES)
    outputs: ClassVar[tuple[Topic, ...]] = (ZONE_GRANTS, EVICTION_ANSWERS)
    globals: ClassVar[tuple[Topic, ...]] = (CONFIGURATION, RESOURCES, BINDINGS, WORKLOAD_CONDITIONS)
    upstream: ClassVar[tuple[Upstream, ...]] = (_CONDITION_INGEST, _TAINT_MANAGER)

    lines: ClassVar[Mapping[Topic, Describe]] = {
        ZONES: zone_lines,
        ZONE_GRANTS: grant_lines,
        EVICTION_ANSWERS: answer_lines,
    }

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @override
    def new_state(self, partition: int) -> GovernorPartition:
        configuration = Configuration(self._settings)
        return GovernorPartition(partition, ZoneBook(self._settings), BudgetBook(self._settings), configuration)

    @override
    def new_globals(self) -> GlobalView:
        return GovernorView(Configuration(self._settings, self.name))

    @override
    def use_globals(self, state: GovernorPartition, view: GlobalView) -> None:
        if isinstance(view, GovernorView):
            state.view = view
            for target in state.zones.not_ready():
                view.set_ready(target, ready=False)
        if (configuration := configuration_of(view)) is not None:
            state.configuration = configuration

    @override
    def apply(self, state: GovernorPartition, topic: Topic, key: str, event: Model | None) -> None:
        if topic.short in _OF_ZONES:
            state.zones.apply(topic, key, event)
            if topic is ZONE_MEMBERS:
                state.view.set_ready(key, ready=state.zones.is_ready(key))
            state.budgets.at_home = True  # this is the one partition: budgets are counted even without a request
        elif topic is MAINTENANCES:
            state.maintenances.apply(key, event)
        elif topic.short in _OF_BUDGETS:
            state.budgets.apply(topic, key, event)

    @override
    def settle(self, state: GovernorPartition, limit: int) -> bool:
        return state.budgets.settle(limit)

    @override
    def measures(self, state: GovernorPartition, now: datetime) -> Iterator[Measure]:
        if state.partition != partition_of(FLEET, self._settings.partitions):
            return
        yield from zone_measures(state.zones.records(), now)
        yield from state.budgets.measures(state.view.guards)
        yield Measure(PAUSES, (), len(state.view.guards.pauses))
        yield Measure(THRESHOLD, (), state.configuration.settings.unhealthy_zone_threshold)

    @override
    def process(
        self,
        state: GovernorPartition,
        batch: Sequence[Input],
        now: datetime,
        *,
        fresh: bool = False,
    ) -> list[Emit]:
        for record in batch:
            book = state.zones if record.topic.short in _OF_ZONES else state.budgets
            book.note(record)
            self.apply(state, record.topic, record.key, record.event)
        state.undecided = True
        return []

    @override
    def needs(self, state: GovernorPartition, now: datetime) -> Needs | None:
        # A grant cannot be withdrawn. After a restart, one may be due while records about other nodes are unread.
        self._configure(state, now)
        if state.maintenances.is_running():
            return _HEALTH_NEEDS
        if state.budgets.has_requests:
            return _HEALTH_NEEDS if state.view.guards.disruptions else _REQUEST_NEEDS
        return _OF_NODES if state.zones.may_grant(now) else None

    @override
    def refreshed(self, state: GovernorPartition, found: Freshness) -> None:
        state.budgets.use_unread(found, state.view)

    @override
    def wake(self, state: GovernorPartition, now: datetime) -> list[Emit]:
        return self._decide(state, now)

    @override
    def next_wake(self, state: GovernorPartition) -> datetime | None:
        if state.undecided or state.zones.owes:
            return _AT_ONCE
        return min(
            (
                due
                for due in (state.zones.next_wake(), state.budgets.next_wake(), state.maintenances.next_wake())
                if due is not None
            ),
            default=None,
        )

    @override
    def reconcile(self, state: GovernorPartition, now: datetime) -> list[Emit]:
        state.zones.check_again()
        return self._decide(state, now)

    def _decide(self, state: GovernorPartition, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        self._configure(state, now)
        state.undecided = False
        write = self._writer(state, emits, now)
        state.zones.decide(now, write, state.view.nodes)
        state.budgets.decide(state.view, now, write)
        if state.partition == partition_of(FLEET, self._settings.partitions):
            state.maintenances.decide(state.view, now, write, state.budgets.held_by)
        return emits

    def _configure(self, state: GovernorPartition, now: datetime) -> None:
        """Use the rates and thresholds of the present configuration."""
        state.zones.configure(state.configuration.settings)
        state.budgets.configure(state.configuration.settings, now)

    def _writer(self, state: GovernorPartition, emits: list[Emit], now: datetime) -> Write:
        def write(topic: Topic, key: str, partition_key: str, event: Model | None, cause: Meta) -> None:
            was = state.zones.record(key) if topic is ZONES else None
            self.apply(state, topic, key, event)
            step = format_time(now) if topic.short in _AGAIN else ""
            emits.append(Emit(topic, key, partition_key, event, cause, step=step, before=was))

        return write


def service(settings: Settings) -> Governor:
    """Return the service for the command line to run."""
    return Governor(settings)
