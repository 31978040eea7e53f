"""The service taint-manager, the only writer of `taints`.

Consumes:
    `conditions`; from `resources` the targets, with people's taint edits, and the add-ons of managed clusters with
    their leases; and `zone-grants`, the governor's grants of the taint that evicts. `maintenances`: the
    targets that are out of service.
Keeps:
    Source tables: the latest of them for each target. Changelog: the taints of each target (`taints`). Global view: the
    configuration, every TaintPolicy, and every ClusterTaintPolicy; those count with the feature gate Failover.
Emits:
    `taints`: the full set of a target's taints, each time it changes, with the labels that show the states of its
    add-ons; a tombstone when the target is deleted.
    `zone-members`: a node as its zone sees it, each time that changes, in the same transaction; a tombstone when the
    node is deleted.

The `timeAdded` of a taint that a condition adds is the time at which the condition was accepted. This is the
CloudEvents time of its record in `conditions`, which is durable, so that the same topics give the same bytes. It is not
the probe's time, because a late report must not make a deadline earlier. A person's taint has the time of the edit. A
taint that waited for its zone has the time of the grant. A taint that waited until its condition had lasted long enough
has the time at which that hold ended.

An add-on's label depends on the `renewTime` of its lease, which is durable, not on the time at which the record was
written. A cluster that is deleted and created again has the labels of the add-ons that are still declared.

Policies are evaluated for a target when it appears, when one of its conditions changes, when a wait of a policy ends,
and once after each restart. They are also evaluated when a policy that selects it, or did, is created or changed. They
are not evaluated when people edit taints or delete policies. So a policy's taint that a person removes stays removed
until the next evaluation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Final

from typing_extensions import override

from moorage.decide.conditions.reports import newer_condition
from moorage.decide.taints.desired.addons import AddOns, Named
from moorage.decide.taints.desired.from_conditions import Holds
from moorage.decide.taints.desired.incidents import member_of, zone_sees_change
from moorage.decide.taints.desired.taint_policies import TargetFacts
from moorage.decide.taints.desired.taint_reconciliation import (
    ReconciledTaints,
    TaintRules,
    newer_taints,
    reconcile_taints,
)
from moorage.runtime.engine.isolation import isolated
from moorage.runtime.engine.portions import CHECKS, RECORDS
from moorage.runtime.measures import Measure
from moorage.runtime.service import Describe, Emit, GlobalView, Input, Needs, Service
from moorage.runtime.settings.moorage_configuration import Configuration, Derived
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.taint_manager.addon_signals import AddOnSignal, changes_nothing, fold, missing
from moorage.workers.taint_manager.maintained_targets import differing, has_taint
from moorage.workers.taint_manager.policies import PolicyView
from moorage.workers.taint_manager.state import TaintManagerPartition
from moorage.workers.taint_manager.taint_lines import taint_lines
from moorage.workers.taint_manager.target_measures import counted
from moorage_schemas.base import Model
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.keys import ConditionKey, TargetKey
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared, target_of_resource
from moorage_schemas.taint import TargetTainted
from moorage_schemas.topics import (
    CONDITIONS,
    CONFIGURATION,
    FLEET,
    MAINTENANCES,
    RESOURCES,
    TAINTS,
    ZONE_GRANTS,
    ZONE_MEMBERS,
    Topic,
)
from moorage_schemas.zone import NoExecuteGranted

_NODE = f"{TargetKind.NODE.value}/"
_CLUSTER = f"{TargetKind.CLUSTER.value}/"
_NO_ADDONS = AddOns()
_NEEDS = Needs((CONDITIONS, RESOURCES, ZONE_GRANTS))
_AT_ONCE: Final = datetime.min.replace(tzinfo=UTC)


class TaintManager(Service[TaintManagerPartition]):
    """Turns conditions, targets and policies into taints.

    Args:
        settings: the settings about taints, until there is a configuration.
    """

    name: ClassVar[str] = "taint-manager"
    summary: ClassVar[str] = "Reads conditions and people's edits, and writes the taints of each target."
    sources: ClassVar[tuple[Topic, ...]] = (CONDITIONS, RESOURCES, ZONE_GRANTS)
    source_tables: ClassVar[frozenset[Topic]] = frozenset({CONDITIONS, RESOURCES, ZONE_GRANTS})
    changelogs: ClassVar[tuple[Topic, ...]] = (TAINTS,)
    outputs: ClassVar[tuple[Topic, ...]] = (ZONE_MEMBERS,)
    globals: ClassVar[tuple[Topic, ...]] = (CONFIGURATION, RESOURCES, MAINTENANCES)
    passes: ClassVar[Mapping[Topic, str]] = MappingProxyType({CONDITIONS: "condition-ingest"})

    lines: ClassVar[Mapping[Topic, Describe]] = MappingProxyType({TAINTS: taint_lines})

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @override
    def new_state(self, partition: int) -> TaintManagerPartition:
        return TaintManagerPartition(Derived(Configuration(self._settings), rules_of))

    @override
    def new_globals(self) -> PolicyView:
        return PolicyView(Configuration(self._settings, self.name))

    @override
    def use_globals(self, state: TaintManagerPartition, view: GlobalView) -> None:
        if not isinstance(view, PolicyView):
            raise TypeError(f"view: invalid value {type(view).__name__}: must be the taint-manager's own")
        state.view, state.cursor = view, view.enter()
        if view.configuration is not None:
            state.rules = Derived(view.configuration, rules_of)

    @override
    def apply(self, state: TaintManagerPartition, topic: Topic, key: str, event: Model | None) -> None:
        if topic is CONDITIONS:
            _apply_condition(state, key, event)
        elif topic is RESOURCES:
            _apply_resource(state, key, event)
        elif topic is ZONE_GRANTS:
            _apply_grant(state, key, event)
        elif isinstance(event, TargetTainted):
            if newer_taints(event, state.taints.get(key)):
                state.taints[key] = event
                _count_again(state, key)
        else:
            state.taints.pop(key, None)
            _count_again(state, key)

    @override
    def settle(self, state: TaintManagerPartition, limit: int) -> bool:
        return state.tally.settle(partial(counted, state), limit)

    @override
    def measures(self, state: TaintManagerPartition, now: datetime) -> Iterable[Measure]:
        return state.tally.measures()

    @override
    def process(
        self,
        state: TaintManagerPartition,
        batch: Sequence[Input],
        now: datetime,
        *,
        fresh: bool = False,
    ) -> list[Emit]:
        emits: list[Emit] = []
        for record in batch:
            event, signal = record.event, AddOnSignal.of(state, record)
            target = signal.target if signal is not None else _target_key(record)
            time = record.meta.time or now
            if target is not None:
                if not state.checked or (state.why is None and target in state.unseen):
                    self._resume(state, target, min(time, now))
                if target in state.waits:
                    emits += self._decide_due(state, target, min(time, now))
            beat = isinstance(event, ConditionChanged) and _only_a_heartbeat(state, target, event)
            evaluate = not beat and target is not None and _calls_policies(state, target, event)
            self.apply(state, record.topic, record.key, event)
            if target is None or beat or (signal is not None and changes_nothing(state, signal, time)):
                continue
            if record.topic is not RESOURCES and target not in state.resources:
                # `resources` reports its end. After a restore its latest record there may still be unread.
                continue
            reported = event.last_heartbeat_time if isinstance(event, ConditionChanged) else None
            removed = signal.removed(state) if signal is not None else ()
            emits += self._decide(state, target, record.meta, time, reported, evaluate=evaluate, removed=removed)
        return emits

    @override
    def needs(self, state: TaintManagerPartition, now: datetime) -> Needs | None:
        # An unread record may have ended the wait earlier.
        due = state.deadlines.next()
        changed = state.checked and state.rules_in_use != state.rules.value
        return _NEEDS if changed or (due is not None and due <= now) else None

    @override
    def wake(self, state: TaintManagerPartition, now: datetime) -> list[Emit]:
        emits: list[Emit] = []
        if not state.checked or state.rules_in_use != state.rules.value:
            self._begin_checking(state)
        self._check_all(state, now, emits)
        self._follow_policies(state, now, emits)
        self._follow_maintenances(state, now, emits)
        for target in isolated(_due(state, now, emits), state.wait_no_more):
            emits += self._decide_due(state, target, now)
        return emits

    @override
    def next_wake(self, state: TaintManagerPartition) -> datetime | None:
        is_behind = state.unseen or state.change is not None or state.maintaining
        return _AT_ONCE if is_behind else state.deadlines.next()

    @override
    def reconcile(self, state: TaintManagerPartition, now: datetime) -> list[Emit]:
        # this includes labels of add-ons whose deletion was compacted away unread
        emits: list[Emit] = []
        if not state.round:
            state.round.begin(sorted(state.resources.keys() | state.taints.keys()))
        for target in state.round.portion(emits):
            cause = self._own_cause(state, "reconcile", target, now)
            emits += self._decide(state, target, cause, now, None, removed=missing(state, target))
        return emits

    @override
    def is_reconciling(self, state: TaintManagerPartition) -> bool:
        return bool(state.round)

    @override
    def drop(self, state: TaintManagerPartition) -> None:
        if state.view is not None and state.cursor is not None:
            state.view.leave(state.cursor)
            state.cursor = None

    def _begin_checking(self, state: TaintManagerPartition) -> None:
        """Begin to check all targets after a restore or a change of the rules.

        Waits are not recorded, and policies and holds may have changed. Policies are not evaluated when only holds have
        changed: a policy's taint that a person has removed would return.

        Targets of other kinds than Cluster have policies only without switches, so their policies are evaluated only
        after a restore.

        Targets with taints that an earlier hold keeps, or delays, are checked even if no hold exists now. The removal
        of a kept taint must not wait for the reconciler, because a deadline may be earlier.

        A node without a zone in its record, from an earlier version, is reported to its zone now. Until all nodes are
        known there, the governor cannot determine whether all are down. The same applies to a managed cluster without a
        record, because every placement leaves it out until it has one.
        """
        before, rules = state.rules_in_use, state.rules.value
        unfinished = bool(state.unseen)
        restarted = not state.checked or (unfinished and state.why is None)
        switched = before is None or replace(before, holds=rules.holds) != rules
        state.why = None if restarted else state.rules.configuration.cause
        state.evaluates = switched or (unfinished and state.evaluates)
        state.checked, state.rules_in_use = True, rules
        damped = state.why is not None or rules.holds != Holds()
        if state.view is not None and state.cursor is not None:
            state.view.catch_up(state.cursor)
        found = []
        for target in state.resources:
            followed, known = target.startswith(_CLUSTER) or _has_policies(state, target), state.taints.get(target)
            unrecorded = known is None or (_is_node(target) and not known.zone)
            labelled = known is not None and bool(known.labels)
            waits = known is not None and (bool(known.held) or known.settles_at is not None)
            if followed or damped or unrecorded or labelled or waits:
                found.append(target)
        state.unseen.begin(sorted(found))

    def _check_all(self, state: TaintManagerPartition, now: datetime, emits: list[Emit]) -> None:
        """Check a portion of the targets that were not checked since the restore, or since the rules have changed."""
        for target in state.unseen.portion(emits):
            if target not in state.resources:
                continue  # its deletion was decided on when it was read
            if state.why is None:
                self._resume(state, target, now)
            emits += self._decide_due(state, target, now)
            cause = state.why or self._own_cause(state, "restart", target, now)
            switched = state.why is None or target.startswith(_CLUSTER)
            evaluate = state.evaluates and switched and _has_policies(state, target)
            emits += self._decide(state, target, cause, now, None, evaluate=evaluate)

    def _follow_policies(self, state: TaintManagerPartition, now: datetime, emits: list[Emit]) -> None:
        """Apply a portion of the policies' changes, one after another, each to every target that it concerns.

        A policy that is switched off has no effect. When it is switched on, all policies are evaluated.
        """
        if state.view is None or state.cursor is None:
            return
        rules, checks = state.rules.value, CHECKS
        while len(emits) < RECORDS and checks > 0:
            change = state.change
            if change is None:
                change = state.change = state.view.next_unseen(state.cursor)
                if change is None:
                    return
                state.cursor.policies = change.policies
                if kinds := change.kinds(rules):
                    state.changing.begin(sorted(key for key in state.resources if _kind_of(key) in kinds))
            time = min(change.meta.time or now, now)
            for target in state.changing.portion(emits, checks=checks):
                checks -= 1
                resource = state.resources.get(target)
                if resource is not None and change.touches(TargetFacts.of(resource), rules):
                    emits += self._decide_due(state, target, time)
                    emits += self._decide(state, target, change.meta, time, None, evaluate=change.evaluate)
            if not state.changing:
                state.change = None

    def _follow_maintenances(self, state: TaintManagerPartition, now: datetime, emits: list[Emit]) -> None:
        """Add and remove the taints of maintenances, on a portion of the targets that they concern."""
        if state.view is None:
            return
        maintained = state.view.maintained
        if state.maintained_version != maintained.version:
            if state.maintained_version < 0:
                state.maintained = {target for target, event in state.taints.items() if has_taint(event)}
            state.maintained_version = maintained.version
            found = (target for target in differing(maintained, state.maintained) if target in state.resources)
            state.maintaining.begin(list(found))
            state.maintained = maintained.targets() & state.resources.keys()
        for target in state.maintaining.portion(emits) if state.maintaining else ():
            cause = maintained.meta or self._own_cause(state, "maintenance", target, now)
            emits += self._decide_due(state, target, now)
            emits += self._decide(state, target, cause, min(cause.time or now, now), None)

    def _resume(self, state: TaintManagerPartition, target: str, now: datetime) -> None:
        """After a restart, note until when held taints are held, and until when add-ons count as available.

        A wait that ended in the meantime counts as ended at its own time. So the decision does not depend on the time
        of the restart.
        """
        known = state.taints.get(target)
        resource = state.resources.get(target)
        if known is None or resource is None:
            return
        if known.held:
            since = max(held.since for held in known.held)
            state.wait(target, self._check(state, target, min(since, now)))
        elif known.labels and known.target_uid == resource.uid and target not in state.waits:
            state.wait(target, ReconciledTaints(None, state.addons.get(target, _NO_ADDONS).first_end(known.labels)))

    def _decide_due(self, state: TaintManagerPartition, target: str, until: datetime) -> list[Emit]:
        """Decide on a target at each time up to `until` at which one of its waits ends."""
        emits: list[Emit] = []
        while (wait := state.waits.get(target)) is not None and wait.due is not None and wait.due <= until:
            cause = self._own_cause(state, "wait", target, wait.due)
            emits += self._decide(state, target, cause, wait.due, None, evaluate=wait.evaluate)
        return emits

    def _own_cause(self, state: TaintManagerPartition, why: str, target: str, time: datetime) -> Meta:
        known, resource = state.taints.get(target), state.resources.get(target)
        uid = resource.uid if resource is not None else ""
        return Meta(
            id=event_id(why, TAINTS.short, target, uid, known.generation if known is not None else 0),
            source=f"moorage/{self.name}",
            type=TAINTS.event_type,
            time=time,
            subject=target,
        )

    def _decide(
        self,
        state: TaintManagerPartition,
        target: str,
        cause: Meta,
        time: datetime,
        reported: datetime | None,
        *,
        evaluate: bool = False,
        removed: Collection[Named] = (),
    ) -> list[Emit]:
        known = state.taints.get(target)
        if target not in state.resources:
            # Taints of a target that is not declared have no use. Conditions may arrive before their target's record.
            state.wait_no_more(target)
            if known is None:
                return []
            self.apply(state, TAINTS, target, None)
            tombs = [Emit(TAINTS, target, target, None, cause, before=known)]
            if _is_node(target):
                tombs.append(Emit(ZONE_MEMBERS, target, FLEET, None, cause))
            return tombs
        decided = self._check(state, target, time, reported, evaluate=evaluate, removed=removed)
        state.wait(target, decided)
        event = decided.event
        if event is None:
            return []
        self.apply(state, TAINTS, target, event)
        emits = [Emit(TAINTS, target, target, event, cause, before=known)]
        if _is_node(target) and zone_sees_change(known, event):
            member = member_of(event, time, cause.correlation, cause.traceparent, hold=state.rules.value.holds.add)
            emits.append(Emit(ZONE_MEMBERS, target, FLEET, member, cause))
        return emits

    def _check(
        self,
        state: TaintManagerPartition,
        target: str,
        time: datetime,
        reported: datetime | None = None,
        *,
        evaluate: bool = False,
        removed: Collection[Named] = (),
    ) -> ReconciledTaints:
        """Compute the taints that a declared target should have. This changes nothing."""
        resource = state.resources[target]
        return reconcile_taints(
            state.taints.get(target),
            resource,
            state.conditions.get(target, {}),
            time,
            reported,
            grant=state.grants.get(target),
            rules=state.rules.value,
            policies=state.cursor.policies.about(resource.kind) if state.cursor is not None else (),
            evaluate=evaluate,
            addons=state.addons.get(target, _NO_ADDONS),
            removed=removed,
            required=state.view.maintained.taints_of(target) if state.view is not None else (),
        )


def _due(state: TaintManagerPartition, now: datetime, emits: Sequence[Emit]) -> Iterator[str]:
    """Yield a portion of the targets whose waits have ended, the earliest first."""
    for _ in range(CHECKS):
        due = state.deadlines.first()
        if due is None or due[1] > now or len(emits) >= RECORDS:
            return
        yield due[0]


def _count_again(state: TaintManagerPartition, target: str) -> None:
    """Note that a target has changed. One that is not declared counts nowhere."""
    if target in state.resources:
        state.tally.touch(target)
    else:
        state.tally.end(target)


def _apply_condition(state: TaintManagerPartition, key: str, event: Model | None) -> None:
    target, condition_type = ConditionKey.parse(key)
    if isinstance(event, ConditionChanged):
        known = state.conditions.setdefault(target, {})
        if newer_condition(event, before := known.get(condition_type)):
            known[condition_type] = event
            if before is None or before.status is not event.status or before.target_uid != event.target_uid:
                _count_again(state, target)
    elif (known := state.conditions.get(target, {})).pop(condition_type, None) is not None:
        _count_again(state, target)
        if not known:
            del state.conditions[target]


def _apply_resource(state: TaintManagerPartition, key: str, event: Model | None) -> None:
    target = target_of_resource(key)
    if target is None:
        fold(state, key, event)
        return
    if isinstance(event, ResourceDeclared):
        known = state.resources.get(target.key)
        if known is None or known.uid != event.uid or known.version < event.version:
            state.resources[target.key] = event
            _count_again(state, target.key)
    else:
        state.resources.pop(target.key, None)
        _count_again(state, target.key)


def _apply_grant(state: TaintManagerPartition, key: str, event: Model | None) -> None:
    if isinstance(event, NoExecuteGranted):
        known = state.grants.get(key)
        if known is None or known.target_uid != event.target_uid or known.generation < event.generation:
            state.grants[key] = event
    else:
        state.grants.pop(key, None)


def _only_a_heartbeat(state: TaintManagerPartition, target: str | None, event: ConditionChanged) -> bool:
    """Return whether everything in a condition has been decided on already."""
    known = state.conditions.get(target or "", {}).get(event.type)
    return known is not None and known.status is event.status and known.target_uid == event.target_uid


def _calls_policies(state: TaintManagerPartition, target: str, event: Model | None) -> bool:
    """Return whether policies are evaluated after a record: a condition changes, or a target appears."""
    if not _has_policies(state, target):
        return False
    if isinstance(event, ConditionChanged):
        return newer_condition(event, state.conditions.get(target, {}).get(event.type))
    if isinstance(event, ResourceDeclared):
        known = state.resources.get(target)
        return known is None or known.uid != event.uid
    return False


def _has_policies(state: TaintManagerPartition, target: str) -> bool:
    """Return whether a policy may act on targets of this kind."""
    if state.cursor is None or not state.cursor.policies.by_kind:
        return False
    return state.cursor.policies.acts_on(_kind_of(target), switched_on=state.rules.value.policies)


def _kind_of(target: str) -> str:
    """Return the kind of a target by its key: `Node/n1`, or `east:Node/n1` in a real cluster."""
    return target.partition("/")[0].rpartition(":")[2]


def _is_node(target: str) -> bool:
    return target.startswith(_NODE) or TargetKey.parse(target).kind == TargetKind.NODE.value


def _target_key(record: Input) -> str | None:
    """Return the key of the target of a record; None when it concerns no target."""
    if record.topic is CONDITIONS:
        return ConditionKey.parse(record.key).target
    if record.topic is ZONE_GRANTS:
        return record.key
    target = target_of_resource(record.key)
    return None if target is None else target.key


def rules_of(settings: Settings) -> TaintRules:
    """Return the rules that follow from the settings."""
    return TaintRules(
        holds=Holds(timedelta(seconds=settings.taint_add_hold), timedelta(seconds=settings.taint_remove_hold)),
        policies=settings.failover,
        no_execute_policies=settings.allow_no_execute_taint_policy,
    )


def service(settings: Settings) -> TaintManager:
    """Return the service for the command line to run."""
    return TaintManager(settings)
