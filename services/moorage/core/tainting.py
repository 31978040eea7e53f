"""The taints of a target: what its state asks for, what people wish, and what it carries already.

A target has one list of taints; a taint's identity there is (key, effect), and each remembers who asked for it.
It stays as long as one of them does. Its `timeAdded`, from which deadlines are counted, is the instant at
which it was really added, and stands until the taint goes or a person overwrites its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from moorage.core.dialects import kubernetes
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared, TaintWish
from moorage_schemas.taint import Taint, TaintOrigin, TaintRecord, TargetTainted

Identity = tuple[str, str]

_DERIVED: Final = frozenset({TaintOrigin.CONDITION, TaintOrigin.SYSTEM})
"""Origins that follow from the target's state: they come and go with it."""


@dataclass(frozen=True, slots=True)
class WantedTaint:
    """A taint that the target's state asks for now."""

    key: str
    effect: str
    value: str
    origin: TaintOrigin
    reason: str

    @property
    def identity(self) -> Identity:
        """(key, effect)."""
        return (self.key, self.effect)


_NODE_ROWS: Final = tuple(
    (
        row.condition,
        row.status,
        tuple(
            WantedTaint(
                taint.key,
                taint.effect,
                taint.value,
                TaintOrigin.CONDITION,
                f"condition {row.condition} is {row.status}",
            )
            for taint in row.taints()
        ),
    )
    for row in kubernetes.CONDITION_TAINTS
)
"""Of each row of the dialect's table what it asks for, made once."""


def _system(taint: Taint, reason: str) -> WantedTaint:
    return WantedTaint(taint.key, taint.effect, taint.value, TaintOrigin.SYSTEM, reason)


_UNSCHEDULABLE: Final = _system(kubernetes.UNSCHEDULABLE_TAINT, "spec.unschedulable is true")
_UNINITIALIZED: Final = _system(
    kubernetes.UNINITIALIZED_TAINT,
    f"annotated {'='.join(kubernetes.EXTERNAL_CLOUD)}, and spec.providerID is not set yet",
)


def wanted_taints(resource: ResourceDeclared, conditions: Mapping[str, ConditionChanged]) -> tuple[WantedTaint, ...]:
    """What the declared state and the conditions of a target ask for now, by the target's dialect.

    This is the place for everything that is derived from state: the rate limits by zone for taints that evict, and the
    taints of control-plane nodes, when they come. Targets of a kind without rules get none.
    """
    if resource.kind == TargetKind.NODE.value:
        return _wanted_of_node(resource, conditions)
    return ()


def _unsaid(resource: ResourceDeclared, conditions: Mapping[str, ConditionChanged]) -> frozenset[Identity]:
    """The taints that rest on conditions of which nothing is known (yet)."""
    if resource.kind != TargetKind.NODE.value:
        return frozenset()
    return frozenset(taint.identity for name, _, taints in _NODE_ROWS if name not in conditions for taint in taints)


def _wanted_of_node(resource: ResourceDeclared, conditions: Mapping[str, ConditionChanged]) -> tuple[WantedTaint, ...]:
    wanted: tuple[WantedTaint, ...] = ()
    if conditions:
        for condition_type, status, taints in _NODE_ROWS:
            condition = conditions.get(condition_type)
            if condition is not None and condition.status == status:
                wanted += taints
    spec = _part(resource.object, "spec")
    if spec.get("unschedulable") is True:
        wanted += (_UNSCHEDULABLE,)
    name, external = kubernetes.EXTERNAL_CLOUD
    if not spec.get("providerID") and _part(_part(resource.object, "metadata"), "annotations").get(name) == external:
        wanted += (_UNINITIALIZED,)
    return wanted


