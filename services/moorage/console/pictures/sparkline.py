"""A number over time, small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from moorage.console.pictures.canvas import label, picture

_HEIGHT: Final = 34
_WIDTH: Final = 240


@dataclass(frozen=True, slots=True)
class Series:
    """A number at the end of each of some equal spans of time. The last one ends now."""

    title: str
    values: Sequence[float]
    until: datetime
    step: timedelta

    @property
    def rows(self) -> list[tuple[datetime, float]]:
        """Times with their values, the newest first, those that are like the one before them left out."""
        times = [self.until - self.step * back for back in range(len(self.values))]
        newest = list(reversed(self.values))
        return [
            (when, value)
            for number, (when, value) in enumerate(zip(times, newest, strict=True))
            if number + 1 == len(newest) or newest[number + 1] != value
        ]


def sparkline(series: Series, kind: str) -> Markup:
    """Return the picture of a series."""
    top = max([*series.values, 1])
    count = max(len(series.values) - 1, 1)
    points = [
        (_WIDTH * number / count, _HEIGHT - 2 - (_HEIGHT - 6) * value / top)
        for number, value in enumerate(series.values)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    latest = series.values[-1] if series.values else 0
    drawn = Markup(
        '<svg y="14" width="100%" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">'
        '<polygon class="area" points="0,{} {} {},{}"/><polyline class="curve" points="{}"/></svg>'
    ).format(_HEIGHT, _WIDTH, _HEIGHT, _HEIGHT, path, _WIDTH, _HEIGHT, path)
    shapes = [label(f"at most {max(series.values, default=0):g}", 0, 11, "small"), label("now", 1, 11, "small"), drawn]
    minutes = (series.step * len(series.values)).total_seconds() / 60
    description = f"Now {latest:g}, at most {max(series.values, default=0):g} in the last {minutes:g} min."
    return picture(f"spark {kind}", series.title, description, 14 + _HEIGHT, shapes)
