"""Workloads by cluster, with the replicas of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from markupsafe import Markup

from moorage.console.pictures.canvas import bar, picture

MOST_CLUSTERS: Final = 12
MOST_WORKLOADS: Final = 40

_ROW: Final = 36


def matrix(workloads: Sequence[tuple[str, Mapping[str, int]]], clusters: Sequence[str]) -> Markup:
    """Return the picture of workloads with their replicas by cluster. 0 replicas stand for the whole workload."""
    rows, columns = workloads[:MOST_WORKLOADS], clusters[:MOST_CLUSTERS]
    width = 100 / max(1, len(columns))
    most = max((count for _, placed in rows for count in placed.values()), default=0) or 1
    shapes: list[Markup] = []
    for number, name in enumerate(columns):
        shapes.append(_text(name, width * number, 12, "small"))
    for row, (name, placed) in enumerate(rows):
        top = 18 + row * _ROW
        shapes.append(_text(name, 0, top + 12, ""))
        for number, cluster in enumerate(columns):
            count = placed.get(cluster)
            level = "rest" if count is None else f"l{1 + (3 * (count or most)) // most}"
            tip = f"{name} on {cluster}: {'no' if count is None else count or 'all'} replicas"
            shapes.append(bar(level, (width * number / 100, (width * (number + 1) - 0.6) / 100), top + 16, 14, tip))
            if count is not None:
                shapes.append(_text(str(count or "all"), width * number + 0.6, top + 27, "small inside"))
    described = f"{len(workloads)} workloads on {len(clusters)} clusters."
    return picture("matrix", "Placements by cluster", described, 18 + _ROW * len(rows) + 2, shapes)


def _text(text: str, left: float, top: float, kind: str) -> Markup:
    return Markup('<text class="{}" x="{:.2f}%" y="{}">{}</text>').format(kind, left, top, text)
