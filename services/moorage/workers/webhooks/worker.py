"""The webhook worker: follows the `Webhook` objects, and runs a subscription for each.

Consumes: the topics of the webhooks, and dead-letters for replays; each webhook in a consumer group of its own.
Keeps: nothing; the progress of a webhook is in the offsets of its group, and its status in webhook-statuses.
Emits: dead-letters, webhook-statuses.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from typing import Any, Final

import structlog
from aiokafka.errors import KafkaError
from typing_extensions import override

from moorage.runtime.kafka.clients.refusals import describe
from moorage.runtime.kafka.tables.global_tables import GlobalReader
from moorage.runtime.kafka.tables.offsets import Offsets
from moorage.runtime.kafka.tables.shared_reader import SharedReader
from moorage.runtime.process.clock import Clock, WallClock
from moorage.runtime.process.member import Behind, TaskMember
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.webhooks.deliveries import NAME
from moorage.workers.webhooks.status import DeliveryProgress, ReceiverGoneError
from moorage.workers.webhooks.status_writer import StatusWriter
from moorage.workers.webhooks.subscription import Subscriber, Subscription, forget
from moorage.workers.webhooks.view import Webhooks, generation_of
from moorage_schemas.resource import resource_key
from moorage_schemas.topics import RESOURCES, WEBHOOK_STATUSES

_log = structlog.get_logger(__name__)

_BACKOFF_FIRST, _BACKOFF_MAX = 0.5, 30.0
_TIMEOUT: Final = 5.0  # seconds that Kafka may take to return the ends of partitions


class WebhookWorker(TaskMember):
    """Runs the subscriptions until it is stopped.

    Args:
        settings: the address of Kafka, with the fleet's actual number of partitions.
        shared: reads for all views of the process. Without it, this worker has a reader of its own.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None, *, shared: SharedReader | None = None) -> None:
        super().__init__(NAME)
        self._settings = settings
        self._clock = clock or WallClock()
        self._view = Webhooks()
        self._changed = asyncio.Event()
        self._running: dict[Subscription, asyncio.Task[None]] = {}
        self._progress: dict[str, DeliveryProgress] = {}
        """The results of this worker's attempts, by the uid of the webhook."""

        self._writer = StatusWriter(self._settings, self._clock, self._view, self._progress)
        client_id = f"moorage-{NAME}-{uuid.uuid4().hex[:12]}"
        self._offsets = Offsets(settings, name=client_id)
        self._reader = GlobalReader(
            service=NAME,
            topics=(RESOURCES, WEBHOOK_STATUSES),
            view=self._view,
            settings=settings,
            partitions=settings.partitions,
            client_id=client_id,
            on_change=lambda _: self._changed.set(),
            on_failure=self._fail,
            shared=shared,
        )

    @property
    @override
    def ready(self) -> bool:
        return self._reader.sound

    @property
    @override
    def restored(self) -> object:
        return self._view if self.ready else None

    @property
    @override
    def idle(self) -> bool:
        return self._reader.caught_up.is_set()

    @property
    @override
    def lacks(self) -> str:
        return "has not read the webhooks"

    @property
    @override
    def moves(self) -> int:
        return self._reader.moves

    @override
    def report(self) -> dict[str, Any]:
        names = sorted({subscription.name for subscription in self._running})
        return {"ready": self.ready, "tables": round(self._reader.progress, 3), "webhooks": names}

    @override
    async def behind(self) -> Behind:
        try:
            async with asyncio.timeout(_TIMEOUT):
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
            self._writer.start(self._offsets)
            while not failure.done():
                self._changed.clear()
                await self._reconcile()
                await _either(self._changed, failure)
            failure.result()
        finally:
            await _cancel(self._running.values())
            self._running.clear()
            await self._writer.stop()
            await asyncio.gather(self._reader.stop(), self._offsets.stop(), return_exceptions=True)

    async def _start_offsets(self) -> None:
        while True:
            try:
                await self._offsets.start()
            except (KafkaError, OSError) as error:
                _log.warning("webhooks.not_connected", error=describe(error, self._settings))
                await asyncio.sleep(_BACKOFF_FIRST)
            else:
                return

    async def _reconcile(self) -> None:
        """Run all declared subscriptions, and no others."""
        wanted = self._view.subscriptions(self._clock.now())
        for subscription in [one for one, task in self._running.items() if task.done()]:
            del self._running[subscription]  # its receiver has answered 410 Gone
        obsolete = [subscription for subscription in self._running if subscription not in wanted]
        await _cancel([self._running.pop(subscription) for subscription in obsolete])
        for label in {one.label for one in obsolete} - {one.label for one in wanted}:
            forget(label)
        for subscription in wanted - self._running.keys():
            generation = generation_of(self._view.declared[_key_of(subscription)])
            self._running[subscription] = asyncio.create_task(
                self._subscribe(subscription, generation), name=f"webhook-{subscription.name}"
            )

    async def _subscribe(self, subscription: Subscription, generation: int) -> None:
        """Keep a subscription running. Its failure does not stop the others."""
        backoff = _BACKOFF_FIRST
        loop = asyncio.get_running_loop()
        progress = self._progress.setdefault(subscription.uid, DeliveryProgress())
        if subscription.replay is None:
            await self._writer.check_gap(subscription)
        while True:
            began = loop.time()
            try:
                await Subscriber(subscription, self._settings, self._clock, progress).run()
            except ReceiverGoneError:
                _log.error("webhook.disabled", webhook=subscription.name, why="the receiver answered 410 Gone")
                await self._writer.disable(_key_of(subscription), subscription.uid, generation)
                return
            except (KafkaError, OSError) as error:
                _log.warning("webhook.interrupted", webhook=subscription.name, error=describe(error, self._settings))
            except Exception:  # noqa: BLE001 - the others go on, and the traceback is logged
                _log.exception("webhook.failed", webhook=subscription.name)
            backoff = _BACKOFF_FIRST if loop.time() - began > _BACKOFF_MAX else min(backoff * 2, _BACKOFF_MAX)
            await asyncio.sleep(backoff)


def _key_of(subscription: Subscription) -> str:
    return resource_key("Webhook", "", subscription.name)


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
