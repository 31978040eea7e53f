"""Prometheus metrics of webhooks."""

from __future__ import annotations

import contextlib

from prometheus_client import Counter, Gauge, Histogram

ATTEMPTS = Counter("moorage_webhook_attempts_total", "Attempts to send an event to a webhook", ["webhook", "outcome"])
SECONDS = Histogram("moorage_webhook_attempt_seconds", "Seconds that an attempt took", ["webhook"])
WAITING = Gauge("moorage_webhook_waiting", "Events that were read for a webhook and are not delivered yet", ["webhook"])
FAILING_SINCE = Gauge(
    "moorage_webhook_failing_since_seconds",
    "Unix time of the first failed attempt since the last success; 0 while attempts succeed",
    ["webhook"],
)


def forget(webhook: str) -> None:
    """Remove the series of a webhook that does not exist any more."""
    for outcome in ("delivered", "failed"):
        with contextlib.suppress(KeyError):
            ATTEMPTS.remove(webhook, outcome)
    for metric in (SECONDS, WAITING, FAILING_SINCE):
        with contextlib.suppress(KeyError):
            metric.remove(webhook)
