"""A probe: reports conditions of targets, and repeats them, so that Moorage knows that it is still there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.report_rules import CLOCK_SKEW, check_source, check_time, check_workload
from moorage_schemas.times import format_time
from moorage_sdk.backoff import Backoff
from moorage_sdk.calls import call
from moorage_sdk.errors import (
    InvalidValueError,
    PartlySentError,
    Refusal,
    SdkError,
    TransportError,
    first_problem,
    python_name,
)
from moorage_sdk.faststream.reports import meta_of
from moorage_sdk.metrics import Counts
from moorage_sdk.outbox import ConditionId, Outbox, Report, condition_of
from moorage_sdk.senders import Sender, sender_of
from moorage_sdk.settings import Connection

_log = logging.getLogger(__name__)

HEARTBEAT = 10.0
"""Seconds after which a condition is reported again: a quarter of the default grace period of a source."""

BUFFER = 10_000
"""The number of reports that may wait while Moorage cannot be reached."""

_BATCH = 500
_KINDS = ", ".join(kind.value for kind in TargetKind)
_TICK = timedelta(microseconds=1)
_REPEATED_REFUSAL = 300.0
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

    Values that the gateway would refuse are refused at once, and so are reports outside of `async with`. If nothing can
    be sent at all, as with a token that was never valid, the body of `async with` is cancelled, and its end raises the
    error.

    Args:
        source: the name of the probe, such as `probe/disk`. Two processes must not share one.
        connection: where Moorage is. Read from the environment if None.
        heartbeat: seconds between two reports of a condition. 0 repeats nothing.
        buffer: the number of reports that may wait.
        on_refusal: called with each report that does not count. By default it is logged, the same refusal of a
            condition at most every five minutes.
        linger: seconds for which a report waits for others to be sent with it.
        closing: seconds for which the end of the context waits for reports to be sent.
        clock_skew: seconds by which an observation may be in the future, as in the fleet's settings.
        sender: replaces the connection, in tests.
        clock: gives the present time, in tests.

    Raises:
        SdkError: an argument is wrong.
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
        clock_skew: float = CLOCK_SKEW.total_seconds(),
        sender: Sender | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        if rule := check_source(str(source)):
            raise InvalidValueError("source", source, f"{rule}, such as probe/disk")
        if buffer < 1:
            raise InvalidValueError("buffer", buffer, "must be at least 1")
        for name, seconds in (("heartbeat", heartbeat), ("linger", linger), ("closing", closing)):
            if not (math.isfinite(seconds) and seconds >= 0):
                raise InvalidValueError(name, seconds, "must be a number of seconds, at least 0")
        self.source = source
        self._heartbeat = heartbeat
        self._on_refusal = on_refusal
        self._linger = linger
        self._closing = closing
        self._skew = timedelta(seconds=clock_skew)
        self._clock = clock or (lambda: datetime.now(UTC))
        on_letter = self._refuse_later if on_refusal is not None else None
        self._sender = sender or sender_of(connection or Connection(), source, on_letter)
        self._outbox = Outbox(buffer)
        self._known: dict[ConditionId, _Known] = {}
        self._last_time: dict[ConditionId, datetime] = {}
        self._logged: dict[str, tuple[str, float]] = {}
        """Reason and time of the refusal that was last logged, by its subject."""

        self._more = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._told: set[asyncio.Task[None]] = set()
        self._user: asyncio.Task[object] | None = None
        """The task that is within `async with`."""

        self._is_ending = False
        self._failure: SdkError | None = None
        self.counts = Counts()
        """Counts since its start, for `moorage_sdk.metrics`."""

    @property
    def waiting(self) -> int:
        """The number of reports that were not sent yet."""
        return len(self._outbox)

    @property
    def dropped(self) -> int:
        """The number of reports that were dropped because too many waited. Each had a newer one of its condition."""
        return self._outbox.dropped

    async def __aenter__(self) -> Self:
        if self._user is not None:
            raise SdkError(f"probe {self.source}: in use: expected one `async with` at a time")
        self._user, self._failure, self._is_ending = asyncio.current_task(), None, False
        self._tasks = [asyncio.create_task(self._send_forever(), name="moorage-probe-send")]
        if self._heartbeat > 0:
            self._tasks.append(asyncio.create_task(self._beat_forever(), name="moorage-probe-heartbeat"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_ending = True
        if self._failure is None and (kind is None or issubclass(kind, Exception)):
            with contextlib.suppress(TimeoutError, SdkError):
                async with asyncio.timeout(self._closing):
                    await self.flush()
        user, self._user = self._user, None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._told, return_exceptions=True)
        await self._sender.stop()
        if self.waiting:
            _log.warning("%s of %s not sent", self._queued(), self.source)
        if self._failure is not None and (kind is None or issubclass(kind, asyncio.CancelledError | SdkError)):
            if kind is not None and issubclass(kind, asyncio.CancelledError) and user is not None and user.uncancel():
                return  # another cancellation goes on
            raise self._failure from None

    async def report(
        self,
        target: TargetRef | str,
        type: str,  # noqa: A002 - the name of the field
        status: ConditionStatus | str,
        *,
        reason: str = "",
        message: str = "",
        workload: WorkloadRef | str | None = None,
        workload_uid: str = "",
        binding_generation: int = 0,
        observed_time: datetime | None = None,
        traceparent: str = "",
    ) -> str:
        """Report a condition. It returns when the report waits to be sent; `flush` waits until it is.

        Args:
            target: `Kind/name`, such as `Node/n1`.
            type: the type of the condition, such as `DiskPressure`.
            status: `True`, `False` or `Unknown` as text. A bool is refused: `True` is good for `Ready`, and bad for
                `DiskPressure`, so it must be meant.
            reason: the reason as one word.
            message: the reason as text. Figures that change each time do not belong here.
            workload: `Kind/namespace/name` if the condition is about a workload on the target.
            workload_uid: the `uid` of the binding for which the workload runs. A deployer gives it.
            binding_generation: the `generation` of that binding.
            observed_time: when it was observed. Now, if None.
            traceparent: the W3C trace context that the report follows on, such as that of the event that it answers.

        Returns:
            The id of the report.

        Raises:
            InvalidValueError: the gateway would refuse a value, or the time is not after that of the last report of the
                condition. It is a ValueError.
            SdkError: the probe is not within `async with`, or cannot send at all.
        """
        self._check_use("report")
        if observed_time is not None and getattr(observed_time, "tzinfo", None) is None:
            raise InvalidValueError("observed_time", observed_time, "expected a datetime with a time zone")
        try:
            event = ConditionReported(
                target=_target(target),
                type=type,
                status=_status(status),
                reason=reason,
                message=message,
                observed_time=observed_time if observed_time is not None else self._clock(),
                source=self.source,
                workload=_workload(workload),
                workload_uid=workload_uid,
                binding_generation=binding_generation,
            )
        except ValidationError as error:
            raise first_problem(error) from None
        condition = condition_of(event)
        last = self._last_time.get(condition)
        if observed_time is not None and last is not None and event.observed_time <= last:
            rule = f"must be after that of the last report of the condition, {format_time(last)}"
            raise InvalidValueError("observed_time", format_time(event.observed_time), rule)
        wrong = check_workload(event) or (check_time(event, self._clock(), self._skew) if observed_time else None)
        if wrong is not None:
            raise InvalidValueError(python_name(wrong.field), wrong.value, wrong.rule)
        self._known[condition] = _Known(event, asyncio.get_running_loop().time())
        return self._put(event, traceparent)

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
        """Return when all reports that wait have been sent.

        Raises:
            SdkError: the probe is not within `async with`, or cannot send at all.
        """
        while self.waiting:
            self._check_use("flush")
            self._sent.clear()
            self._more.set()
            await self._sent.wait()

    def _check_use(self, method: str) -> None:
        if self._failure is not None:
            raise self._failure
        if self._user is None:
            raise SdkError(
                f"{method}: outside of `async with`: expected `async with Probe({self.source!r}) as probe:`, because "
                "nothing is sent otherwise"
            )

    def _fail(self, error: SdkError) -> None:
        """End the use of the probe: nothing can be sent."""
        self._failure = error
        self._sent.set()
        if self._user is not None and not self._is_ending:  # its end raises the error itself
            self._user.cancel()

    def _put(self, event: ConditionReported, traceparent: str = "") -> str:
        """Give a report to the outbox, with a time that is later than the last one of its condition."""
        condition = condition_of(event)
        last = self._last_time.get(condition)
        if last is not None and event.observed_time <= last:  # the clock stood still, or was set back
            event = event.model_copy(update={"observed_time": last + _TICK})
        self._last_time[condition] = event.observed_time
        meta = meta_of(event, self.source)._replace(traceparent=traceparent)
        self._outbox.add(Report(event, meta))
        self._more.set()
        return meta.id

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
                    _log.warning("%s: %s queued, retrying in %.1f s", error, self._queued(), pause)
                    await asyncio.sleep(pause)
                    continue
                except SdkError as error:
                    self._fail(error)
                    return
                except Exception:  # noqa: BLE001 - a probe that stopped to send would be taken for a dead one
                    pause = backoff.failed()
                    _log.exception("%s queued, retrying in %.1f s", self._queued(), pause)
                    await asyncio.sleep(pause)
                    continue
                backoff.succeeded()
                await self._settle(batch, refused)
            self._sent.set()

    def _queued(self) -> str:
        return f"{self.waiting} report{'s' * (self.waiting != 1)}"

    async def _settle(self, batch: Sequence[tuple[int, Report]], refused: Sequence[Refusal]) -> None:
        """Forget reports that need not be sent again, and tell those that do not count."""
        self._outbox.remove(number for number, _ in batch)
        self.counts.sent += len(batch)
        self.counts.last_success = time.time()
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
        self.counts.refused[refusal.reason] += 1
        if self._on_refusal is None:
            self._log_refusal(refusal)
            return
        try:
            await call(self._on_refusal, refusal)
        except Exception:  # noqa: BLE001 - a handler may raise anything, and reports go on
            self.counts.failures["on_refusal"] += 1
            _log.exception("the handler of refusals failed")

    def _log_refusal(self, refusal: Refusal) -> None:
        """Log a refusal, but the same one of a condition only once in `_REPEATED_REFUSAL` seconds."""
        now, logged = asyncio.get_running_loop().time(), self._logged.get(refusal.subject)
        if logged is not None and logged[0] == refusal.reason and now - logged[1] < _REPEATED_REFUSAL:
            return
        self._logged = {one: last for one, last in self._logged.items() if now - last[1] < _REPEATED_REFUSAL}
        self._logged[refusal.subject] = refusal.reason, now
        _log.warning("a report about %s does not count: %s: %s", refusal.subject, refusal.reason, refusal.message)

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


def _target(target: TargetRef | str) -> TargetRef:
    if isinstance(target, TargetRef):
        return target
    try:
        return TargetRef.parse(target)
    except (ValueError, AttributeError):
        raise InvalidValueError("target", target, f"expected Kind/name with the kind {_KINDS}") from None


def _workload(workload: WorkloadRef | str | None) -> WorkloadRef | None:
    if workload is None or isinstance(workload, WorkloadRef):
        return workload
    try:
        return WorkloadRef.parse(workload)
    except (ValueError, AttributeError):
        raise InvalidValueError("workload", workload, "expected Kind/namespace/name") from None


def _status(status: ConditionStatus | str) -> ConditionStatus:
    try:
        return ConditionStatus(status)
    except ValueError:
        raise InvalidValueError("status", status, "expected the text 'True', 'False' or 'Unknown'") from None
