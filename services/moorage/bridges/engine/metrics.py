"""Prometheus metrics of what bridges send and write."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

MIRRORED = Counter("moorage_bridge_mirrored_total", "Objects that were sent to the gateway", ["outcome"])
REPORTED = Counter("moorage_bridge_reported_total", "Condition reports that were sent to the gateway", ["outcome"])
ACTS = Counter("moorage_bridge_acts_total", "Writes to the real cluster", ["act", "outcome"])
CONTRADICTED = Counter(
    "moorage_bridge_contradicted_total", "Writes to the real cluster that another controller had undone before", ["act"]
)
EVENTS = Counter("moorage_bridge_events_total", "Events about objects of the real cluster", ["outcome"])
SKIPPED = Counter("moorage_bridge_skipped_total", "Parts of the real cluster that Moorage cannot carry", ["what"])
LINKED = Gauge(
    "moorage_bridge_linked", "Whether the real cluster is connected: all lists are read, and watches are open"
)
WAITING = Gauge("moorage_bridge_waiting", "Items to be sent or done", ["queue"])
