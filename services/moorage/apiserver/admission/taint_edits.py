"""People's edits of a target's taint list, as taint edits for the taint-manager.

A target has one list, which the taint-manager writes. A person submits a whole list. Its differences from the list
that is shown are the taint edits (`TaintWish`). A taint that is the same in both is not edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from moorage.decide.taints.desired.from_conditions import belongs_to_state
from moorage_schemas.resource import TaintWish
from moorage_schemas.taint import Taint, TaintRecord, TargetTainted


def asked_for(document: Mapping[str, Any], wanted: Iterable[Taint], shown: TargetTainted | None) -> Iterator[Taint]:
    """Yield the part of a submitted list that people can request.

    The target's state determines its built-in taints. One that is present stays unchanged, whatever the list contains.
    One that is absent cannot be added. But if it replaces a person's own taint of the same identity, that taint is no
    longer requested, and the taint-manager must be informed.
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


def as_declared(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a target as people have declared it: without its built-in taints, and without the times of the others."""
    spec = document.get("spec")
    taints = spec.get("taints") if isinstance(spec, Mapping) else None
    if not isinstance(spec, Mapping) or not isinstance(taints, list):
        return dict(document)
    kept = [
        {key: value for key, value in taint.items() if key != "timeAdded"}
        for taint in taints
        if isinstance(taint, Mapping) and not _is_built_in(document, taint)
    ]
    others = {key: value for key, value in spec.items() if key != "taints"}
    return {**document, "spec": {**others, **({"taints": kept} if kept else {})}}


def as_shown(document: dict[str, Any], live: Mapping[str, Any]) -> dict[str, Any]:
    """Return a target that is declared anew, with the live one's built-in taints and the times of taints that stay."""
    spec, was = document.get("spec") or {}, live.get("spec") or {}
    before = [taint for taint in was.get("taints") or [] if isinstance(taint, Mapping)]
    times = {(taint.get("key"), taint.get("effect"), taint.get("value")): taint.get("timeAdded") for taint in before}
    taints = []
    for taint in spec.get("taints") or []:
        time = times.get((taint.get("key"), taint.get("effect"), taint.get("value")))
        taints.append({**taint, "timeAdded": time} if time and not taint.get("timeAdded") else taint)
    declared = {(taint.get("key"), taint.get("effect")) for taint in taints}
    taints += [
        taint
        for taint in before
        if _is_built_in(live, taint) and (taint.get("key"), taint.get("effect")) not in declared
    ]
    return {**document, "spec": {**spec, "taints": taints}} if taints else document


def _is_built_in(document: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    key, effect, value = (taint.get(name) or "" for name in ("key", "effect", "value"))
    if not (isinstance(key, str) and isinstance(effect, str) and isinstance(value, str)):
        return False
    return belongs_to_state(document, key, effect, value)


def difference(
    present: Iterable[Taint | TaintRecord],
    wanted: Iterable[Taint],
    known: Iterable[TaintWish],
    *,
    applied: int,
    now: datetime,
    actor: str,
) -> list[TaintWish]:
    """Return the taint edits in a submitted list, each with a generation higher than all that were ever used.

    Args:
        present: the list before: of a person, the taints that are shown; of a bridge, those that it has sent last.
        wanted: the submitted list.
        known: the taint edits in the target's record.
        applied: the highest generation of an edit that the taint-manager has applied.
        now: the time of edits of taints without a `timeAdded` of their own, and with one in the future.
        actor: the person.
    """
    before = {taint.identity: taint for taint in present}
    after = {taint.identity: taint for taint in wanted}
    edits = [Taint(key=key, effect=effect) for key, effect in before if (key, effect) not in after]
    removed = len(edits)
    for identity, taint in after.items():
        there = before.get(identity)
        if there is None:
            edits.append(taint)
        elif there.value != taint.value:
            # A changed taint gets a new time. A list that was read and sent back still contains the old one.
            is_old = taint.time_added == there.time_added
            edits.append(taint.model_copy(update={"time_added": None}) if is_old else taint)
    generation = max([applied, *(wish.generation for wish in known)])
    return [
        _wish(taint, generation + number, now, actor, present=number > removed)
        for number, taint in enumerate(edits, start=1)
    ]


def _wish(taint: Taint, generation: int, now: datetime, actor: str, *, present: bool = True) -> TaintWish:
    return TaintWish(
        key=taint.key,
        effect=taint.effect,
        value=taint.value,
        present=present,
        generation=generation,
        # With a clock that is ahead, work would stay for longer than it tolerates the taint, or for ever.
        time=min(taint.time_added or now, now),
        actor=actor,
    )


def with_defaults(
    wishes: Sequence[TaintWish], taints: Iterable[Taint], *, now: datetime, actor: str
) -> list[TaintWish]:
    """Return the taint edits of a new target, followed by those for its default taints."""
    generation = max((wish.generation for wish in wishes), default=0)
    return [*wishes, *(_wish(taint, generation + number, now, actor) for number, taint in enumerate(taints, start=1))]


def merged(known: Iterable[TaintWish], new: Iterable[TaintWish], applied: int) -> tuple[TaintWish, ...]:
    """Return the taint edits that a target's record contains from now on: the last one for each (key, effect).

    A removal that the taint-manager has applied (`applied`) has no further effect and is left out.
    """
    last = {(wish.key, wish.effect): wish for wish in (*known, *new)}
    kept = (wish for wish in last.values() if wish.present or wish.generation > applied)
    return tuple(sorted(kept, key=lambda wish: wish.generation))
