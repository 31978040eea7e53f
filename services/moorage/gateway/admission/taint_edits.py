"""People's edits of a target's taint list, as wishes for the taint-manager.

A target has one list, which the taint-manager writes. An edit is the difference between the list as it is shown and
the list that is wanted; what is the same in both is nobody's wish.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from moorage.core.taints.desired.from_conditions import belongs_to_state
from moorage_schemas.resource import TaintWish
from moorage_schemas.taint import Taint, TargetTainted


def asked_for(document: Mapping[str, Any], wanted: Iterable[Taint], shown: TargetTainted | None) -> Iterator[Taint]:
    """Of a list that is wanted what people can ask for.

    A built-in taint comes and goes with the target's state. One that is there stays as it is, whatever the list says of
    it; one that is not is nobody's to add. But where it takes the place of a person's own taint of the same identity,
    that one is no longer wanted, and the taint-manager must hear of it.
    """
    before = {taint.identity: taint for taint in shown.taints} if shown is not None else {}
    for taint in wanted:
        there = before.get(taint.identity)
        if not belongs_to_state(document, taint.key, taint.effect, taint.value):
            yield taint
        elif there is not None and belongs_to_state(document, there.key, there.effect, there.value):
            yield there.as_taint()
        elif there is not None:
            yield taint


def difference(
    shown: TargetTainted | None,
    wanted: Iterable[Taint],
    known: Iterable[TaintWish],
    *,
    now: datetime,
    actor: str,
) -> list[TaintWish]:
    """The wishes of an edit, each with a generation above all that were ever used.

    Args:
        shown: the taints as they are shown to whoever edits.
        wanted: the list that is wanted.
        known: the wishes that the target's record holds.
        now: the time of wishes about taints that have no `timeAdded` of their own.
        actor: who edits.
    """
    before = {taint.identity: taint for taint in shown.taints} if shown is not None else {}
    after = {taint.identity: taint for taint in wanted}
    generation = max([shown.wishes_applied if shown is not None else 0, *(wish.generation for wish in known)])
    wishes: list[TaintWish] = []

    def wish(taint_key: str, effect: str, value: str, time: datetime, *, present: bool) -> None:
        wishes.append(
            TaintWish(
                key=taint_key,
                effect=effect,
                value=value,
                present=present,
                generation=generation + len(wishes) + 1,
                time=time,
                actor=actor,
            )
        )

    for key, effect in before:
        if (key, effect) not in after:
            wish(key, effect, "", now, present=False)
    for identity, taint in after.items():
        there = before.get(identity)
        if there is None:
            wish(*identity, taint.value, taint.time_added or now, present=True)
        elif there.value != taint.value:
            # A changed taint begins anew; a list that was read and sent back still carries the old time.
            own = taint.time_added if taint.time_added != there.time_added else None
            wish(*identity, taint.value, own or now, present=True)
    return wishes


def with_defaults(
    wishes: Sequence[TaintWish], taints: Iterable[Taint], *, now: datetime, actor: str
) -> list[TaintWish]:
    """The wishes for a new target, and after them those for taints that it gets by default."""
    generation = max((wish.generation for wish in wishes), default=0)
    more = [
        TaintWish(
            key=taint.key,
            effect=taint.effect,
            value=taint.value,
            present=True,
            generation=generation + number,
            time=now,
            actor=actor,
        )
        for number, taint in enumerate(taints, start=1)
    ]
    return [*wishes, *more]


def merged(known: Iterable[TaintWish], new: Iterable[TaintWish], applied: int) -> tuple[TaintWish, ...]:
    """The wishes that a target's record holds from now on: the last word on each (key, effect).

    A removal that the taint-manager has worked in (`applied`) says nothing any more and is left out.
    """
    last = {(wish.key, wish.effect): wish for wish in (*known, *new)}
    kept = (wish for wish in last.values() if wish.present or wish.generation > applied)
    return tuple(sorted(kept, key=lambda wish: wish.generation))
