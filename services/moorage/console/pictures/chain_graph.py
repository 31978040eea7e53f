"""The causes of an event as a graph: each event at its time, joined with the one that it caused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from moorage.console.pictures.canvas import NARROW, dot, label, line, picture, time_axis, time_place
from moorage.decide.kubernetes.durations import human

_ROW: Final = 30
_TOP: Final = 20
_SHORTEST: Final = timedelta(milliseconds=100)
_MARGIN: Final = 0.02
_PRECISE: Final = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class ChainLink:
    """An event of a chain."""

    what: str
    time: datetime | None
    """None if its record no longer exists, or if it is a service's clock."""


def chain_graph(about: str, causes: Sequence[ChainLink]) -> Markup:
    """Return the graph of a chain. An event without a time is at the time of the one before it."""
    times = [one.time for one in causes if one.time is not None]
    if not times:
        return Markup("")
    start = min(times)
    end = max(*times, start + _SHORTEST)
    shapes = [time_axis(start, end, _TOP - 4, _TOP + _ROW * len(causes))]
    at, before = start, None
    for number, one in enumerate(causes):
        top = _TOP + _ROW * number + 8
        at = max(at, one.time) if one.time is not None else at
        place = _MARGIN + (1 - 2 * _MARGIN) * time_place(at, start, end)
        if before is not None:
            shapes += [line("edge", before, (before[0], top)), line("edge", (before[0], top), (place, top))]
        before = place, top
        since = f" +{_duration(at - start)}" if number and at > start else ""
        # Beside the dot, on the side without the line to the cause.
        shapes.append(label(f"{one.what}{since}", place, top + 13 if place > NARROW else top + 4, shift=9))
        shapes.append(dot("event" if one.time is not None else "lost", place, top, 5, one.what))
    steps = ", then ".join(one.what for one in causes)
    took = _duration(max(times) - start)
    return picture("chain", f"Causes of {about}", f"{steps}. It took {took}.", _TOP + _ROW * len(causes) + 4, shapes)


def _duration(span: timedelta) -> str:
    """Return a duration, a short one to the millisecond."""
    return f"{span.total_seconds():.3g}s" if span < _PRECISE else human(span.total_seconds())
