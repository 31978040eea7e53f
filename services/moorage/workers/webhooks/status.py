"""The statuses of webhooks, for people and for other workers: the topic `webhook-statuses`.

Every worker notes the results of its own attempts, and adds them to the status that all of them have written. The later
times count. A disabled webhook stays disabled for its generation: if another worker overwrites that, the one that
disabled it writes it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from moorage.runtime.service import Emit, child_meta, source_name
from moorage.runtime.wire.codec import serialize
from moorage.workers.webhooks.deliveries import NAME, Written
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.topics import FLEET, RESOURCES, TOMBSTONE_RETENTION_MS, WEBHOOK_STATUSES
from moorage_schemas.webhook_status import WebhookStatusChanged

AGAIN: Final = timedelta(hours=1)
"""The time after which an unchanged status is written again, to show that a worker still reads for the webhook."""

DELETIONS_KEPT: Final = timedelta(milliseconds=TOMBSTONE_RETENTION_MS)
"""The time for which Kafka certainly keeps a deletion."""


class ReceiverGoneError(Exception):
    """The receiver has answered 410 Gone."""


@dataclass(slots=True)
class DeliveryProgress:
    """The results of this worker's attempts for a webhook."""

    last_success: datetime | None = None
    last_failure: datetime | None = None
    failing_since: datetime | None = None
    delivering_since: datetime | None = None
    failure: str = ""

    def succeeded(self, now: datetime) -> None:
        """Note an event that was accepted."""
        self.last_success = now
        self.failing_since = None
        self.delivering_since = self.delivering_since or now

    def failed(self, now: datetime, why: str) -> bool:
        """Note a failed attempt. Return whether it is the first one since the last success."""
        is_first = self.failing_since is None
        self.last_failure, self.failure = now, why
        self.failing_since = self.failing_since or now
        self.delivering_since = None
        return is_first


def status_of(
    uid: str,
    generation: int,
    progress: DeliveryProgress,
    known: WebhookStatusChanged | None,
    *,
    backlog: int,
    now: datetime,
    disabled: datetime | None = None,
    missed: datetime | None = None,
) -> WebhookStatusChanged:
    """Return the status of a webhook, from this worker's results and the last written status.

    Args:
        uid: of the webhook.
        generation: of the webhook.
        progress: the results of this worker's attempts.
        known: the last written status.
        backlog: the number of remaining records.
        now: the present time.
        disabled: when the receiver answered 410 Gone to this worker.
        missed: the time from which this worker has found that deletions may be missing.
    """
    former = known if known is not None and known.uid == uid else None
    same = former if former is not None and former.generation == generation else None
    success = _latest(progress.last_success, former.last_success_time if former else None)
    failure = _latest(progress.last_failure, former.last_failure_time if former else None)
    is_mine = failure is not None and failure == progress.last_failure
    failing = failure is not None and (success is None or failure > success)
    since = former.failing_since if former else None
    delivering = former.delivering_since if former else None
    return WebhookStatusChanged(
        uid=uid,
        generation=generation,
        last_success_time=success,
        last_failure_time=failure,
        failing_since=(since or progress.failing_since or failure) if failing else None,
        delivering_since=None if failing or success is None else delivering or progress.delivering_since or success,
        failure=progress.failure if is_mine else former.failure if former else "",
        disabled_time=disabled or (same.disabled_time if same else None),
        missed_since=missed or (same.missed_since if same else None),
        backlog=backlog,
        written_time=now,
    )


def is_news(status: WebhookStatusChanged, known: WebhookStatusChanged | None) -> bool:
    """Return whether a status must be written: it is new, or must be repeated."""
    if known is None or status.written_time - known.written_time >= AGAIN:
        return True
    return status.model_copy(update={"written_time": known.written_time}) != known


def missed_since(
    known: WebhookStatusChanged | None, uid: str, created: datetime, now: datetime, *, has_offsets: bool
) -> datetime | None:
    """Return the time from which deletions may be missing, because nothing read for so long; None for none.

    Args:
        known: the last written status.
        uid: of the webhook.
        created: when the webhook was created.
        now: the present time.
        has_offsets: whether Kafka still has the offsets of the webhook. It drops them after a week.
    """
    if known is not None and known.uid == uid:
        last = known.written_time
    elif has_offsets:  # from a version without statuses
        return None
    else:
        last = created
    return last if now - last > DELETIONS_KEPT else None


def record_of(key: str, status: WebhookStatusChanged | None, now: datetime) -> Written:
    """Return the record of a status, or the tombstone for a deleted webhook."""
    cause = Meta(event_id("webhook", key, now.isoformat()), source_name(NAME), RESOURCES.event_type)
    emit = Emit(WEBHOOK_STATUSES, key, FLEET, status, cause)
    meta = child_meta(emit, source=source_name(NAME), now=now)
    return FLEET, key.encode(), serialize(emit), to_headers(meta)


def _latest(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((time for time in (one, other) if time is not None), default=None)
