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
from typing import Final

from moorage.core.taints.desired.addons import AddOns, Labels, Named, add_on_labels, is_available
from moorage.core.taints.desired.cluster_affinity import ClusterFacts
from moorage.core.taints.desired.cluster_taint_policy import Act, TaintPolicy, acts
from moorage.core.taints.desired.from_conditions import Identity, Want, WantedTaint, wanted_taints
from moorage.core.taints.desired.hold import Holds, hold_end, holds_since
from moorage.core.taints.desired.incidents import incident_of, zone_of_target
from moorage.core.taints.desired.taint_list import BY_POLICY, DERIVED, Draft, follow_state, work_in_wish
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import HeldTaint, Taint, TaintEffect, TaintOrigin, TargetTainted
from moorage_schemas.times import format_time
from moorage_schemas.zone import NoExecuteGranted

__all__ = ["NO_RULES", "Decided", "TaintRules", "WantedTaint", "decide_taints", "newer_taints", "next_taints"]
__all__ += ["wanted_taints"]


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
class Decided:
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

    draft: Draft
    rules: TaintRules
    now: datetime
    evaluate: bool
    held: dict[Identity, HeldTaint] = field(default_factory=dict)
    due: datetime | None = None
    """When policies act next."""

    freed: datetime | None = None
    """When something is held no more, because what waits would be taken away again at once."""

    def work_in(self, policies: Sequence[TaintPolicy], cluster: ClusterFacts) -> None:
        conditions = self.draft.want.conditions
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
        draft = self.draft
        before = draft.taints
        draft.taints = dict(before)
        for act in matched:
            self._do(act)
        kept = {}
        for identity, old in before.items():
            new = draft.taints.get(identity)
            if new is not None:
                again = new.time_added == self.now and new.value == old.value
                kept[identity] = new.model_copy(update={"time_added": old.time_added}) if again else new
        draft.taints = kept | draft.taints | kept

    def _end(self, act: Act, conditions: Mapping[str, ConditionChanged]) -> datetime | None:
        """When the conditions of an act will have held for long enough; None when they have, or need not."""
        own = act.policy.add_hold if act.adds else act.policy.remove_hold
        general = self.rules.holds.add if act.adds else self.rules.holds.remove
        hold = general if own is None else own
        ends = [hold_end(holds_since(conditions[wish.condition_type]), hold) for wish in act.conditions]
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
            since = max(holds_since(self.draft.want.conditions[wish.condition_type]) for wish in act.conditions)
            for taint in moves:
                self.held.setdefault(
                    taint.identity, HeldTaint(key=taint.key, effect=taint.effect, since=since, reason=reason)
                )

    def _moves(self, act: Act, taint: Taint) -> bool:
        """Whether an act would change a taint."""
        record = self.draft.taints.get(taint.identity)
        if act.adds:
            may = self._allowed(taint.effect) and not self.draft.of_state(taint.key, taint.effect, taint.value)
            return may and (record is None or TaintOrigin.POLICY not in record.origins)
        return record is not None and any(origin not in DERIVED for origin in record.origins)

    def _do(self, act: Act) -> None:
        draft = self.draft
        for taint in act.policy.taints:
            if act.adds and self._allowed(taint.effect):
                draft.policies.setdefault(taint.identity, act.policy.name)
            if not self._moves(act, taint):
                continue
            record = draft.taints.get(taint.identity)
            if record is None:
                draft.add(taint.key, taint.effect, taint.value, self.now, TaintOrigin.POLICY)
            elif act.adds:
                draft.change(record, (*record.origins, TaintOrigin.POLICY))
            else:
                # State was followed before, so what is derived of the taint is as it must be.
                active = draft.want.active.get(record.identity)
                left = [origin for origin in record.origins if origin in DERIVED]
                draft.change(record, left, value=active.value if active is not None and left else None)

    def _allowed(self, effect: str) -> bool:
        return self.rules.no_execute_policies or effect != TaintEffect.NO_EXECUTE.value


