"""The taints of a target, merged from its state, policies, people's edits, and the taints that it already has.

For a managed cluster this includes the labels with the states of its add-ons, because they are in the same record.

A target has one list of taints. A taint is identified by (key, effect), and it records its origins. It stays as long as
at least one origin is left. The built-in taints are an exception: they belong to the state, and requests of people and
policies for them have no effect (`belongs_to_state`). `timeAdded`, from which deadlines count, is the instant at which
the taint was actually added. It stays the same until the taint is removed or a person overwrites its value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from moorage.decide.kubernetes.unstructured import part
from moorage.decide.taints.desired.addons import AddOns, Labels, Named, add_on_labels, is_reporting
from moorage.decide.taints.desired.from_conditions import (
    DesiredTaint,
    DesiredTaints,
    Holds,
    Identity,
    belongs_to_state,
    hold_end,
    holds_since,
)
from moorage.decide.taints.desired.incidents import incident_of, zone_of_target
from moorage.decide.taints.desired.taint_policies import (
    KINDS,
    Act,
    TaintingPolicy,
    TargetFacts,
    acts,
)
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import HeldTaint, Taint, TaintEffect, TaintOrigin, TaintRecord, TargetTainted
from moorage_schemas.times import format_time
from moorage_schemas.zone import NoExecuteGranted

DERIVED: Final = frozenset({TaintOrigin.CONDITION, TaintOrigin.SYSTEM})
"""Origins that follow from the target's state. They are added and removed with it."""

BY_POLICY: Final = tuple(f"{kind} " for kind in KINDS)
"""The starts of the reason of a taint that a policy adds. The policy's name follows."""


@dataclass(slots=True)
class TaintList:
    """The set of taints while it is being computed. Only taints that change are built anew.

    Attributes:
        wishes: the latest taint edits, for the reasons of taints.
        taints: the set, in its order.
        policies: for each taint, the kind and name of the policy that has just requested it.
    """

    document: Mapping[str, Any]
    wishes: Mapping[Identity, TaintWish]
    desired: DesiredTaints
    taints: dict[Identity, TaintRecord] = field(default_factory=dict)
    policies: dict[Identity, str] = field(default_factory=dict)

    def of_state(self, key: str, effect: str, value: str) -> bool:
        """Return whether a taint depends on the target's state alone."""
        return not self.desired.decided_there and belongs_to_state(self.document, key, effect, value)

    def add(self, key: str, effect: str, value: str, time: datetime, origin: TaintOrigin) -> None:
        """Add a missing taint at the end."""
        origins = (origin,)
        self.taints[(key, effect)] = TaintRecord(
            key=key,
            value=value,
            effect=effect,
            time_added=time,
            origins=origins,
            reason=self._reason((key, effect), origins, ""),
        )

    def change(
        self,
        record: TaintRecord,
        origins: Iterable[TaintOrigin],
        *,
        value: str | None = None,
        time: datetime | None = None,
    ) -> None:
        """Set the origins of a taint and keep its position. Remove the taint if no origin is left."""
        ordered = tuple(sorted(set(origins)))
        if not ordered:
            del self.taints[record.identity]
            return
        if ordered == record.origins and value is None and time is None:
            return
        self.taints[record.identity] = TaintRecord(
            key=record.key,
            value=record.value if value is None else value,
            effect=record.effect,
            time_added=record.time_added if time is None else time,
            origins=ordered,
            reason=self._reason(record.identity, ordered, record.reason) or record.reason,
        )

    def take_away(self, record: TaintRecord) -> None:
        """Remove the origins of a taint that are people and policies. A taint that the state requires stays.

        It gets its own value again. The controller would add it again at once, so such a taint is never removed.
        """
        active = self.desired.active.get(record.identity)
        left = [origin for origin in record.origins if origin in DERIVED and active is not None]
        self.change(record, left, value=active.value if active is not None and left else None)

    def leave_to_state(self, record: TaintRecord) -> None:
        """Remove the origins that are people and policies from a taint that belongs to the state.

        Earlier versions recorded such requests. A value that they set is dropped, but `timeAdded` is kept, so that a
        running deadline is not postponed.
        """
        derived = [origin for origin in record.origins if origin in DERIVED]
        if len(derived) != len(record.origins):
            active = self.desired.active.get(record.identity)
            self.change(record, derived, value=active.value if active is not None and derived else None)

    def _reason(self, identity: Identity, origins: Iterable[TaintOrigin], before: str) -> str:
        parts = []
        for origin in origins:
            if origin is TaintOrigin.EXPLICIT:
                edit = self.wishes.get(identity)
                parts.append(f"declared by {edit.actor}" if edit is not None and edit.actor else "declared")
            elif origin is TaintOrigin.POLICY:
                title = self.policies.get(identity)
                old = next((reason for reason in before.split("; ") if reason.startswith(BY_POLICY)), "")
                parts.append(title if title is not None else old)
            elif (wanted := self.desired.active.get(identity)) is not None:
                parts.append(wanted.reason)
        return "; ".join(filter(None, parts))


