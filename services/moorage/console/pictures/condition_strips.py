"""The conditions of a target in the last day, with heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from moorage.console.pictures.canvas import bar, label, line, picture, time_axis, time_place

SPAN: Final = timedelta(hours=24)

_ROW: Final = 32
_TOP: Final = 18
_KINDS: Final = {"True": "yes", "False": "no"}


@dataclass(frozen=True, slots=True)
class EarlierStatus:
    """A status that a condition has had."""

    status: str
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class ConditionStrip:
    """A condition with its last transition, and earlier statuses as far as they are kept."""

    type: str
    status: str
    since: datetime | None
    heartbeat: datetime | None
    """When it was reported last."""

    earlier: Sequence[EarlierStatus] = ()


def condition_strips(conditions: Sequence[ConditionStrip], now: datetime) -> Markup:
    """Return the picture of conditions. Times of which no status is kept are hatched."""
    start, bottom = now - SPAN, _TOP + _ROW * len(conditions)
    shapes = [time_axis(start, now, _TOP - 4, bottom)]
    for number, one in enumerate(conditions):
        top = _TOP + _ROW * number
        begin = max(start, min(one.since, now)) if one.since is not None else now
        place = time_place(begin, start, now)
        tip = f"{one.type} is {one.status}" + (f" since {one.since:%Y-%m-%d %H:%M:%S}" if one.since else "")
        shapes.append(label(f"{one.type}: {one.status}", 0, top + 12))
        if place > 0:
            shapes += [
                bar("rest", (0, place), top + 17, 10),
                bar("unrecorded", (0, place), top + 17, 10, "not recorded"),
            ]
        for past in one.earlier:
            if past.until > start:
                span = (time_place(past.since, start, now), time_place(past.until, start, now))
                told = f"{one.type} was {past.status} from {past.since:%H:%M:%S} to {past.until:%H:%M:%S}"
                shapes.append(bar(_KINDS.get(past.status, "unknown"), span, top + 17, 10, told))
        shapes.append(bar(_KINDS.get(one.status, "unknown"), (place, 1), top + 17, 10, tip))
        if one.heartbeat is not None and one.heartbeat >= start:
            at = time_place(one.heartbeat, start, now)
            shapes.append(line("due", (at, top + 14), (at, top + 29)))
    told = ", ".join(f"{one.type} is {one.status}" for one in conditions)
    return picture("strips", "Conditions of the last day", f"{told}. A tick is the last report.", bottom + 2, shapes)
