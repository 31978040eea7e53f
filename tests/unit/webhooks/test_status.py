"""How a webhook fares, as several workers write it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from moorage.workers.webhooks.status import AGAIN, DELETIONS_KEPT, DeliveryProgress, is_news, missed_since, status_of
from moorage_schemas.webhook_status import WebhookStatusChanged

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def write(
    progress: DeliveryProgress, known: WebhookStatusChanged | None = None, seconds: float = 100, **parts: Any
) -> WebhookStatusChanged:
    options: dict[str, Any] = {"uid": "u", "generation": 1, "backlog": 0} | parts
    return status_of(progress=progress, known=known, now=at(seconds), **options)


def test_the_first_failure_and_the_first_success_after_it_count() -> None:
    progress = DeliveryProgress()
    assert progress.failed(at(1), "refused")
    assert not progress.failed(at(2), "hangs")
    status = write(progress)
    assert (status.failing_since, status.last_failure_time, status.failure) == (at(1), at(2), "hangs")
    assert status.delivering_since is None
    progress.succeeded(at(3))
    progress.succeeded(at(4))
    status = write(progress, status)
    assert (status.failing_since, status.delivering_since, status.last_success_time) == (None, at(3), at(4))
    assert status.last_failure_time == at(2)


def test_the_later_times_of_all_workers_count() -> None:
    one, other = DeliveryProgress(), DeliveryProgress()
    one.succeeded(at(1))
    other.failed(at(5), "refused")
    status = write(other, write(one))
    assert (status.last_success_time, status.failing_since, status.failure) == (at(1), at(5), "refused")
    one.succeeded(at(7))
    status = write(one, status)
    assert (status.failing_since, status.delivering_since, status.failure) == (None, at(1), "refused")
    assert write(other, status).last_success_time == at(7)


def test_a_webhook_stays_disabled_until_its_spec_changes() -> None:
    status = write(DeliveryProgress(), disabled=at(3))
    assert write(DeliveryProgress(), status).disabled_time == at(3)
    assert write(DeliveryProgress(), status, generation=2).disabled_time is None
    assert write(DeliveryProgress(), status, uid="another").disabled_time is None


def test_a_status_is_written_when_it_says_something_and_once_an_hour() -> None:
    status = write(DeliveryProgress())
    assert is_news(status, None)
    assert not is_news(write(DeliveryProgress(), status, seconds=200), status)
    assert is_news(write(DeliveryProgress(), status, seconds=200, backlog=1), status)
    assert is_news(write(DeliveryProgress(), status, seconds=100 + AGAIN.total_seconds()), status)


@pytest.mark.parametrize(
    ("known", "has_offsets", "created", "found"),
    [
        (None, False, T0, None),
        (None, False, T0 - DELETIONS_KEPT - timedelta(hours=2), T0 - DELETIONS_KEPT - timedelta(hours=2)),
        (None, True, T0 - timedelta(days=90), None),
        (T0 - timedelta(days=6), True, T0 - timedelta(days=90), None),
        (T0 - timedelta(days=8), False, T0 - timedelta(days=90), T0 - timedelta(days=8)),
        (T0 - timedelta(days=8), True, T0 - timedelta(days=90), T0 - timedelta(days=8)),
    ],
)
def test_deletions_are_missed_after_a_long_standstill(
    known: datetime | None, created: datetime, found: datetime | None, *, has_offsets: bool
) -> None:
    status = None if known is None else WebhookStatusChanged(uid="u", generation=1, written_time=known)
    assert missed_since(status, "u", created, T0, has_offsets=has_offsets) == found
