"""Events as lines of text: time, topic, and event."""

from __future__ import annotations

from rich.text import Text

from moorage.apiserver.kinds.status.clusters import cluster_of
from moorage.cli.api.topics import Seen
from moorage.insight.explain.wording import local_clock, words

STYLES = {
    "condition-reports": "cyan",
    "conditions": "cyan",
    "taints": "yellow",
    "timers": "blue",
    "timer-fired": "blue",
    "evictions": "red",
    "eviction-requests": "red",
    "placements": "green",
    "bindings": "green",
    "workload-conditions": "cyan",
    "zones": "bright_yellow",
    "zone-grants": "bright_yellow",
    "zone-members": "bright_yellow",
    "eviction-asks": "bright_red",
    "eviction-answers": "bright_red",
    "eviction-slots": "bright_red",
    "budgets": "bright_red",
    "webhook-statuses": "magenta",
    "dead-letters": "magenta",
}
"""A colour for each topic."""


def line(seen: Seen, width: int) -> Text:
    """Return one event as a line: time, topic (padded to `width`), the cluster if it is of one, what happened."""
    style = STYLES.get(seen.topic.short, "white")
    when = seen.meta.time if seen.meta is not None and seen.meta.time is not None else seen.timestamp
    text = Text(no_wrap=True, overflow="ignore")
    text.append(local_clock(when), "dim")
    text.append(f"  {seen.topic.short:<{width}}  ", style)
    if cluster := cluster_of(seen.topic.short, seen.key):
        text.append(f"{cluster}: ", "dim")
    text.append(f"refused: {seen.wrong}" if seen.wrong else words(seen.key, seen.event))
    return text