def work_in_edit(taint_list: TaintList, edit: TaintWish) -> None:
    """Apply one taint edit. An edit of a taint that belongs to the state adds nothing and keeps nothing."""
    record = taint_list.taints.get((edit.key, edit.effect))
    if edit.present and taint_list.of_state(edit.key, edit.effect, edit.value):
        if record is not None:
            taint_list.leave_to_state(record)
    elif edit.present:
        if record is None:
            taint_list.add(edit.key, edit.effect, edit.value, edit.time, TaintOrigin.EXPLICIT)
        elif record.value != edit.value:
            taint_list.change(record, (*record.origins, TaintOrigin.EXPLICIT), value=edit.value, time=edit.time)
        else:
            taint_list.change(record, (*record.origins, TaintOrigin.EXPLICIT))
    elif record is not None:
        taint_list.take_away(record)


def follow_state(taint_list: TaintList, now: datetime) -> None:
    """Remove taints of a former state, then add the required ones that are missing."""
    desired = taint_list.desired
    for record in list(taint_list.taints.values()):
        if taint_list.of_state(record.key, record.effect, record.value):
            taint_list.leave_to_state(record)
    for record in list(taint_list.taints.values()):
        merged = desired.active.get(record.identity)
        kept = [
            origin
            for origin in record.origins
            if (origin not in DERIVED and not (desired.decided_there and origin is TaintOrigin.POLICY))
            or (merged is not None and merged.origin is origin)
            or (origin is TaintOrigin.CONDITION and desired.stays(record))
        ]
        if len(kept) != len(record.origins):
            taint_list.change(record, kept)
    for merged in desired.active.values():
        present = taint_list.taints.get(merged.identity)
        if present is None:
            taint_list.add(merged.key, merged.effect, merged.value, merged.time or now, merged.origin)
        elif merged.origin not in present.origins:
            taint_list.change(present, (*present.origins, merged.origin))


@dataclass(frozen=True, slots=True)
class TaintRules:
    """The settings that affect taints.

    Attributes:
        holds: how long a condition must hold, unless a policy states its own hold.
        policies: whether ClusterTaintPolicies apply (the feature gate Failover).
        no_execute_policies: whether they may add taints that evict. They may always remove them.
    """

    holds: Holds = field(default_factory=Holds)
    policies: bool = False
    no_execute_policies: bool = False

    def let_act(self, policy: TaintingPolicy) -> bool:
        """Return whether a policy acts. A TaintPolicy needs no switch."""
        return self.policies or not policy.is_gated


NO_RULES: Final = TaintRules()
"""Upstream's defaults: no flap damping, and no ClusterTaintPolicies."""


@dataclass(frozen=True, slots=True)
class ReconciledTaints:
    """The result for a target's taints.

    Attributes:
        event: the new set of taints. None if nothing changes.
        due: when time alone will change the set. None if only an event can change it.
        evaluate: whether policies must be evaluated at that time.
    """

    event: TargetTainted | None
    due: datetime | None = None
    evaluate: bool = False


