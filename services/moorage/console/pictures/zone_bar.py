"""A zone as a bar: its nodes that are not ready against the threshold, its token, and its queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from moorage.console.pictures.canvas import bar, dot, label, line, picture

MOST_WAITING: Final = 20
"""Dots of the queue. A number stands for the others."""

_QUEUE_AT: Final = 0.5


@dataclass(frozen=True, slots=True)
class ZoneGauge:
    """The numbers of a zone."""

    nodes: int
    not_ready: int
    threshold: float | None
    """The part of its nodes, 0 to 1, from which it is in partial disruption. None if it is not known."""

    tokens: float | None
    """Tokens, 0 to 1. None if the rate has no limit."""

    rate: str
    waiting: int
    granted: int


def zone_bar(name: str, zone: ZoneGauge) -> Markup:
    """Return the picture of a zone."""
    part = zone.not_ready / zone.nodes if zone.nodes else 0.0
    shapes = [bar("rest", (0, 1), 18, 14)]
    if zone.not_ready:
        shapes.append(bar("bad", (0, part), 18, 14, f"{zone.not_ready} not ready"))
    shapes.append(label(f"{zone.not_ready} of {zone.nodes} not ready", 0, 12))
    if zone.threshold is not None:
        shapes += [
            line("limit", (zone.threshold, 4), (zone.threshold, 36)),
            label(f"{zone.threshold:.0%}", zone.threshold, 12, "small", shift=4),
        ]
    tokens = 1.0 if zone.tokens is None else min(1.0, max(0.0, zone.tokens))
    shapes += [
        label("Token" if zone.tokens is not None else "Tokens without limit", 0, 54),
        bar("rest", (0, _QUEUE_AT - 0.06), 60, 8),
        bar("token", (0, tokens * (_QUEUE_AT - 0.06)), 60, 8, f"{tokens:.0%} of a token, {zone.rate}"),
        Markup('<text x="{:g}%" y="54">{}</text>').format(100 * _QUEUE_AT, f"{zone.waiting} waiting"),
    ]
    shown = min(zone.waiting, MOST_WAITING)
    shapes += [dot("queued", _QUEUE_AT + 0.02 + number * 0.023, 64, 3.5) for number in range(shown)]
    if not zone.waiting:
        shapes.append(bar("rest", (_QUEUE_AT, 1), 63, 2))
    limit = "" if zone.threshold is None else f" The threshold of partial disruption is {zone.threshold:.0%}."
    told = "no limit" if zone.tokens is None else f"{tokens:.0%} of a token"
    description = (
        f"{zone.not_ready} of {zone.nodes} nodes are not ready.{limit} "
        f"Rate {zone.rate or 'none'}, {told}; {zone.granted} granted, {zone.waiting} waiting."
    )
    return picture("zone-bar", f"Zone {name}", description, 72, shapes)
