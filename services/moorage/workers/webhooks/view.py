"""The `Webhook` objects and their statuses, as every worker follows them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

import structlog
from pydantic import ValidationError
from typing_extensions import override

from moorage.runtime.service import GlobalView, Input
from moorage.workers.webhooks.subscription import Subscription
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.webhook import Webhook, WebhookReplay
from moorage_schemas.times import parse_time
from moorage_schemas.topics import WEBHOOK_STATUSES, Topic
from moorage_schemas.webhook_status import WebhookStatusChanged

_log = structlog.get_logger(__name__)

_OLDEST_REPLAY: Final = timedelta(days=6)
"""The age from which a replay request is ignored. Kafka drops the offsets of an inactive group after seven days."""


class Webhooks(GlobalView):
    """The `Webhook` objects and their statuses."""

    def __init__(self) -> None:
        self.declared: dict[str, ResourceDeclared] = {}
        self.statuses: dict[str, WebhookStatusChanged] = {}

    @override
    def wants(self, topic: Topic, key: str) -> bool:
        return topic is WEBHOOK_STATUSES or key.startswith("Webhook/")

    @override
    def apply(self, record: Input) -> None:
        event = record.event
        if record.topic is WEBHOOK_STATUSES:
            if isinstance(event, WebhookStatusChanged):
                self.statuses[record.key] = event
            else:
                self.statuses.pop(record.key, None)
        elif isinstance(event, ResourceDeclared):
            self.declared[record.key] = event
        else:
            self.declared.pop(record.key, None)

    def is_disabled(self, key: str, declared: ResourceDeclared) -> bool:
        """Return whether the receiver of a webhook has answered 410 Gone, and its spec has not changed since."""
        known = self.statuses.get(key)
        return (
            known is not None
            and known.disabled_time is not None
            and (known.uid, known.generation) == (declared.uid, generation_of(declared))
        )

    def subscription(self, key: str) -> Subscription | None:
        """Return the subscription of a webhook, even if it is disabled; None if it cannot be read."""
        declared = self.declared.get(key)
        try:
            return _subscription(declared)[0] if declared is not None else None
        except (ValidationError, ValueError):
            return None

    def subscriptions(self, now: datetime) -> set[Subscription]:
        """Return all subscriptions. An object that cannot be read is logged and left out."""
        found = set()
        for key, declared in self.declared.items():
            if self.is_disabled(key, declared):
                continue
            try:
                subscription, replay = _subscription(declared)
            except (ValidationError, ValueError) as error:
                _log.error("webhook.invalid", webhook=key, why=str(error))
                continue
            found.add(subscription)
            if replay is not None and replay.until >= now - _OLDEST_REPLAY:
                found.add(replace(subscription, replay=replay))
        return found


def _subscription(declared: ResourceDeclared) -> tuple[Subscription, WebhookReplay | None]:
    """Return the subscription of a webhook, and its replay."""
    webhook = Webhook.model_validate(declared.object, extra="ignore")
    # A new replay request does not interrupt the sending.
    spec = webhook.spec.model_copy(update={"replay": None})
    return Subscription(declared.name, declared.uid, _created(declared), spec), webhook.spec.replay


def generation_of(declared: ResourceDeclared) -> int:
    """Return the `metadata.generation` of an object, which counts the changes of its spec."""
    found = declared.object.get("metadata", {}).get("generation")
    return found if isinstance(found, int) and found > 0 else 1


def _created(declared: ResourceDeclared) -> datetime:
    created = parse_time(str(declared.object.get("metadata", {}).get("creationTimestamp", "")))
    if not isinstance(created, datetime):
        raise ValueError("metadata.creationTimestamp: must be a time")  # noqa: TRY004 - the text is wrong, not its type
    return created