@dataclass(slots=True)
class _Policies:
    """Applies policies to a draft, or only determines which of their actions wait."""

    taint_list: TaintList
    rules: TaintRules
    now: datetime
    evaluate: bool
    held: dict[Identity, HeldTaint] = field(default_factory=dict)
    due: datetime | None = None
    """When policies act next."""

    freed: datetime | None = None
    """When a held taint stops being held, because it would be removed again at once."""

    def work_in(self, policies: Sequence[TaintingPolicy], target: TargetFacts) -> None:
        conditions = self.taint_list.desired.conditions
        statuses = {name: (condition.status.value,) for name, condition in conditions.items()}
        matched = [(act, self._end(act, conditions)) for act in acts(policies, target, statuses)]
        if self.evaluate:
            self._evaluate([act for act, end in matched if end is None])
        for act, end in matched:
            if end is not None:
                self._wait(act, end)
            elif not act.adds:
                # This policy removes the taints that an earlier policy would add after its wait.
                for taint in act.policy.taints:
                    self.held.pop(taint.identity, None)

    def _evaluate(self, matched: Iterable[Act]) -> None:
        """Apply actions in order. A taint that is removed and added again with its value counts as never removed."""
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
        """Return when the conditions of an action will have held long enough. None if they have, or need not."""
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
            reason = f"{act.policy.title}; its conditions must hold until {format_time(end)}"
            since = max(holds_since(self.taint_list.desired.conditions[edit.condition_type]) for edit in act.conditions)
            for taint in moves:
                self.held.setdefault(
                    taint.identity, HeldTaint(key=taint.key, effect=taint.effect, since=since, reason=reason)
                )

    def _moves(self, act: Act, taint: Taint) -> bool:
        """Return whether an action would change a taint."""
        record = self.taint_list.taints.get(taint.identity)
        if act.adds:
            may = self._allowed(act.policy, taint.effect) and not self.taint_list.of_state(
                taint.key, taint.effect, taint.value
            )
            return may and (record is None or TaintOrigin.POLICY not in record.origins)
        return record is not None and any(origin not in DERIVED for origin in record.origins)

    def _do(self, act: Act) -> None:
        taint_list = self.taint_list
        for taint in act.policy.taints:
            if act.adds and self._allowed(act.policy, taint.effect):
                taint_list.policies.setdefault(taint.identity, act.policy.title)
            if not self._moves(act, taint):
                continue
            record = taint_list.taints.get(taint.identity)
            if record is None:
                taint_list.add(taint.key, taint.effect, taint.value, self.now, TaintOrigin.POLICY)
            elif act.adds:
                taint_list.change(record, (*record.origins, TaintOrigin.POLICY))
            else:
                # The state was applied before, so the derived origin of the taint is up to date.
                active = taint_list.desired.active.get(record.identity)
                left = [origin for origin in record.origins if origin in DERIVED]
                taint_list.change(record, left, value=active.value if active is not None and left else None)

    def _allowed(self, policy: TaintingPolicy, effect: str) -> bool:
        gated = policy.is_gated and effect == TaintEffect.NO_EXECUTE.value
        return self.rules.no_execute_policies or not gated


