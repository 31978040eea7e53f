"""The scores of targets, stacked by prioritizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from moorage.console.pictures.canvas import bar, label, picture

COLOURS: Final = 8
"""Colours of the style sheet. Further prioritizers begin again with the first."""

_ROW: Final = 34


@dataclass(frozen=True, slots=True)
class ScoreBar:
    """The scores of a target."""

    target: str
    total: float
    scores: Mapping[str, float]
    """By prioritizer, weighted."""

    is_chosen: bool = False


def score_stack(stacks: Sequence[ScoreBar], prioritizers: Sequence[str]) -> Markup:
    """Return the picture of the scores of targets, with a legend."""
    most = max((sum(max(0.0, score) for score in one.scores.values()) for one in stacks), default=0.0) or 1.0
    shapes: list[Markup] = []
    for number, one in enumerate(stacks):
        top, end = number * _ROW, 0.0
        chosen = ", chosen" if one.is_chosen else ""
        shapes.append(label(f"{one.target}: {one.total:g}{chosen}", 0, top + 12, "strong" if one.is_chosen else ""))
        for place, name in enumerate(prioritizers):
            score = max(0.0, one.scores.get(name, 0.0)) / most
            if score:
                tip = f"{name}: {one.scores[name]:g}"
                shapes.append(bar(f"c{place % COLOURS}", (end, end + score), top + 17, 11, tip))
            end += score
    top = len(stacks) * _ROW + 6
    for place, name in enumerate(prioritizers):
        shapes += [
            Markup('<rect class="c{}" x="0" y="{}" width="10" height="10"/>').format(place % COLOURS, top + 16 * place),
            Markup('<text class="small" x="16" y="{}">{}</text>').format(top + 9 + 16 * place, name),
        ]
    best = "; ".join(f"{one.target} {one.total:g}" for one in stacks[:3])
    description = f"Best first: {best}. Parts: {', '.join(prioritizers)}."
    return picture("stack", "Scores by prioritizer", description, top + 16 * len(prioritizers) + 2, shapes)
