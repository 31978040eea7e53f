"""The taints of a target: what its state asks for, what policies and people ask for, and what it carries already.

Of a managed cluster also the labels that tell the states of its add-ons, for they are written into the same record.

A target has one list of taints; a taint's identity there is (key, effect), and each remembers who asked for it.
It stays as long as one of them does, but for the built-in ones: they belong to the state, and what people and policies
ask for of them counts for nothing (`belongs_to_state`). Its `timeAdded`, from which deadlines are counted, is the
instant at which it was really added, and stands until the taint goes or a person overwrites its value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from moorage.core.taints.desired.addons import AddOns, Labels, Named, add_on_labels, is_available
from moorage.core.taints.desired.cluster_affinity import ClusterFacts
from moorage.core.taints.desired.cluster_taint_policy import Act, TaintPolicy, acts
from moorage.core.taints.desired.from_conditions import DesiredTaints, Identity
from moorage.core.taints.desired.hold import Holds, hold_end, holds_since
from moorage.core.taints.desired.incidents import incident_of, zone_of_target
from moorage.core.taints.desired.taint_list import BY_POLICY, DERIVED, TaintList, follow_state, work_in_edit
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import HeldTaint, Taint, TaintEffect, TaintOrigin, TargetTainted
from moorage_schemas.times import format_time
from moorage_schemas.zone import NoExecuteGranted


@dataclass(frozen=True, slots=True)
class TaintRules:
    """What of the settings decides about taints.

    Attributes:
        holds: for how long a condition must hold, unless a policy says otherwise.
        policies: whether ClusterTaintPolicies count (the feature gate Failover).
        no_execute_policies: whether they may add taints that evict; removing them they always may.
    """

    holds: Holds = field(default_factory=Holds)
    policies: bool = False
    no_execute_policies: bool = False


NO_RULES: Final = TaintRules()
"""The defaults of upstream: no damping, and no policies."""


@dataclass(frozen=True, slots=True)
class ReconciledTaints:
    """What becomes of a target's taints.

    Attributes:
        event: the new set; None when nothing changes.
        due: when time alone will change it; None when only an event can.
        evaluate: whether policies are to be evaluated then.
    """

    event: TargetTainted | None
    due: datetime | None = None
    evaluate: bool = False


@dataclass(slots=True)
class _Policies:
    """Works policies into a draft, or looks what of them waits."""

    taint_list: TaintList
    rules: TaintRules
    now: datetime
    evaluate: bool
    held: dict[Identity, HeldTaint] = field(default_factory=dict)
    due: datetime | None = None
    """When policies act next."""

    freed: datetime | None = None
    """When something is held no more, because what waits would be taken away again at once."""

    def work_in(self, policies: Sequence[TaintPolicy], cluster: ClusterFacts) -> None:
        conditions = self.taint_list.desired.conditions
        statuses = {name: (condition.status.value,) for name, condition in conditions.items()}
        matched = [(act, self._end(act, conditions)) for act in acts(policies, cluster, statuses)]
        if self.evaluate:
            self._evaluate([act for act, end in matched if end is None])
        for act, end in matched:
            if end is not None:
                self._wait(act, end)
            elif not act.adds:
                # What an earlier policy would add after its wait, this one takes away again.
                for taint in act.policy.taints:
                    self.held.pop(taint.identity, None)

    def _evaluate(self, matched: Iterable[Act]) -> None:
        """Let acts follow one another; a taint that goes and comes again with its value was there all the time."""
        taint_list = self.taint_list
        before = taint_list.taints
        taint_list.taints = dict(before)
        for act in matched:
            self._do(act)
        kept = {}
        for identity, old in before.items():
            new = taint_list.taints.get(identity)
            if new is not None:
                again = new.time_added == self.now and new.value == old.value
                kept[identity] = new.model_copy(update={"time_added": old.time_added}) if again else new
        taint_list.taints = kept | taint_list.taints | kept

    def _end(self, act: Act, conditions: Mapping[str, ConditionChanged]) -> datetime | None:
        """When the conditions of an act will have held for long enough; None when they have, or need not."""
        own = act.policy.add_hold if act.adds else act.policy.remove_hold
        general = self.rules.holds.add if act.adds else self.rules.holds.remove
        hold = general if own is None else own
        ends = [hold_end(holds_since(conditions[edit.condition_type]), hold) for edit in act.conditions]
        end = max((end for end in ends if end is not None), default=None)
        return None if end is None or end <= self.now else end

    def _wait(self, act: Act, end: datetime) -> None:
        if not act.adds and any(taint.identity in self.held for taint in act.policy.taints):
            self.freed = _first(self.freed, end)
        moves = [taint for taint in act.policy.taints if self._moves(act, taint)]
        if not moves:
            return
        self.due = _first(self.due, end)
        if act.adds:
            reason = f"{BY_POLICY}{act.policy.name}; its conditions must hold until {format_time(end)}"
            since = max(holds_since(self.taint_list.desired.conditions[edit.condition_type]) for edit in act.conditions)
            for taint in moves:
                self.held.setdefault(
                    taint.identity, HeldTaint(key=taint.key, effect=taint.effect, since=since, reason=reason)
                )

    def _moves(self, act: Act, taint: Taint) -> bool:
        """Whether an act would change a taint."""
        record = self.taint_list.taints.get(taint.identity)
        if act.adds:
            may = self._allowed(taint.effect) and not self.taint_list.of_state(taint.key, taint.effect, taint.value)
            return may and (record is None or TaintOrigin.POLICY not in record.origins)
        return record is not None and any(origin not in DERIVED for origin in record.origins)

    def _do(self, act: Act) -> None:
        taint_list = self.taint_list
        for taint in act.policy.taints:
            if act.adds and self._allowed(taint.effect):
                taint_list.policies.setdefault(taint.identity, act.policy.name)
            if not self._moves(act, taint):
                continue
            record = taint_list.taints.get(taint.identity)
            if record is None:
                taint_list.add(taint.key, taint.effect, taint.value, self.now, TaintOrigin.POLICY)
            elif act.adds:
                taint_list.change(record, (*record.origins, TaintOrigin.POLICY))
            else:
                # State was followed before, so what is derived of the taint is as it must be.
                active = taint_list.desired.active.get(record.identity)
                left = [origin for origin in record.origins if origin in DERIVED]
                taint_list.change(record, left, value=active.value if active is not None and left else None)

    def _allowed(self, effect: str) -> bool:
        return self.rules.no_execute_policies or effect != TaintEffect.NO_EXECUTE.value


def _first(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((end for end in (one, other) if end is not None), default=None)


def _work_out(
    desired: DesiredTaints,
    resource: ResourceDeclared,
    pending: Sequence[TaintWish],
    rules: TaintRules,
    policies: Sequence[TaintPolicy],
    *,
    evaluate: bool,
) -> _Policies | None:
    """Wishes, then the state, then policies, worked into a draft; None when nothing asks for anything."""
    policies = policies if resource.kind == TargetKind.CLUSTER.value else ()
    if not (pending or desired.present or desired.active or policies):
        return None
    taint_list = TaintList(
        document=resource.object,
        wishes={(edit.key, edit.effect): edit for edit in resource.wishes} if resource.wishes else {},
        desired=desired,
        taints=dict(desired.present),
    )
    for edit in pending:
        work_in_edit(taint_list, edit)
    follow_state(taint_list, desired.now)
    merged = _Policies(taint_list, rules, desired.now, evaluate)
    if policies:
        merged.work_in(policies, ClusterFacts.of(resource.object))
    return merged


def _waits(desired: DesiredTaints, merged: _Policies | None) -> tuple[tuple[HeldTaint, ...], datetime | None, bool]:
    """What waits, until when, and whether it is then that policies act."""
    if merged is None:
        held, due, of_policy = desired.held, desired.due, False
    else:
        there = merged.taint_list.taints
        held = {name: taint for name, taint in (merged.held | desired.held).items() if name not in there}
        due = _first(_first(desired.due, merged.due), merged.freed)
        of_policy = due is not None and merged.due == due
    return tuple(held[name] for name in sorted(held)) if held else (), due, of_policy


def reconcile_taints(
    current: TargetTainted | None,
    resource: ResourceDeclared,
    conditions: Mapping[str, ConditionChanged],
    now: datetime,
    report_time: datetime | None = None,
    *,
    grant: NoExecuteGranted | None = None,
    rules: TaintRules = NO_RULES,
    policies: Sequence[TaintPolicy] = (),
    evaluate: bool = False,
    addons: AddOns | None = None,
    gone: Collection[Named] = (),
) -> ReconciledTaints:
    """The taints of a target after what has happened.

    A target that is declared always has a set, even if it is empty, from the first decision on: whoever finds none
    knows that nothing was decided yet.

    Wishes above `wishes_applied` are worked in first, in the order of their generations; that they are is a change
    too, for it is written down once. Then the taints that are derived from the target's state follow it, then come the
    policies. Order is kept: a taint that changes stays in its place, a new one comes last.

    Args:
        current: the taints as they are; None when there never were any. Those of an earlier target of that name
            (another uid) do not count, but the generation goes on from them.
        resource: the target as declared, with its wishes.
        conditions: its conditions by type. Those of an earlier target of that name do not count.
        now: the time of what led here; it, or when the last of the conditions came to be if that is later, becomes
            `timeAdded` of the taints that its state and policies add.
        report_time: when the report that led here was made, if one did.
        grant: the governor's last word on this target; without one what evicts and is there stays, and nothing comes.
        rules: what the settings say.
        policies: in their order.
        evaluate: whether policies act now; else only what of them waits is looked at.
        addons: of a managed cluster, what is known of its add-ons; without it the labels stay as they are.
        gone: see `add_on_labels`.
    """
    known = current if current is not None and current.target_uid == resource.uid else None
    generation = (current.generation if current is not None else 0) + 1
    desired = _desired(known, resource, conditions, now, generation=generation, grant=grant, holds=rules.holds)
    desired.work_out(resource)
    applied = known.wishes_applied if known is not None else 0
    edits = sorted((edit for edit in resource.wishes if edit.generation > applied), key=lambda edit: edit.generation)
    merged = _work_out(desired, resource, edits, rules, policies if rules.policies else (), evaluate=evaluate)
    held, settles_at, of_policy = _waits(desired, merged)
    due, labels = settles_at, Labels(known.labels if known is not None else {})
    if addons is not None and resource.kind == TargetKind.MANAGED_CLUSTER.value:
        available = is_available(desired.conditions)
        labels = add_on_labels(labels.labels, addons, available=available, now=desired.now, gone=gone)
        due = _first(due, labels.due)
    incident, since = desired.incident
    after: dict[str, Any] = {
        "taints": tuple(merged.taint_list.taints.values()) if merged is not None else (),
        "zone": zone_of_target(resource),
        "incident": incident,
        "held": held,
        "settles_at": settles_at,
        "labels": labels.labels,
    }
    if known is not None and not edits and all(getattr(known, name) == value for name, value in after.items()):
        return ReconciledTaints(None, due, evaluate=of_policy)
    event = TargetTainted(
        target=TargetRef(kind=TargetKind(resource.kind), name=resource.name),
        target_uid=resource.uid,
        generation=generation,
        wishes_applied=max([applied, *(edit.generation for edit in edits)]),
        report_time=report_time,
        incident_time=since,
        **after,
    )
    return ReconciledTaints(event, due, of_policy)


def _desired(
    known: TargetTainted | None,
    resource: ResourceDeclared,
    conditions: Mapping[str, ConditionChanged],
    now: datetime,
    *,
    generation: int,
    grant: NoExecuteGranted | None,
    holds: Holds,
) -> DesiredTaints:
    """What the state of a target demands; conditions and grants of an earlier target of its name are left out."""
    uid = resource.uid
    own = {name: condition for name, condition in conditions.items() if condition.target_uid in {"", uid} or not uid}
    # A target may be read after later news of its conditions: what these bring did not begin before they did.
    now = max([now, *(condition.status_since for condition in own.values() if condition.status_since is not None)])
    return DesiredTaints(
        kind=resource.kind,
        conditions=own,
        present={record.identity: record for record in known.taints} if known is not None else {},
        was_held=frozenset((held.key, held.effect) for held in known.held) if known is not None else frozenset(),
        now=now,
        holds=holds,
        incident=incident_of(resource.kind, own, known, generation, now),
        grant=grant if grant is not None and (grant.target_uid in {"", uid} or not uid) else None,
        zone=zone_of_target(resource),
        first=known is None,
    )


def next_taints(
    current: TargetTainted | None,
    resource: ResourceDeclared,
    conditions: Mapping[str, ConditionChanged],
    now: datetime,
    report_time: datetime | None = None,
) -> TargetTainted | None:
    """The taints of a target by its wishes and its state alone, as far as they can be told without the governor.

    What policies have added stays; nothing is damped. See `reconcile_taints`; None when nothing changes.
    """
    return reconcile_taints(current, resource, conditions, now, report_time).event


def newer_taints(event: TargetTainted, known: TargetTainted | None) -> bool:
    """Whether a set of taints supersedes the one that is known."""
    return known is None or known.target_uid != event.target_uid or event.generation > known.generation
