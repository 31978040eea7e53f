"""What a growth run says about a larger fleet and a year, with the times that Moorage has by default.

Two numbers of each topic are measured: the bytes of a record on disk, with its share of batches and markers, and the
records that are written in a second. Written records grow with the number of nodes, and all of them come six times as
fast in a run. A topic that deletes has all that was written in its retention and in one segment. A compacted topic has
the last record of each key, whose number also grows with the nodes, and all that was written since it was compacted. No
term grows with the time, so the sum after a year is that after 30 days, the longest retention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.growth_times import FASTER

from moorage_schemas.topics import COMPACTION_LAG_MS, TOPICS, Cleanup, Topic

NODES: Final = 5000


@dataclass(frozen=True, slots=True)
class Year:
    """A topic of the larger fleet after a year."""

    topic: str
    record_bytes: float
    per_second: float
    rows: float
    """The keys that are alive, of compacted topics."""

    total_bytes: float


def years(found: Mapping[str, Any]) -> list[Year]:
    """What follows for each topic, the largest first.

    Args:
        found: the record of a run.
    """
    series, scale = found["series"], NODES / found["nodes"]
    result = []
    for topic in TOPICS:
        written, kept = series.get(f"written/{topic.short}"), series.get(f"kept/{topic.short}")
        sizes = series.get(f"bytes/{topic.short}")
        if not written or not kept or not sizes or written[-1][1] == written[0][1]:
            continue
        compacted = topic.cleanup is Cleanup.COMPACT
        seconds = written[-1][0] - written[0][0]
        rate = (written[-1][1] - written[0][1]) / seconds * scale / FASTER
        rows = series.get(f"rows/{topic.short}", [(0, 0)])[-1][1] * scale if compacted else 0.0
        # Offsets of a compacted topic have gaps, so its records are those that a restore has read.
        count = series.get(f"records/{topic.short}", kept)[-1][1] if compacted else kept[-1][1]
        each = sizes[-1][1] / max(count, 1)
        result.append(Year(topic.short, each, rate, rows, each * (rows + rate * _period(topic))))
    return sorted(result, key=lambda one: -one.total_bytes)


def _period(topic: Topic) -> float:
    """Seconds for which a record is kept whatever its key: its retention, or the time until it is compacted."""
    if topic.cleanup is Cleanup.DELETE:
        return (topic.retention_ms + topic.segments.ms) / 1000
    return (COMPACTION_LAG_MS + topic.segments.compaction_ms + topic.segments.ms) / 1000


def table(found: Mapping[str, Any]) -> str:
    """The result as a Markdown table."""
    lines = [
        f"| topic | bytes a record | records a second, {NODES:,} nodes | keys | GB after a year |",
        "|---|---:|---:|---:|---:|",
    ]
    found_years = years(found)
    for one in found_years:
        size = f"{one.total_bytes / 1e9:,.3f}"
        rows = f"{one.rows:,.0f}" if one.rows else ""
        lines.append(f"| {one.topic} | {one.record_bytes:,.0f} | {one.per_second:,.2f} | {rows} | {size} |")
    lines.append(f"| all | | | | {sum(one.total_bytes for one in found_years) / 1e9:,.1f} |")
    return "\n".join(lines)
