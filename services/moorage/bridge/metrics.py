"""Prometheus metrics of bridges."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

REQUESTS = Counter("moorage_bridge_requests_total", "Requests to the real cluster that were answered", ["verb", "code"])
MIRRORED = Counter("moorage_bridge_mirrored_total", "Objects that were sent to the gateway", ["outcome"])
REPORTED = Counter("moorage_bridge_reported_total", "Condition reports that were sent to the gateway", ["outcome"])
ACTS = Counter("moorage_bridge_acts_total", "Writes to the real cluster", ["act", "outcome"])
CONTRADICTED = Counter(
    "moorage_bridge_contradicted_total", "Writes to the real cluster that somebody else had undone before", ["act"]
)
EVENTS = Counter("moorage_bridge_events_total", "Events about objects of the real cluster", ["outcome"])
LINKED = Gauge("moorage_bridge_linked", "Whether the real cluster is seen: all lists are read, and watches are open")
LEADING = Gauge("moorage_bridge_leading", "Whether this process may write to the real cluster")
WAITING = Gauge("moorage_bridge_waiting", "What waits to be sent or done", ["queue"])
