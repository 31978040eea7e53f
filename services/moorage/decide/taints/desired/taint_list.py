"""A target's set of taints while it is being computed: first the taint edits, then the state of the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from moorage.decide.taints.desired.from_conditions import DesiredTaints, Identity, belongs_to_state
from moorage_schemas.resource import TaintWish
from moorage_schemas.taint import TaintOrigin, TaintRecord

DERIVED: Final = frozenset({TaintOrigin.CONDITION, TaintOrigin.SYSTEM})
"""Origins that follow from the target's state. They are added and removed with it."""

BY_POLICY: Final = "ClusterTaintPolicy "
"""The start of the reason of a taint that a policy adds. The policy's name follows."""


@dataclass(slots=True)
class TaintList:
    """The set of taints while it is being computed. Only taints that change are built anew.

    Attributes:
        document: the target as declared.
        wishes: the latest taint edits, for the reasons of taints.
        desired: the taints that the target's state requires.
        taints: the set, in its order.
        policies: for each taint, the policy that has just requested it.
    """

    document: Mapping[str, Any]
    wishes: Mapping[Identity, TaintWish]
    desired: DesiredTaints
    taints: dict[Identity, TaintRecord] = field(default_factory=dict)
    policies: dict[Identity, str] = field(default_factory=dict)

    def of_state(self, key: str, effect: str, value: str) -> bool:
        """Whether a taint depends on the target's state alone."""
        return belongs_to_state(self.document, key, effect, value)

    def add(self, key: str, effect: str, value: str, time: datetime, origin: TaintOrigin) -> None:
        """Add a taint that is not there yet, at the end."""
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
                name = self.policies.get(identity)
                old = next((said for said in before.split("; ") if said.startswith(BY_POLICY)), "")
                parts.append(f"{BY_POLICY}{name}" if name is not None else old)
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
    """Remove taints that follow from a state that is over, then add the required ones that are missing."""
    desired = taint_list.desired
    for record in list(taint_list.taints.values()):
        if taint_list.of_state(record.key, record.effect, record.value):
            taint_list.leave_to_state(record)
    for record in list(taint_list.taints.values()):
        merged = desired.active.get(record.identity)
        kept = [
            origin
            for origin in record.origins
            if origin not in DERIVED
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
