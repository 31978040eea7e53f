"""The webhook worker: follows the `Webhook` objects, and runs a subscription for each.

Consumes: the topics that the webhooks name, and dead-letters for replays; each webhook in a consumer group of its own.
Keeps: nothing; what a webhook has got is in the offsets of its group.
Emits: dead-letters.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaError
from pydantic import ValidationError

from moorage.runtime.clock import Clock, WallClock
from moorage.runtime.kafka.consumer_lag import Behind
from moorage.runtime.kafka.global_tables import GlobalReader
from moorage.runtime.kafka.offsets import Offsets
from moorage.runtime.kafka.refusals import told
from moorage.runtime.member import TaskMember
from moorage.runtime.service import GlobalView, Input
from moorage.runtime.settings import Settings
from moorage.webhooks.letters import NAME
from moorage.webhooks.metrics import forget
from moorage.webhooks.subscription import Subscriber, Subscription
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.webhook import Webhook
from moorage_schemas.times import parse_time
from moorage_schemas.topics import RESOURCES, Topic

_log = structlog.get_logger(__name__)

_BACKOFF_FIRST, _BACKOFF_MAX = 0.5, 30.0
_ASKING: Final = 5.0  # seconds that Kafka may take to return the ends of partitions
_OLDEST_REPLAY: Final = timedelta(days=6)
"""Older requests are over. Kafka forgets after seven days what a group that is not there any more had read."""


class Webhooks(GlobalView):
    """The `Webhook` objects."""

    def __init__(self) -> None:
        self.declared: dict[str, ResourceDeclared] = {}

    def wants(self, topic: Topic, key: str) -> bool:  # noqa: ARG002 - there is one topic
        """See `GlobalView`."""
        return key.startswith("Webhook/")

    def apply(self, record: Input) -> None:
        """See `GlobalView`."""
        if isinstance(record.event, ResourceDeclared):
            self.declared[record.key] = record.event
        else:
            self.declared.pop(record.key, None)

    def subscriptions(self, now: datetime) -> set[Subscription]:
        """Return what has to be sent. An object that cannot be read is logged and left out."""
        found = set()
        for key, declared in self.declared.items():
            try:
                webhook = Webhook.model_validate(declared.object, extra="ignore")
                created = _created(declared)
            except (ValidationError, ValueError) as error:
                _log.error("webhook.invalid", webhook=key, why=str(error))
                continue
            # A new request for a replay does not interrupt what is sent.
            spec = webhook.spec.model_copy(update={"replay": None})
            found.add(Subscription(declared.name, declared.uid, created, spec))
            replay = webhook.spec.replay
            if replay is not None and replay.until >= now - _OLDEST_REPLAY:
                found.add(Subscription(declared.name, declared.uid, created, spec, replay))
        return found


def _created(declared: ResourceDeclared) -> datetime:
    created = parse_time(str(declared.object.get("metadata", {}).get("creationTimestamp", "")))
    if not isinstance(created, datetime):
        raise ValueError("metadata.creationTimestamp: must be a time")  # noqa: TRY004 - the text is wrong, not its type
    return created


class WebhookWorker(TaskMember):
    """Runs the subscriptions until it is stopped. See `Member`.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        clock: the source of the time.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        super().__init__(NAME)
        self._settings = settings
        self._clock = clock or WallClock()
        self._view = Webhooks()
        self._changed = asyncio.Event()
        self._running: dict[Subscription, asyncio.Task[None]] = {}
        client_id = f"moorage-{NAME}-{uuid.uuid4().hex[:12]}"
        self._offsets = Offsets(settings, name=client_id)
        self._reader = GlobalReader(
            service=NAME,
            topics=(RESOURCES,),
            view=self._view,
            settings=settings,
            partitions=settings.partitions,
            client_id=client_id,
            on_change=lambda _: self._changed.set(),
            on_failure=self._fail,
        )

    @property
    def ready(self) -> bool:
        """Whether it knows the webhooks."""
        return self._reader.sound

    @property
    def restored(self) -> object:
        """See `Member`."""
        return self._view if self.ready else None

    @property
    def idle(self) -> bool:
        """Whether it has read the webhooks once."""
        return self._reader.caught_up.is_set()

    @property
    def lacks(self) -> str:
        """See `Member`."""
        return "has not read the webhooks"

    @property
    def moves(self) -> int:
        """A value that changes with each step of the first reading."""
        return self._reader.moves

    def report(self) -> dict[str, Any]:
        """Return the progress of reading, and the webhooks."""
        names = sorted({subscription.name for subscription in self._running})
        return {"ready": self.ready, "tables": round(self._reader.progress, 3), "webhooks": names}

    async def behind(self) -> Behind:
        """Return the partitions of which Kafka has more than has been read. Empty if it does not answer."""
        try:
            async with asyncio.timeout(_ASKING):
                ends = await self._offsets.stable(self._reader.followed)
                return Behind(tables=await self._reader.behind(ends))
        except (KafkaError, TimeoutError, OSError, RuntimeError):  # no answer, or it is starting
            return Behind()

    def _fail(self, error: BaseException) -> None:
        if self._failure is not None and not self._failure.done():
            self._failure.set_exception(error)

    async def _run(self, failure: asyncio.Future[None]) -> None:
        try:
            await self._start_offsets()
            self._reader.start()
            await _either(self._reader.caught_up, failure)
            while not failure.done():
                self._changed.clear()
                await self._reconcile()
                await _either(self._changed, failure)
            failure.result()
        finally:
            await _cancel(self._running.values())
            self._running.clear()
            await asyncio.gather(self._reader.stop(), self._offsets.stop(), return_exceptions=True)

    async def _start_offsets(self) -> None:
        while True:
            try:
                await self._offsets.start()
            except (KafkaError, OSError) as error:
                _log.warning("webhooks.not_connected", error=told(error, self._settings))
                await asyncio.sleep(_BACKOFF_FIRST)
            else:
                return

    async def _reconcile(self) -> None:
        """Run what is declared, and nothing else."""
        wanted = self._view.subscriptions(self._clock.now())
        gone = [subscription for subscription in self._running if subscription not in wanted]
        await _cancel([self._running.pop(subscription) for subscription in gone])
        for label in {one.label for one in gone} - {one.label for one in wanted}:
            forget(label)
        for subscription in wanted - self._running.keys():
            self._running[subscription] = asyncio.create_task(
                self._subscribe(subscription), name=f"webhook-{subscription.name}"
            )

    async def _subscribe(self, subscription: Subscription) -> None:
        """Keep a subscription running. What fails for one does not stop the others."""
        backoff = _BACKOFF_FIRST
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await Subscriber(subscription, self._settings, self._clock).run()
            except (KafkaError, OSError) as error:
                _log.warning("webhook.interrupted", webhook=subscription.name, error=told(error, self._settings))
            except Exception:  # noqa: BLE001 - the others go on, and the traceback is logged
                _log.exception("webhook.failed", webhook=subscription.name)
            backoff = _BACKOFF_FIRST if loop.time() - began > _BACKOFF_MAX else min(backoff * 2, _BACKOFF_MAX)
            await asyncio.sleep(backoff)


async def _either(event: asyncio.Event, failure: asyncio.Future[None]) -> None:
    """Wait for an event, or a failure."""
    waiter = asyncio.create_task(event.wait())
    futures: set[asyncio.Future[Any]] = {waiter, failure}
    try:
        await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
