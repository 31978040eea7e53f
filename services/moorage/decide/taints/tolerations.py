"""Explains taints as text: which toleration counts for each taint, until when, and which tolerations almost match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from moorage.decide.taints.dialects.kubernetes import EffectRules
from moorage.decide.taints.eviction_verdict import Tolerated, deadline_of, taint_text
from moorage.decide.taints.matching import first_match, tolerates
from moorage_schemas.taint import Taint, Toleration
from moorage_schemas.times import format_time


@dataclass(frozen=True, slots=True)
class JudgedTaint:
    """One taint of a target, compared with a workload's tolerations."""

    taint: Taint
    keeps_away: bool
    """Whether the taint rules the target out if nothing tolerates it."""

    evicts: bool
    """Whether the taint evicts running work if nothing tolerates it."""

    toleration: Toleration | None
    """The first toleration that matches, which is the one that counts. None if none matches."""

    until: datetime | None = None
    """When the toleration ends for running work. None if it has no end, or if the effect does not evict."""

    near: tuple[str, ...] = ()
    """Tolerations of the same key that do not match, each with the reason."""

    def __str__(self) -> str:
        """Return the taint and how it is tolerated."""
        taint = taint_text(self.taint)
        if self.toleration is None:
            near = f" ({'; '.join(self.near)})" if self.near else ""
            return f"nothing tolerates {taint}{near}"
        ends = f", until {format_time(self.until)}" if self.until is not None else ""
        return f"{taint} is tolerated by {{{toleration_text(self.toleration)}}}{ends}"


def judge_taints(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], dialect: EffectRules, *, seen_at: datetime | None = None
) -> tuple[JudgedTaint, ...]:
    """Return each taint with the toleration that counts for it.

    Args:
        taints: the target's taints.
        tolerations: the workload's tolerations, in their order.
        dialect: defines which effects filter and which evict.
        seen_at: the start of the tolerated time for a taint without `timeAdded`.
    """
    found = []
    for taint in taints:
        toleration = first_match(taint, tolerations)
        evicts = taint.effect in dialect.evicting
        until = None
        if toleration is not None and evicts and (taint.time_added or seen_at) is not None:
            until = deadline_of(Tolerated(taint, toleration), seen_at=seen_at)
        near = () if toleration is not None else tuple(near_misses(taint, tolerations))
        found.append(JudgedTaint(taint, taint.effect in dialect.filtering, evicts, toleration, until, near))
    return tuple(found)


def toleration_text(toleration: Toleration) -> str:
    """Return a toleration on one line, as kubectl shows it: `key=value:Effect op=Exists for 300s`."""
    text = toleration.key + (f"={toleration.value}" if toleration.value else "")
    if toleration.effect:
        text += f":{toleration.effect}"
    if toleration.operator and (toleration.operator != "Equal" or not toleration.value):
        text += f" op={toleration.operator}"
    seconds = toleration.toleration_seconds
    return (text + (f" for {seconds}s" if seconds is not None else "")).strip()


def near_misses(taint: Taint, tolerations: Iterable[Toleration]) -> Iterable[str]:
    """Yield the tolerations of a taint's key that do not match it, each with the reason."""
    for one in tolerations:
        if one.key != taint.key or tolerates(one, taint):
            continue
        if one.effect and one.effect != taint.effect:
            wrong = f"is for {one.effect} only"
        elif one.operator in {"Gt", "Lt"}:
            wrong = f"requires a value {'above' if one.operator == 'Gt' else 'below'} {one.value}"
        else:
            wrong = f"requires the value {one.value!r}"
        yield f"{{{toleration_text(one)}}} {wrong}"
