"""A probe: reports conditions of targets, and repeats them, so that Moorage knows that it is still there."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.times import format_time
from moorage_sdk.backoff import Backoff
from moorage_sdk.errors import PartlySentError, Refusal, TransportError
from moorage_sdk.outbox import ConditionId, Outbox, Report, condition_of
from moorage_sdk.senders import Sender, sender_of
from moorage_sdk.settings import Connection

_log = logging.getLogger(__name__)

HEARTBEAT = 10.0
"""Seconds after which a condition is reported again: a quarter of the default grace period of a source."""

BUFFER = 10_000
"""The number of reports that may wait while Moorage cannot be reached."""

_BATCH = 500
_TICK = timedelta(microseconds=1)
_UNKNOWN_TARGET_BEATS = 6  # a target that is not declared is tried again, but seldom

RefusalHandler = Callable[[Refusal], Awaitable[None] | None]
"""Called with each report that does not count."""


@dataclass(slots=True)
class _Known:
    """The last report of a condition."""

    event: ConditionReported
    made: float
    """The time of the loop at which it was last reported."""

    skip: int = 0
    """How many heartbeats are left out, because the target is not declared."""


class Probe:
    """Reports conditions from one source.

        async with Probe("probe/disk") as probe:
            await probe.report("Node/n1", "DiskPressure", "True", reason="DiskFull")

    Reports are sent in batches by a task of the probe. If Moorage cannot be reached they wait, and are tried again with
    growing pauses. Of the reports that wait, at most `buffer` are kept; the newest of each condition always is.

    The last state of each condition is reported again every `heartbeat` seconds. Otherwise Moorage would believe it no
    more after the grace period of the source. `forget` ends this.

    What waits when the process is killed is lost. That does no harm: a probe observes again when it starts.

    Args:
        source: the name of the probe, such as `probe/disk`. Two processes must not share one.
        connection: where Moorage is. Read from the environment if None.
        heartbeat: seconds between two reports of a condition. 0 repeats nothing.
        buffer: the number of reports that may wait.
        on_refusal: called with each report that does not count. By default it is logged.
        linger: seconds for which a report waits for others to be sent with it.
        closing: seconds for which the end of the context waits for reports to be sent.
        sender: replaces the connection, in tests.
        clock: gives the present time, in tests.
    """

    def __init__(
        self,
        source: str,
        connection: Connection | None = None,
        *,
        heartbeat: float = HEARTBEAT,
        buffer: int = BUFFER,
        on_refusal: RefusalHandler | None = None,
        linger: float = 0.01,
        closing: float = 5.0,
        sender: Sender | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        if not source:
            raise ValueError("source: invalid value '': must name the probe, such as probe/disk")
        if buffer < 1:
            raise ValueError(f"buffer: invalid value {buffer}: must be at least 1")
        self.source = source
        self._heartbeat = heartbeat
        self._on_refusal = on_refusal
        self._linger = linger
        self._closing = closing
        self._clock = clock or (lambda: datetime.now(UTC))
        on_letter = self._refuse_later if on_refusal is not None else None
        self._sender = sender or sender_of(connection or Connection(), source, on_letter)
        self._outbox = Outbox(buffer)
        self._known: dict[ConditionId, _Known] = {}
        self._last_time: dict[ConditionId, datetime] = {}
        self._more = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._told: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """The number of reports that were not sent yet."""
        return len(self._outbox)

    @property
    def dropped(self) -> int:
        """The number of reports that were dropped because too many waited. Each had a newer one of its condition."""
        return self._outbox.dropped

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._send_forever(), name="moorage-probe-send")]
        if self._heartbeat > 0:
            self._tasks.append(asyncio.create_task(self._beat_forever(), name="moorage-probe-heartbeat"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._closing):
                    await self.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._told, return_exceptions=True)
        await self._sender.stop()
        if self.waiting:
            _log.warning("%d reports of %s were not sent", self.waiting, self.source)

    async def report(
        self,
        target: TargetRef | str,
        type: str,  # noqa: A002 - the name of the field
        status: ConditionStatus | str | bool,  # noqa: FBT001 - it is the value that is reported, and no switch
        *,
        reason: str = "",
        message: str = "",
        workload: WorkloadRef | str | None = None,
        workload_uid: str = "",
        binding_generation: int = 0,
        observed_time: datetime | None = None,
    ) -> str:
        """Report a condition. It returns when the report waits to be sent; `flush` waits until it is.

        Args:
            target: `Kind/name`, such as `Node/n1`.
            type: the type of the condition, such as `DiskPressure`.
            status: `True`, `False` or `Unknown`; a bool also works.
            reason: the reason as one word.
            message: the reason as text. Figures that change each time do not belong here.
            workload: `Kind/namespace/name` if the condition is about a workload on the target.
            workload_uid: the `uid` of the binding for which the workload runs. A deployer gives it.
            binding_generation: the `generation` of that binding.
            observed_time: when it was observed. Now, if None.

        Returns:
            The id of the report.

        Raises:
            ValueError: a value is wrong, or the time is not after that of the last report of the condition.
        """
        event = ConditionReported(
            target=TargetRef.parse(target) if isinstance(target, str) else target,
            type=type,
            status=ConditionStatus(str(status)),
            reason=reason,
            message=message,
            observed_time=observed_time or self._clock(),
            source=self.source,
            workload=WorkloadRef.parse(workload) if isinstance(workload, str) else workload,
            workload_uid=workload_uid,
            binding_generation=binding_generation,
        )
        condition = condition_of(event)
        last = self._last_time.get(condition)
        if observed_time is not None and last is not None and event.observed_time <= last:
            raise ValueError(
                f"observed_time: invalid value {format_time(event.observed_time)}: must be after that of the last "
                f"report of the condition, {format_time(last)}"
            )
        self._known[condition] = _Known(event, asyncio.get_running_loop().time())
        return self._put(event)

    def forget(
        self,
        target: TargetRef | str,
        type: str,  # noqa: A002 - the name of the field
        *,
        workload: WorkloadRef | str | None = None,
    ) -> None:
        """Repeat a condition no more. Moorage takes it for Unknown after the grace period."""
        self._known.pop((str(target), str(workload or ""), type), None)

    async def flush(self) -> None:
        """Return when all reports that wait have been sent."""
        while self.waiting:
            self._sent.clear()
            self._more.set()
            await self._sent.wait()

    def _put(self, event: ConditionReported) -> str:
        """Give a report to the outbox, with a time that is later than the last one of its condition."""
        condition = condition_of(event)
        last = self._last_time.get(condition)
        if last is not None and event.observed_time <= last:  # the clock stood still, or was set back
            event = event.model_copy(update={"observed_time": last + _TICK})
        self._last_time[condition] = event.observed_time
        workload = str(event.workload or "")
        identity = event_id(self.source, event.target, workload, event.type, format_time(event.observed_time))
        meta = Meta(
            id=identity,
            source=self.source,
            type=event.event_type,
            time=event.observed_time,
            subject=event.target.key,
        )
        self._outbox.add(Report(event, meta))
        self._more.set()
        return identity

    async def _send_forever(self) -> None:
        backoff, is_started = Backoff(), False
        while True:
            await self._more.wait()
            self._more.clear()
            if self._linger and self.waiting < _BATCH:
                await asyncio.sleep(self._linger)
            while batch := self._outbox.first(_BATCH):
                try:
                    if not is_started:
                        await self._sender.start()
                        is_started = True
                    refused = await self._sender.send([report for _, report in batch])
                except TransportError as error:
                    if isinstance(error, PartlySentError):
                        backoff.succeeded()
                        await self._settle([one for one in batch if one[1].meta.id not in error.again], error.refused)
                    pause = backoff.failed(error.retry_after)
                    _log.warning("%s: %d reports queued, retrying in %.1f s", error, self.waiting, pause)
                    await asyncio.sleep(pause)
                    continue
                except Exception:  # noqa: BLE001 - a probe that stopped to send would be taken for a dead one
                    pause = backoff.failed()
                    _log.exception("%d reports queued, retrying in %.1f s", self.waiting, pause)
                    await asyncio.sleep(pause)
                    continue
                backoff.succeeded()
                await self._settle(batch, refused)
            self._sent.set()

    async def _settle(self, batch: Sequence[tuple[int, Report]], refused: Sequence[Refusal]) -> None:
        """Forget reports that need not be sent again, and tell those that do not count."""
        self._outbox.remove(number for number, _ in batch)
        self._note_outcomes([report for _, report in batch], refused)
        for refusal in refused:
            await self._refuse(refusal)
        self._sent.set()

    def _note_outcomes(self, reports: Sequence[Report], refused: Sequence[Refusal]) -> None:
        unknown = {one.id for one in refused if one.reason == RefusalReason.UNKNOWN_TARGET.value}
        for report in reports:
            known = self._known.get(report.condition)
            if known is not None and report.meta.id in unknown:
                known.skip = _UNKNOWN_TARGET_BEATS - 1

    async def _refuse(self, refusal: Refusal) -> None:
        if self._on_refusal is None:
            _log.warning("a report about %s does not count: %s: %s", refusal.subject, refusal.reason, refusal.message)
            return
        try:
            if inspect.isawaitable(answer := self._on_refusal(refusal)):
                await answer
        except Exception:  # noqa: BLE001 - a handler may raise anything, and reports go on
            _log.exception("the handler of refusals failed")

    def _refuse_later(self, refusal: Refusal) -> None:
        """Tell a refusal that was read from `dead-letters`. Its subject is the target."""
        if refusal.reason == RefusalReason.UNKNOWN_TARGET.value:
            for (target, _, _), known in self._known.items():
                if target == refusal.subject:
                    known.skip = _UNKNOWN_TARGET_BEATS - 1
        task = asyncio.get_running_loop().create_task(self._refuse(refusal))
        self._told.add(task)
        task.add_done_callback(self._told.discard)

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(self._heartbeat / 4)
            self._beat(asyncio.get_running_loop().time())

    def _beat(self, now: float) -> None:
        """Report again what was last reported long enough ago, unless a report of it still waits."""
        for condition, known in list(self._known.items()):
            if now - known.made < self._heartbeat * 3 / 4 or self._outbox.waits(condition):
                continue
            known.made = now
            if known.skip:
                known.skip -= 1
                continue
            self._put(known.event.model_copy(update={"observed_time": self._clock()}))
