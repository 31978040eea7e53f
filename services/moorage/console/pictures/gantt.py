"""Evictions on a time axis: from the taint to the deadline, hatched while held, and to the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from moorage.console.pictures.canvas import bar, dot, label, line, picture, time_axis, time_place

MOST: Final = 40
"""Rows of a picture."""

_NAMED: Final = 5
"""Evictions that the description names."""

_ROW: Final = 30
_TOP: Final = 18
_SHORTEST: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class EvictionSpan:
    """An eviction in time."""

    workload: str
    target: str
    state: str
    start: datetime
    """When the taint was set for which the workload leaves, or when the eviction was decided."""

    due: datetime | None
    """Its deadline. None without one."""

    ended: datetime | None
    """When it was completed or cancelled. None while it is open."""

    requested: datetime | None = None


def gantt(evictions: Sequence[EvictionSpan], now: datetime) -> Markup:
    """Return the picture of evictions, at most `MOST` of them."""
    rows = evictions[:MOST]
    times = [time for one in rows for time in (one.start, one.due, one.ended) if time is not None]
    start, end = min(times, default=now), max([*times, now])
    end = max(end, start + _SHORTEST) + (end - start) / 50
    bottom = _TOP + _ROW * len(rows)
    shapes = [time_axis(start, end, _TOP - 4, bottom)]
    for number, one in enumerate(rows):
        shapes += _row(one, _TOP + _ROW * number, start, end, now)
    here = time_place(now, start, end)
    shapes.append(line("now", (here, _TOP - 4), (here, bottom)))
    states = ", ".join(f"{one.workload} from {one.target}: {one.state}" for one in rows[:_NAMED])
    more = f", and {len(evictions) - _NAMED} more" if len(evictions) > _NAMED else ""
    return picture("gantt", "Evictions over time", f"{states}{more}. The vertical line is now.", bottom + 2, shapes)


def _row(one: EvictionSpan, top: float, start: datetime, end: datetime, now: datetime) -> list[Markup]:
    def place(when: datetime) -> float:
        return time_place(when, start, end)

    last = one.ended or now
    due = one.due or one.requested or last
    kind = "gone" if one.state == "Cancelled" else "wait"
    shapes = [
        label(f"{one.workload} from {one.target}: {one.state}", 0, top + 11),
        bar(
            kind, (place(one.start), place(min(due, one.ended or due))), top + 16, 9, f"scheduled until {due:%H:%M:%S}"
        ),
    ]
    held_until = one.requested or last
    if one.state == "Held" or (one.requested is not None and one.requested > due):
        shapes.append(bar("held", (place(due), place(held_until)), top + 16, 9, f"held since {due:%H:%M:%S}"))
        shapes.append(bar("hatched", (place(due), place(held_until)), top + 16, 9))
    if one.requested is not None and one.state != "Cancelled":
        tip = f"requested {one.requested:%H:%M:%S}"
        shapes.append(bar("leaves", (place(one.requested), place(last)), top + 16, 9, tip))
    if one.due is not None:
        shapes.append(line("due", (place(one.due), top + 13), (place(one.due), top + 28)))
    if one.ended is not None:
        shapes.append(dot("done" if one.state == "Completed" else "gone", place(one.ended), top + 20.5, 4.5))
    return shapes