def _part(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A part of an object; empty when it is absent or no mapping."""
    part = document.get(name)
    return part if isinstance(part, Mapping) else {}


@dataclass(slots=True)
class _Draft:
    """The set while it is being worked out; only what changes is built anew."""

    wishes: Mapping[Identity, TaintWish]
    wanted: Mapping[Identity, WantedTaint]
    taints: dict[Identity, TaintRecord] = field(default_factory=dict)

    def add(self, key: str, effect: str, value: str, time: datetime, origin: TaintOrigin) -> None:
        origins = (origin,)
        self.taints[(key, effect)] = TaintRecord(
            key=key,
            value=value,
            effect=effect,
            time_added=time,
            origins=origins,
            reason=self._reason((key, effect), origins),
        )

    def change(
        self,
        record: TaintRecord,
        origins: Iterable[TaintOrigin],
        *,
        value: str | None = None,
        time: datetime | None = None,
    ) -> None:
        """Keep the taint in its place with these origins; away with it when none is left."""
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
            reason=self._reason(record.identity, ordered) or record.reason,
        )

    def _reason(self, identity: Identity, origins: Iterable[TaintOrigin]) -> str:
        parts = []
        for origin in origins:
            if origin is TaintOrigin.EXPLICIT:
                wish = self.wishes.get(identity)
                parts.append(f"declared by {wish.actor}" if wish is not None and wish.actor else "declared")
            elif origin in _DERIVED and (wanted := self.wanted.get(identity)) is not None:
                parts.append(wanted.reason)
        return "; ".join(parts)


def _grant(draft: _Draft, wish: TaintWish) -> None:
    """Work one wish in."""
    record = draft.taints.get((wish.key, wish.effect))
    if wish.present:
        if record is None:
            draft.add(wish.key, wish.effect, wish.value, wish.time, TaintOrigin.EXPLICIT)
        elif record.value != wish.value:
            draft.change(record, (*record.origins, TaintOrigin.EXPLICIT), value=wish.value, time=wish.time)
        else:
            draft.change(record, (*record.origins, TaintOrigin.EXPLICIT))
    elif record is not None:
        # What is derived from state is added again at once by the system that derives it, so it never leaves.
        left = [origin for origin in record.origins if origin in _DERIVED and record.identity in draft.wanted]
        draft.change(record, left, value=draft.wanted[record.identity].value if left else None)


def _follow_state(draft: _Draft, wanted: Iterable[WantedTaint], unsaid: frozenset[Identity], now: datetime) -> None:
    """Take away what is derived from a state that is over, then add what is wanted and missing.

    A condition that is not known says nothing, so the taints that rest on it (`unsaid`) stay as they are.
    """
    for record in list(draft.taints.values()):
        asked = draft.wanted.get(record.identity)
        kept = [
            origin
            for origin in record.origins
            if origin not in _DERIVED
            or (asked is not None and asked.origin is origin)
            or (origin is TaintOrigin.CONDITION and record.identity in unsaid)
        ]
        if len(kept) != len(record.origins):
            draft.change(record, kept)
    for want in wanted:
        present = draft.taints.get(want.identity)
        if present is None:
            draft.add(want.key, want.effect, want.value, now, want.origin)
        elif want.origin not in present.origins:
            draft.change(present, (*present.origins, want.origin))


def next_taints(
    current: TargetTainted | None,
    resource: ResourceDeclared,
    conditions: Mapping[str, ConditionChanged],
    now: datetime,
    report_time: datetime | None = None,
) -> TargetTainted | None:
    """The taints of a target after what has happened; None when nothing changes.

    Wishes above `wishes_applied` are worked in first, in the order of their generations; that they are is a change
    too, for it is written down once. Then the taints that are derived from the target's state follow it.
    Order is kept: a taint that changes stays in its place, a new one comes last.

    Args:
        current: the taints as they are; None when there never were any. Those of an earlier target of that name
            (another uid) do not count, but the generation goes on from them.
        resource: the target as declared, with its wishes.
        conditions: its conditions by type. Those of an earlier target of that name do not count.
        now: the time of what led here; becomes `timeAdded` of the taints that its state adds.
        report_time: when the report that led here was made, if one did.
    """
    uid = resource.uid
    same = current is not None and current.target_uid == uid
    before = current.taints if current is not None and same else ()
    applied = current.wishes_applied if current is not None and same else 0
    own = {name: condition for name, condition in conditions.items() if condition.target_uid in {"", uid} or not uid}
    wanted = wanted_taints(resource, own)
    pending = [wish for wish in resource.wishes if wish.generation > applied]
    pending.sort(key=lambda wish: wish.generation)
    if not pending and not before and not wanted and (current is None or same):
        return None
    draft = _Draft(
        wishes={(wish.key, wish.effect): wish for wish in resource.wishes},
        wanted={want.identity: want for want in wanted},
        taints={record.identity: record for record in before},
    )
    for wish in pending:
        _grant(draft, wish)
    _follow_state(draft, wanted, _unsaid(resource, own), now)
    taints = tuple(draft.taints.values())
    if same and not pending and taints == before:
        return None
    return TargetTainted(
        target=TargetRef(kind=TargetKind(resource.kind), name=resource.name),
        target_uid=uid,
        generation=(current.generation if current is not None else 0) + 1,
        taints=taints,
        wishes_applied=max([applied, *(wish.generation for wish in pending)]),
        report_time=report_time,
    )


def newer_taints(event: TargetTainted, known: TargetTainted | None) -> bool:
    """Whether a set of taints supersedes the one that is known."""
    return known is None or known.target_uid != event.target_uid or event.generation > known.generation