def _first(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((end for end in (one, other) if end is not None), default=None)


def _work_out(
    desired: DesiredTaints,
    resource: ResourceDeclared,
    pending: Sequence[TaintWish],
    rules: TaintRules,
    policies: Sequence[TaintingPolicy],
    *,
    evaluate: bool,
) -> _Policies | None:
    """Apply taint edits, then the state, then policies to a draft. None if nothing requires a taint."""
    if policies:
        policies = () if desired.decided_there else [one for one in policies if rules.let_act(one)]
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
        merged.work_in(policies, TargetFacts.of(resource))
    return merged


def _waits(desired: DesiredTaints, merged: _Policies | None) -> tuple[tuple[HeldTaint, ...], datetime | None, bool]:
    """Return the taints that wait, until when, and whether policies act at that time."""
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
    policies: Sequence[TaintingPolicy] = (),
    evaluate: bool = False,
    addons: AddOns | None = None,
    removed: Collection[Named] = (),
    required: Sequence[DesiredTaint] = (),
) -> ReconciledTaints:
    """Return the taints of a target after an event, or after the end of a wait.

    From the first decision on, a declared target always has a set of taints, even if it is empty. So a missing
    set means that no decision has been made yet.

    Taint edits above `wishes_applied` are applied first, in the order of their generations. Applying them counts as
    a change, because it is recorded once. Then the taints that derive from the target's state are updated, then
    policies are applied. Neither is done where the target's own cluster decides on its taints. The order of taints
    is kept: a taint that changes stays at its position, a new one is last.

    Args:
        current: the present taints. None if there never were any. The taints of an earlier target of that name (with
            another uid) do not count, but its generation is continued.
        resource: the target as declared, with its taint edits.
        conditions: the target's conditions by type. Conditions of an earlier target of that name are ignored.
        now: the time of the event. It becomes `timeAdded` of the taints that state and policies add, unless the last of
            the conditions began later.
        report_time: when the report behind the event was made, if any.
        grant: the governor's latest decision on this target. Without one, taints that evict stay and none is added.
        rules: the settings.
        policies: the policies about targets of this kind, in their order.
        evaluate: whether policies are evaluated now. If not, only their waiting actions are determined.
        addons: for a managed cluster, its add-ons. If None, the labels stay unchanged.
        removed: as for `add_on_labels`.
        required: further taints that are required now, whatever the state of the target.
    """
    known = current if current is not None and current.target_uid == resource.uid else None
    generation = (current.generation if current is not None else 0) + 1
    is_leaving = _is_leaving(resource)
    said = {} if is_leaving else conditions
    desired = _desired(known, resource, said, now, generation=generation, grant=grant, holds=rules.holds)
    desired.work_out(resource)
    if not desired.decided_there:
        desired.active.update((taint.identity, taint) for taint in required)
    applied = known.wishes_applied if known is not None else 0
    edits = sorted((edit for edit in resource.wishes if edit.generation > applied), key=lambda edit: edit.generation)
    merged = _work_out(desired, resource, edits, rules, policies, evaluate=evaluate)
    held, settles_at, of_policy = _waits(desired, merged)
    due, labels = settles_at, Labels(known.labels if known is not None else {})
    if addons is not None and resource.kind == TargetKind.MANAGED_CLUSTER.value:
        reporting = is_reporting(desired.conditions)
        gone = () if is_leaving else removed
        labels = add_on_labels(labels.labels, addons, reporting=reporting, now=desired.now, removed=gone)
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
        target=TargetRef(kind=TargetKind(resource.kind), name=resource.name, cluster=resource.cluster),
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
    """Return the taints that a target's state requires, ignoring records of an earlier target of its name."""
    uid = resource.uid
    own = {name: condition for name, condition in conditions.items() if condition.target_uid in {"", uid} or not uid}
    # A target may be read after later records of its conditions. The taints of these conditions cannot be older.
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
        first=known is None and not _is_leaving(resource),
        decided_there=resource.mirrored is not None and resource.mirrored.keeps_taints,
    )


def _is_leaving(resource: ResourceDeclared) -> bool:
    """Return whether a managed cluster is being deleted. Then its taints of conditions and its labels stay as they are.

    Source: open-cluster-management.io/ocm/pkg/registration/hub/taint and hub/addon.
    """
    marked = part(resource.object, "metadata").get("deletionTimestamp")
    return bool(marked) and resource.kind == TargetKind.MANAGED_CLUSTER.value


def next_taints(
    current: TargetTainted | None,
    resource: ResourceDeclared,
    conditions: Mapping[str, ConditionChanged],
    now: datetime,
) -> TargetTainted | None:
    """Return the taints of a target by its taint edits and state alone, without the governor.

    Taints of policies stay, and there is no flap damping, unlike in `reconcile_taints`. None if nothing changes.
    """
    return reconcile_taints(current, resource, conditions, now).event


class KnownTaints(Protocol):
    """The fields of a target's last taints that show whether another record is newer."""

    @property
    def target_uid(self) -> str:
        """The uid of the target."""

    @property
    def generation(self) -> int:
        """The generation of the record."""


def newer_taints(event: KnownTaints, known: KnownTaints | None) -> bool:
    """Return whether a set of taints supersedes the last one."""
    return known is None or known.target_uid != event.target_uid or event.generation > known.generation
