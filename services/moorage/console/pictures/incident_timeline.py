"""An incident on a time axis, with a lane for each kind of thing that happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from markupsafe import Markup

from moorage.console.pictures.canvas import bar, dot, label, line, picture, time_axis, time_place

MOST_POINTS: Final = 200
"""Points that are drawn of a lane."""

_ROW: Final = 34
_TOP: Final = 18


@dataclass(frozen=True, slots=True)
class TimelineBar:
    """Something that lasted."""

    kind: str
    """Its class in the style sheet."""

    start: datetime
    end: datetime
    text: str


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """Something that happened at once."""

    kind: str
    time: datetime
    text: str


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """A lane of the picture."""

    name: str
    bars: Sequence[TimelineBar] = ()
    points: Sequence[TimelinePoint] = ()


def incident_timeline(name: str, lanes: Sequence[TimelineLane], start: datetime, end: datetime) -> Markup:
    """Return the picture of an incident."""
    bottom = _TOP + _ROW * len(lanes)

    def place(when: datetime) -> float:
        return time_place(when, start, end)

    shapes = [time_axis(start, end, _TOP - 4, bottom)]
    for number, lane in enumerate(lanes):
        top = _TOP + _ROW * number
        count = len(lane.bars) + len(lane.points)
        shapes.append(label(f"{lane.name}: {count}" if lane.points else lane.name, 0, top + 11))
        shapes.append(line("grid", (0, top + 22), (1, top + 22)))
        shapes += [bar(one.kind, (place(one.start), place(one.end)), top + 17, 10, one.text) for one in lane.bars]
        shown = lane.points[:MOST_POINTS]
        shapes += [dot(one.kind, place(one.time), top + 22, 4.5, f"{one.time:%H:%M:%S} {one.text}") for one in shown]
    told = "; ".join(f"{lane.name}: {len(lane.bars) + len(lane.points)}" for lane in lanes)
    span = f"From {start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S}"
    return picture("incident", f"Incident of {name}", f"{span}. {told}.", bottom + 2, shapes)
