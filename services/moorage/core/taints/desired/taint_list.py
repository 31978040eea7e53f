"""A target's set of taints while it is being worked out: wishes, then what follows from the target's state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from moorage.core.taints.desired.from_conditions import Identity, Want, belongs_to_state
from moorage_schemas.resource import TaintWish
from moorage_schemas.taint import TaintOrigin, TaintRecord

DERIVED: Final = frozenset({TaintOrigin.CONDITION, TaintOrigin.SYSTEM})
"""Origins that follow from the target's state: they come and go with it."""

BY_POLICY: Final = "ClusterTaintPolicy "
"""How the reason of a taint that a policy asks for begins; the policy's name follows."""


@dataclass(slots=True)
class Draft:
    """The set while it is being worked out; only what changes is built anew.

    Attributes:
        document: the target as declared.
        wishes: people's last words, for the reasons of taints.
        want: what the target's state asks for.
        taints: the set, in its order.
        policies: the policy that has just asked for a taint.
    """

    document: Mapping[str, Any]
    wishes: Mapping[Identity, TaintWish]
    want: Want
    taints: dict[Identity, TaintRecord] = field(default_factory=dict)
    policies: dict[Identity, str] = field(default_factory=dict)

    def of_state(self, key: str, effect: str, value: str) -> bool:
        """Whether a taint comes and goes with the target's state alone."""
        return belongs_to_state(self.document, key, effect, value)

    def add(self, key: str, effect: str, value: str, time: datetime, origin: TaintOrigin) -> None:
        """Add a taint that is not there, as the last."""
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
            reason=self._reason(record.identity, ordered, record.reason) or record.reason,
        )

    def take_away(self, record: TaintRecord) -> None:
        """Take away what people and policies ask for; what is derived from state stays, with its own value.

        It would be added again at once by the system that derives it, so it never leaves.
        """
        active = self.want.active.get(record.identity)
        left = [origin for origin in record.origins if origin in DERIVED and active is not None]
        self.change(record, left, value=active.value if active is not None and left else None)

    def leave_to_state(self, record: TaintRecord) -> None:
        """Take away what people and policies ask for of a taint that is the state's.

        Earlier versions took such words down. Of what they made of the value nothing is left, of `timeAdded` all: a
        deadline that runs is not put off.
        """
        derived = [origin for origin in record.origins if origin in DERIVED]
        if len(derived) != len(record.origins):
            active = self.want.active.get(record.identity)
            self.change(record, derived, value=active.value if active is not None and derived else None)

    def _reason(self, identity: Identity, origins: Iterable[TaintOrigin], before: str) -> str:
        parts = []
        for origin in origins:
            if origin is TaintOrigin.EXPLICIT:
                wish = self.wishes.get(identity)
                parts.append(f"declared by {wish.actor}" if wish is not None and wish.actor else "declared")
            elif origin is TaintOrigin.POLICY:
                name = self.policies.get(identity)
                old = next((said for said in before.split("; ") if said.startswith(BY_POLICY)), "")
                parts.append(f"{BY_POLICY}{name}" if name is not None else old)
            elif (wanted := self.want.active.get(identity)) is not None:
                parts.append(wanted.reason)
        return "; ".join(filter(None, parts))


def work_in_wish(draft: Draft, wish: TaintWish) -> None:
    """Work one wish in; one for a taint that belongs to the state adds nothing, and has nothing stay."""
    record = draft.taints.get((wish.key, wish.effect))
    if wish.present and draft.of_state(wish.key, wish.effect, wish.value):
        if record is not None:
            draft.leave_to_state(record)
    elif wish.present:
        if record is None:
            draft.add(wish.key, wish.effect, wish.value, wish.time, TaintOrigin.EXPLICIT)
        elif record.value != wish.value:
            draft.change(record, (*record.origins, TaintOrigin.EXPLICIT), value=wish.value, time=wish.time)
        else:
            draft.change(record, (*record.origins, TaintOrigin.EXPLICIT))
    elif record is not None:
        draft.take_away(record)


def follow_state(draft: Draft, now: datetime) -> None:
    """Take away what is derived from a state that is over, then add what is wanted and missing."""
    want = draft.want
    for record in list(draft.taints.values()):
        if draft.of_state(record.key, record.effect, record.value):
            draft.leave_to_state(record)
    for record in list(draft.taints.values()):
        asked = want.active.get(record.identity)
        kept = [
            origin
            for origin in record.origins
            if origin not in DERIVED
            or (asked is not None and asked.origin is origin)
            or (origin is TaintOrigin.CONDITION and want.stays(record))
        ]
        if len(kept) != len(record.origins):
            draft.change(record, kept)
    for asked in want.active.values():
        present = draft.taints.get(asked.identity)
        if present is None:
            draft.add(asked.key, asked.effect, asked.value, asked.time or now, asked.origin)
        elif asked.origin not in present.origins:
            draft.change(present, (*present.origins, asked.origin))
