"""A deployer: makes what runs agree with Moorage's decisions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, TypeVar

from moorage_schemas.condition import EVICTED, FAILED, HEALTHY, REFUSED, ConditionStatus
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import BindingKey, binding_key
from moorage_schemas.placement import WorkloadBound
from moorage_sdk.backoff import Backoff
from moorage_sdk.calls import call
from moorage_sdk.decisions import BINDING_ENDED, Decisions, Place, Remove, Running, Step, is_same_step
from moorage_sdk.errors import RefusedError, SdkError, TransportError
from moorage_sdk.metrics import Counts
from moorage_sdk.probe import HEARTBEAT, Probe, RefusalHandler
from moorage_sdk.settings import Connection
from moorage_sdk.sources import Decision, Present, Reset, Source, source_of
from moorage_sdk.targets import Targets

_log = logging.getLogger(__name__)

InventoryHandler = Callable[[], Awaitable[Iterable[Running]] | Iterable[Running]]
PlacementHandler = Callable[[WorkloadBound], Awaitable[None] | None]
RemovalHandler = Callable[[Remove], Awaitable[None] | None]
NoticeHandler = Callable[[EvictionDecided], Awaitable[None] | None]
HealthHandler = Callable[[Running], Awaitable[ConditionStatus | str | bool] | ConditionStatus | str | bool]
Handler = TypeVar("Handler", bound=Callable[..., Any])

_ATTEMPTS = 3
"""How often a removal may fail in a row before that is reported. It is tried again nevertheless."""

_LONGEST_MESSAGE = 1024

_ANNOUNCED = frozenset({EvictionState.SCHEDULED, EvictionState.HELD})
_MOST_PAUSE = 60.0


class Deployer:
    """Starts and stops workloads as Moorage decides.

        deployer = Deployer("deployer/mine")

        @deployer.inventory
        async def running() -> list[Running]: ...

        @deployer.on_placement
        async def start(bound: WorkloadBound) -> None: ...

        @deployer.on_eviction
        async def stop(removal: Remove) -> None: ...

        asyncio.run(deployer.run())

    A deployer keeps no state of its own. At each start it reads all decisions up to the present, asks `inventory` what
    runs, and makes both agree by the rule of the contract (`decisions`). So it may be killed at any point, if its
    handlers may be called again for something that they have done already.

    Handlers are async, or run in a thread. Handlers of one workload on one target are called one after the other, those
    of others at the same time. One that raises an error is called again, with growing pauses, as long as what it is to
    do has not changed. After a `RefusedError` it is only called again when the decision has changed.

    What runs where its binding is now is reported as `Healthy`, and is reported again like the conditions of a probe.

    Evictions are acknowledged. When `on_eviction` has returned, the work counts as gone, and its binding ends. When it
    raises a `RefusedError`, the eviction is escalated as `Refused` with the text of the error. When it raises another
    error three times in a row, it is escalated as `Failed`, and is done when it returns later. What is acknowledged is
    reported until the decisions show it, so nothing is lost if the process is killed in between.

    Args:
        source: the name of the deployer, such as `deployer/mine`. It is the source of its reports.
        connection: where Moorage is. Read from the environment if None.
        targets: the targets that it serves, as patterns: `Node/n1`, `Cluster/*`. All if None. No target may be served
            by two deployers.
        concurrency: how many handlers may run at the same time.
        heartbeat: seconds between two reports of `Healthy`, and between two calls of `health`.
        on_refusal: called with each report that does not count.
        decisions: replaces the source of decisions, in tests.
        probe: replaces the probe that reports, in tests.
    """

    def __init__(
        self,
        source: str,
        connection: Connection | None = None,
        *,
        targets: Collection[str] | None = None,
        concurrency: int = 16,
        heartbeat: float = HEARTBEAT,
        on_refusal: RefusalHandler | None = None,
        decisions: Source | None = None,
        probe: Probe | None = None,
    ) -> None:
        self.source = source
        self._targets = Targets(targets)
        connection = connection or Connection()
        self._heartbeat = heartbeat
        self._source = decisions or source_of(connection, self._targets, source)
        self._probe = probe or Probe(source, connection, heartbeat=heartbeat, on_refusal=on_refusal)
        self._slots = asyncio.Semaphore(concurrency)
        self._inventory: InventoryHandler | None = None
        self._place: PlacementHandler | None = None
        self._remove: RemovalHandler | None = None
        self._schedule: NoticeHandler | None = None
        self._cancel: NoticeHandler | None = None
        self._health: HealthHandler | None = None
        self._decisions = Decisions()
        self._is_present = False
        self._running: dict[str, list[Running]] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._reports: set[asyncio.Task[None]] = set()
        self._told: dict[str, tuple[int, int]] = {}
        """The generation and revision of the eviction that was announced last, by the key of the binding."""

        self._removed: dict[str, tuple[str, int]] = {}
        """The uid and generation of what this process has removed last, by the key of the binding."""

        self._acknowledged: dict[str, tuple[str, int, str, str]] = {}
        """The last report of an eviction by the key of the binding: uid, generation, reason and message."""

        self.counts: Counts = self._probe.counts
        """Counts since its start, for `moorage_sdk.metrics`. It includes its probe."""
        self._traces: dict[str, tuple[int, str]] = {}
        """The generation and the trace context of the last eviction by the key of the binding."""

        self.caught_up = asyncio.Event()
        """Set when the decisions have been read to the present for the first time, and everything was acted on once."""

    # Handlers.

    def inventory(self, handler: Handler) -> Handler:
        """The handler that returns everything that runs and was started by this deployer. Called once at the start."""
        self._inventory = handler
        return handler

    def on_placement(self, handler: Handler) -> Handler:
        """The handler that starts a workload on its target, or applies what has changed of its binding.

        It may find that the work runs already; then it only stores the `generation` and `revision` beside it.
        """
        self._place = handler
        return handler

    def on_eviction(self, handler: Handler) -> Handler:
        """The handler that stops a workload: it was evicted, its binding has ended, or another one has its name now.

        It stops exactly `removal.running`, by its `uid`. It may find that nothing runs any more. When it returns, the
        work has ended. If it will not stop the work, it raises a `RefusedError` with the reason.
        """
        self._remove = handler
        return handler

    def on_schedule(self, handler: Handler) -> Handler:
        """The handler for evictions that are to come, with their `deadline`. There is time to prepare."""
        self._schedule = handler
        return handler

    def on_cancel(self, handler: Handler) -> Handler:
        """The handler for evictions that will not come after all: what was prepared can be undone."""
        self._cancel = handler
        return handler

    def health(self, handler: Handler) -> Handler:
        """The handler that says whether a workload runs well. Without one, everything that runs is healthy."""
        self._health = handler
        return handler

    @property
    def waiting(self) -> int:
        """The number of reports that were not sent yet."""
        return self._probe.waiting

    @property
    def dropped(self) -> int:
        """The number of reports that were dropped because too many waited."""
        return self._probe.dropped

    @property
    def running(self) -> list[Running]:
        """Running work, as far as the deployer has seen it."""
        return [one for found in self._running.values() for one in found]

    def check(self) -> None:
        """Check that there is a handler for everything that is necessary.

        Raises:
            SdkError: one is missing.
        """
        for name, handler in (
            ("inventory", self._inventory),
            ("on_placement", self._place),
            ("on_eviction", self._remove),
        ):
            if handler is None:
                raise SdkError(f"the deployer has no handler {name}: without it, it cannot keep to the decisions")

    # The loop.

    async def run(self) -> None:
        """Deploy until it is cancelled, or the process is asked to end (SIGTERM). What runs goes on running.

        Raises:
            SdkError: a handler is missing, or Moorage cannot be used at all.
        """
        self.check()
        me, loop = asyncio.current_task(), asyncio.get_running_loop()
        is_asked_to_end = False

        def end() -> None:
            nonlocal is_asked_to_end
            is_asked_to_end = True
            if me is not None:
                me.cancel()

        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread
            loop.add_signal_handler(signal.SIGTERM, end)
        try:
            async with self._probe:
                health = asyncio.create_task(self._watch_health())
                try:
                    await self._follow()
                finally:
                    ending = (health, *self._tasks.values(), *self._reports)
                    for task in ending:
                        task.cancel()
                    await asyncio.gather(*ending, return_exceptions=True)
        except asyncio.CancelledError:
            if not is_asked_to_end:
                raise
        finally:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(signal.SIGTERM)
            await self._source.stop()

    async def _follow(self) -> None:
        """Read decisions without end."""
        backoff = Backoff()
        building = Decisions()
        while True:
            try:
                async for item in self._source.read():
                    match item:
                        case Reset():
                            building, self._is_present = Decisions(), False
                        case Present():
                            backoff.succeeded()
                            await self._act_on_all(building)
                        case Decision() if self._is_present:
                            self._act(self._fold(self._decisions, item))
                        case Decision():
                            self._fold(building, item)
            except TransportError as error:
                pause = backoff.failed(error.retry_after)
                _log.warning("%s; retrying in %.1f s", error, pause)
                await asyncio.sleep(pause)

    def _fold(self, decisions: Decisions, item: Decision) -> str:
        """Fold a record in. Returns the key of the binding that it concerns."""
        self.counts.decisions[item.topic] += 1
        if isinstance(item.event, WorkloadBound) or item.topic == "bindings":
            decisions.fold_binding(item.key, item.event if isinstance(item.event, WorkloadBound) else None)
            return item.key
        event = item.event if isinstance(item.event, EvictionDecided) else None
        decisions.fold_eviction(item.key, event)
        key = item.key.rpartition("|")[0]
        if event is None:
            self._traces.pop(key, None)
        elif item.traceparent:
            self._traces[key] = (event.generation, item.traceparent)
        return key

    async def _act_on_all(self, decisions: Decisions) -> None:
        """Everything is known up to the present: act on all of it, and on all that runs."""
        if not self.caught_up.is_set():
            await self._take_stock()
        self._decisions, self._is_present = decisions, True
        for key in sorted(decisions.keys | self._running.keys()):
            self._act(key)
        if not self.caught_up.is_set():
            self.caught_up.set()

    async def _take_stock(self) -> None:
        """Ask what runs."""
        backoff = Backoff(most=_MOST_PAUSE)
        found: list[Running] | None = None
        while found is None and self._inventory is not None:
            try:
                found = list(await call(self._inventory))
            except Exception:  # noqa: BLE001 - a handler may raise anything, and the others go on
                self.counts.failures["inventory"] += 1
                pause = backoff.failed()
                _log.exception("the handler inventory failed, and is called again in %.1f s", pause)
                await asyncio.sleep(pause)
        for one in found or ():
            if str(one.target) in self._targets:
                self._running.setdefault(one.key, []).append(one)

    def _act(self, key: str) -> None:
        """Let the task of a key look again."""
        task = self._tasks.get(key)
        if task is not None and not task.done():
            self._changed[key].set()
            return
        self._changed[key] = asyncio.Event()
        self._tasks[key] = asyncio.create_task(self._settle(key))

    async def _settle(self, key: str) -> None:
        """Take steps about a key until nothing is left to do."""
        backoff, changed = Backoff(most=_MOST_PAUSE), self._changed[key]
        refused: Step | None = None
        failures = 0
        try:
            while True:
                changed.clear()
                step = self._next_step(key)
                if step is None or is_same_step(step, refused):
                    await self._acknowledge(key)
                    is_told = await self._announce(key)
                    self._report(key)
                    if step is None and is_told and not changed.is_set():
                        return
                    # Refused, until the decision changes, or something is still to be announced.
                    await _wait(changed, None if is_told else backoff.failed())
                    continue
                try:
                    async with self._slots:
                        await self._take(step)
                except RefusedError as error:
                    refused = step
                    _log.warning("%s was refused: %s", _text(step), error)
                    await self._escalate(step, REFUSED, str(error))
                except Exception as error:  # noqa: BLE001 - a handler may raise anything, and the others go on
                    self.counts.failures["on_eviction" if isinstance(step, Remove) else "on_placement"] += 1
                    pause = backoff.failed()
                    _log.exception("%s failed, retrying in %.1f s", _text(step), pause)
                    failures += 1
                    if failures >= _ATTEMPTS:
                        await self._escalate(step, FAILED, f"{type(error).__name__}: {error}")
                    await self._pause(key, step, changed, pause)
                else:
                    backoff.succeeded()
                    failures = 0
        finally:
            if self._tasks.get(key) is asyncio.current_task():
                del self._tasks[key], self._changed[key]

    async def _pause(self, key: str, step: Step, changed: asyncio.Event, seconds: float) -> None:
        """Wait before a step is tried again, until what is to be done is something else.

        What was reported of the step comes back as a decision. That alone is no reason to try it earlier.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while is_same_step(self._next_step(key), step):
                    changed.clear()
                    await changed.wait()

    def _next_step(self, key: str) -> Step | None:
        found = self._running.get(key)
        if not found:
            return self._decisions.step(key, None)
        steps = [self._decisions.step(key, one) for one in found]
        return next((step for step in steps if isinstance(step, Remove)), steps[0])

    async def _take(self, step: Step) -> None:
        """Call the handler of a step, and note what it has done."""
        if isinstance(step, Remove):
            # It is not healthy any more, whether the handler succeeds or not.
            self._probe.forget(step.running.target, HEALTHY, workload=step.running.workload)
            if self._remove is not None:
                await call(self._remove, step)
            self._removed[step.running.key] = (step.running.uid, step.running.generation)
            left = [one for one in self._running.get(step.running.key, []) if one != step.running]
            if left:
                self._running[step.running.key] = left
            else:
                self._running.pop(step.running.key, None)
            return
        if self._place is not None:
            await call(self._place, step.bound)
        self._running[binding_key(step.bound.workload, step.bound.target)] = [Running.of(step.bound)]

    async def _announce(self, key: str) -> bool:
        """Tell of an eviction that is to come, or will not come after all. False if the handler failed."""
        bound = self._decisions.binding(key)
        event = self._decisions.eviction(bound) if bound is not None else None
        if event is None or not self._running.get(key):
            self._told.pop(key, None)
            return True
        version = (event.generation, event.revision)
        if self._told.get(key) == version:
            return True
        handler = None
        if event.state in _ANNOUNCED:
            handler = self._schedule
        elif event.state is EvictionState.CANCELLED and event.reason != BINDING_ENDED:
            handler = self._cancel
        if handler is not None:
            try:
                await call(handler, event)
            except Exception:  # noqa: BLE001 - a handler may raise anything, and the others go on
                self.counts.failures["on_cancel" if handler is self._cancel else "on_schedule"] += 1
                _log.exception("the handler of the eviction of %s on %s failed", event.workload, event.target)
                return False
        self._told[key] = version
        return True

    # Acknowledgements.

    async def _acknowledge(self, key: str) -> None:
        """Report the evictions of a key whose work has ended, also if it was an earlier process that removed it."""
        runs = {one.uid for one in self._running.get(key, [])}
        waits = self._decisions.unacknowledged(key)
        for event in waits:
            is_mine = event.deployer == self.source or self._removed.get(key) == (event.workload_uid, event.generation)
            if is_mine and event.workload_uid not in runs:
                await self._tell_outcome(event, ConditionStatus.TRUE)
        if not waits:
            self._removed.pop(key, None)
            if self._acknowledged.pop(key, None) is not None:
                workload, target = BindingKey.parse(key)
                self._probe.forget(target, EVICTED, workload=workload)

    async def _escalate(self, step: Step, reason: str, message: str) -> None:
        """Report that evicted work was not removed. The outcomes of other steps are not reported."""
        if not isinstance(step, Remove) or step.eviction is None:
            return
        for event in self._decisions.unacknowledged(step.running.key):
            if (event.workload_uid, event.generation) == (step.eviction.workload_uid, step.eviction.generation):
                await self._tell_outcome(event, ConditionStatus.FALSE, reason, message[:_LONGEST_MESSAGE])

    async def _tell_outcome(
        self, event: EvictionDecided, status: ConditionStatus, reason: str = "", message: str = ""
    ) -> None:
        """Report what has become of an eviction, unless that was reported last. The probe repeats it."""
        key = binding_key(event.workload, event.target)
        said = (event.workload_uid, event.generation, reason, message)
        if self._acknowledged.get(key) == said:
            return
        self._acknowledged[key] = said
        generation, trace = self._traces.get(key, (0, ""))
        await self._probe.report(
            event.target,
            EVICTED,
            status,
            reason=reason,
            message=message,
            workload=event.workload,
            workload_uid=event.workload_uid,
            binding_generation=event.generation,
            traceparent=trace if generation == event.generation else "",
        )

    # Health.

    def _report(self, key: str) -> None:
        """Report what runs where its binding is now, and nothing else."""
        wanted = self._decisions.wanted(key)
        for one in self._running.get(key, []):
            if wanted is not None and one.uid == wanted.uid:
                task = asyncio.get_running_loop().create_task(self._report_one(one))
                self._reports.add(task)
                task.add_done_callback(self._reports.discard)
                task.add_done_callback(_log_failure)

    async def _report_one(self, running: Running) -> None:
        status: ConditionStatus | str | bool = ConditionStatus.TRUE
        if self._health is not None:
            try:
                status = await call(self._health, running)
            except Exception:  # noqa: BLE001 - a handler may raise anything, and the others go on
                self.counts.failures["health"] += 1
                _log.exception("the handler health failed for %s on %s", running.workload, running.target)
                status = ConditionStatus.UNKNOWN
        wanted = self._decisions.wanted(running.key)
        if wanted is None or wanted.uid != running.uid or running not in self._running.get(running.key, []):
            return  # it has ended meanwhile
        await self._probe.report(
            running.target,
            HEALTHY,
            str(status),  # the handler may return a bool: the work is healthy, or it is not
            workload=running.workload,
            workload_uid=running.uid,
            binding_generation=running.generation,
        )

    async def _watch_health(self) -> None:
        """Ask again how everything is. Without a handler, the probe repeats what was reported."""
        while self._health is not None and self._heartbeat > 0:
            await asyncio.sleep(self._heartbeat)
            for one in self.running:
                wanted = self._decisions.wanted(one.key)
                if wanted is not None and wanted.uid == one.uid:
                    await self._report_one(one)


async def _wait(changed: asyncio.Event, seconds: float | None) -> None:
    """Wait for a change, for a limited time or without limit."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await changed.wait()


def _text(step: Step) -> str:
    if isinstance(step, Place):
        return f"the placement of {step.bound.workload} on {step.bound.target}"
    return f"the removal of {step.running.workload} from {step.running.target}"


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("a report failed: %s", error)