def _first(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((end for end in (one, other) if end is not None), default=None)


def _work_out(
    want: Want,
    resource: ResourceDeclared,
    pending: Sequence[TaintWish],
    rules: TaintRules,
    policies: Sequence[TaintPolicy],
    *,
    evaluate: bool,
) -> _Policies | None:
    """Wishes, then the state, then policies, worked into a draft; None when nothing asks for anything."""
    policies = policies if resource.kind == TargetKind.CLUSTER.value else ()
    if not (pending or want.present or want.active or policies):
        return None
    draft = Draft(
        document=resource.object,
        wishes={(wish.key, wish.effect): wish for wish in resource.wishes} if resource.wishes else {},
        want=want,
        taints=dict(want.present),
    )
    for wish in pending:
        work_in_wish(draft, wish)
    follow_state(draft, want.now)
    asked = _Policies(draft, rules, want.now, evaluate)
    if policies:
        asked.work_in(policies, ClusterFacts.of(resource.object))
    return asked


def _waits(want: Want, asked: _Policies | None) -> tuple[tuple[HeldTaint, ...], datetime | None, bool]:
    """What waits, until when, and whether it is then that policies act."""
    if asked is None:
        held, due, of_policy = want.held, want.due, False
    else:
        there = asked.draft.taints
        held = {name: taint for name, taint in (asked.held | want.held).items() if name not in there}
        due = _first(_first(want.due, asked.due), asked.freed)
        of_policy = due is not None and asked.due == due
    return tuple(held[name] for name in sorted(held)) if held else (), due, of_policy


def decide_taints(
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
) -> Decided:
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
    uid = resource.uid
    same = current is not None and current.target_uid == uid
    known = current if same else None
    before = known.taints if known is not None else ()
    applied = known.wishes_applied if known is not None else 0
    generation = (current.generation if current is not None else 0) + 1
    own = {name: condition for name, condition in conditions.items() if condition.target_uid in {"", uid} or not uid}
    zone = zone_of_target(resource)
    # A target may be read after later news of its conditions: what these bring did not begin before they did.
    now = max([now, *(condition.status_since for condition in own.values() if condition.status_since is not None)])
    incident = incident_of(resource.kind, own, known, generation, now)
    taints = {record.identity: record for record in before}
    want = Want(
        kind=resource.kind,
        conditions=own,
        present=taints,
        was_held=frozenset((held.key, held.effect) for held in known.held) if known is not None else frozenset(),
        now=now,
        holds=rules.holds,
        incident=incident,
        grant=grant if grant is not None and (grant.target_uid in {"", uid} or not uid) else None,
        zone=zone,
        first=known is None,
    )
    want.work_out(resource)
    pending = [wish for wish in resource.wishes if wish.generation > applied]
    pending.sort(key=lambda wish: wish.generation)
    asked = _work_out(want, resource, pending, rules, policies if rules.policies else (), evaluate=evaluate)
    after = tuple(asked.draft.taints.values()) if asked is not None else ()
    held, settles_at, of_policy = _waits(want, asked)
    due = settles_at
    labels = Labels(known.labels if known is not None else {})
    if addons is not None and resource.kind == TargetKind.MANAGED_CLUSTER.value:
        labels = add_on_labels(labels.labels, addons, available=is_available(own), now=now, gone=gone)
        due = _first(due, labels.due)
    settled = Decided(None, due, evaluate=of_policy)
    if known is not None:
        found = (after, zone, incident[0], held, settles_at, labels.labels)
        if not pending and found == (before, known.zone, known.incident, known.held, known.settles_at, known.labels):
            return settled
    event = TargetTainted(
        target=TargetRef(kind=TargetKind(resource.kind), name=resource.name),
        target_uid=uid,
        generation=generation,
        taints=after,
        wishes_applied=max([applied, *(wish.generation for wish in pending)]),
        report_time=report_time,
        zone=zone,
        incident=incident[0],
        incident_time=incident[1],
        held=held,
        settles_at=settles_at,
        labels=labels.labels,
    )
    return Decided(event, due, settled.evaluate)


def next_taints(
    current: TargetTainted | None,
    resource: ResourceDeclared,
    conditions: Mapping[str, ConditionChanged],
    now: datetime,
    report_time: datetime | None = None,
) -> TargetTainted | None:
    """The taints of a target by its wishes and its state alone, as far as they can be told without the governor.

    What policies have added stays; nothing is damped. See `decide_taints`; None when nothing changes.
    """
    return decide_taints(current, resource, conditions, now, report_time).event


def newer_taints(event: TargetTainted, known: TargetTainted | None) -> bool:
    """Whether a set of taints supersedes the one that is known."""
    return known is None or known.target_uid != event.target_uid or event.generation > known.generation
