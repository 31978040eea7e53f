"""Shapes of pictures. Places are fractions of the width, 0 to 1, and pixels of the height.

A picture is as wide as its place, and its texts keep their size, so it is as readable in a narrow window as in a wide
one. Colours are classes of the style sheet, which has them for light and dark. Texts are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

NARROW: Final = 0.45
"""Texts that begin to the right of this part of the width end there instead, so that they stay inside."""

_TICKS: Final = tuple(
    timedelta(seconds=seconds)
    for seconds in (1, 5, 15, 60, 300, 900, 1_800, 3_600, 3 * 3_600, 6 * 3_600, 86_400, 7 * 86_400)
)
_MOST_TICKS: Final = 5


def picture(kind: str, title: str, description: str, height: float, shapes: Iterable[Markup]) -> Markup:
    """Return a picture with its title and its description for people who cannot see it."""
    return Markup(
        '<svg class="picture {}" role="img" aria-label="{}" width="100%" height="{:g}"><desc>{}</desc>{}</svg>'
    ).format(kind, f"{title}. {description}", height, description, Markup("").join(shapes))


def bar(kind: str, span: tuple[float, float], top: float, height: float, tip: str = "") -> Markup:
    """Return a bar from one place to another. It is at least a little wide, so that it can be seen."""
    left, right = map(inside, span)
    width = max(right - left, 0.003)
    return Markup('<rect class="{}" x="{}" y="{:g}" width="{}" height="{:g}">{}</rect>').format(
        kind, _percent(min(left, 1 - width)), top, _percent(width), height, _tip(tip)
    )


def line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> Markup:
    """Return a line between two points."""
    return Markup('<line class="{}" x1="{}" y1="{:g}" x2="{}" y2="{:g}"/>').format(
        kind, _percent(inside(start[0])), start[1], _percent(inside(end[0])), end[1]
    )


def dot(kind: str, place: float, top: float, radius: float, tip: str = "") -> Markup:
    """Return a dot."""
    return Markup('<circle class="{}" cx="{}" cy="{:g}" r="{:g}">{}</circle>').format(
        kind, _percent(inside(place)), top, radius, _tip(tip)
    )


def label(text: str, place: float, top: float, kind: str = "", *, shift: float = 0) -> Markup:
    """Return a text whose line is at `top`. To the right of the middle, it ends at its place."""
    at_end = place > NARROW
    return Markup('<text class="{}" x="{}" dx="{:g}" y="{:g}" text-anchor="{}">{}</text>').format(
        kind, _percent(inside(place)), -shift if at_end else shift, top, "end" if at_end else "start", text
    )


def inside(place: float) -> float:
    """Return a place that is not outside of the picture."""
    return min(1.0, max(0.0, place))


def time_place(when: datetime, start: datetime, end: datetime) -> float:
    """Return the place of a time in a span. It may be outside."""
    span = (end - start).total_seconds()
    return (when - start).total_seconds() / span if span > 0 else 0.0


def time_axis(start: datetime, end: datetime, top: float, bottom: float) -> Markup:
    """Return lines at round times of a span, with the times above them."""
    span = end - start
    step = next((one for one in _TICKS if span / one <= _MOST_TICKS), _TICKS[-1])
    form = "%H:%M:%S" if step < timedelta(minutes=1) else "%H:%M" if step < timedelta(days=1) else "%m-%d"
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    tick = midnight + step * -(-(start - midnight) // step)
    shapes: list[Markup] = []
    while tick <= end and len(shapes) <= 2 * _MOST_TICKS:
        place = time_place(tick, start, end)
        shapes += [line("grid", (place, top), (place, bottom)), label(f"{tick:{form}}", place, top - 3, "small")]
        tick += step
    return Markup("").join(shapes)


def _percent(place: float) -> str:
    return f"{100 * place:.2f}%"


def _tip(text: str) -> Markup:
    return Markup("<title>{}</title>").format(text) if text else Markup("")
