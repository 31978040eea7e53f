"""All services, some workers each, on the simulated Kafka: made, disturbed, brought to rest, and told as a history."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from random import Random
from types import ModuleType
from typing import Any, Final

from tests.chaos.seeded.history import History
from tests.chaos.seeded.kafka.cluster import Cluster, Faults
from tests.chaos.seeded.kafka.inputs import AcknowledgingDeployer, Deployer, People, Writer
from tests.chaos.seeded.kafka.install import installed
from tests.chaos.seeded.kafka.loop import START_SECONDS, Process, State, StuckError, VirtualLoop
from tests.chaos.seeded.kafka.rows import rows_of

from moorage.runtime.chains import CHAINS, grouped
from moorage.runtime.kafka.admin.broker_clock import BrokerClock
from moorage.runtime.kafka.partition.partition_task import Phase
from moorage.runtime.kafka.partition.watchdog import Watchdog
from moorage.runtime.kafka.partition.worker import Worker
from moorage.runtime.process.clock import Clock, CorrectedClock
from moorage.runtime.service import Emit
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import condition_ingest, eviction, governor, placement, taint_manager, timer
from moorage_schemas.topics import CLOCKS, PLACEMENTS, TOPICS

SERVICES: Final[Mapping[str, ModuleType]] = {
    "condition-ingest": condition_ingest,
    "taint-manager": taint_manager,
    "governor": governor,
    "placement": placement,
    "eviction": eviction,
    "timer": timer,
}

CHAINED: Final = tuple(grouped(SERVICES))
"""How they run when the services of a chain run as one."""

_RESTART = 1.0  # seconds until a process that has ended is started again
_QUIET = 3.0  # seconds without a record after which a world that has nothing to do is at rest
_LOOK = 0.5
_CORRECTED = 1.05  # seconds by which a clock may be off that is not corrected, and the error of a measurement
_MEASURED = 0.25  # seconds by which a corrected clock may be off
_LOOKS = 12  # of the watchdog within its limit


class Replica:
    """One worker of a service or a chain, in a process of its own, started again whenever it ends."""

    def __init__(self, world: World, service: str, number: int) -> None:
        self.service = service
        self.name = f"{service}-{number}"
        self.wanted = True
        """Whether it is to run."""

        self.starts = 0
        self.process: Process
        self.clock: Clock
        """What its worker takes for the time."""

        self.worker: Worker | None = None
        """The shipped worker of the process that runs now; None before it has begun."""

        self._world = world
        self._skew = 0.0

    def start(self) -> None:
        """Start a process of it."""
        world = self._world
        self.starts += 1
        self.worker = None
        self.process = process = world.new_process(f"{self.name}.{self.starts}", skew=self._skew)
        self.clock = process.clock
        process.spawn(self._main(process), name=process.name)

    async def _main(self, process: Process) -> None:
        world = self._world
        made = [SERVICES[name].service(world.settings) for name in CHAINS.get(self.service, (self.service,))]
        if world.one_clock:
            self.clock = clock = CorrectedClock(process.clock.now, world.loop.time)
            await BrokerClock(world.settings, [self.service], clock).start()
        worker = Worker(made, world.settings, clock=self.clock, partitions=world.settings.partitions)
        self.worker = worker
        await worker.start()
        if world.watchdog:
            process.spawn(self._watched(process, worker), name=f"{process.name}-watchdog")
        try:
            await worker.join()
        finally:
            if not world.over:
                world.ended.append(process.name)
                world.loop.call_later(_RESTART, self._again, process, context=world.cluster.context)

    async def _watched(self, process: Process, worker: Worker) -> None:
        """The shipped watchdog's looks, without its thread: nothing blocks a loop here."""
        world, settings = self._world, self._world.settings

        async def answers() -> bool:
            return world.cluster.reaches(process)

        def end(why: str) -> None:
            world.ended.append(f"{process.name}: {why}")
            process.crash()
            world.loop.call_later(_RESTART, self._again, process, context=world.cluster.context)

        limit = settings.watchdog_timeout
        hidden = 3 * settings.transaction_timeout_ms / 1000
        watchdog = Watchdog([worker], limit=limit, hidden=hidden, kafka_answers=answers, end=end)
        while True:
            await asyncio.sleep(limit / _LOOKS)
            await watchdog.check(limit / _LOOKS)

    def _again(self, process: Process) -> None:
        if self.wanted and self.process is process and not self._world.over:
            process.crash()
            self.start()

    # Faults.

    def crash(self, *, back_after: float | None = 1.0) -> None:
        """Kill it; it starts again after some seconds, or not until `start`."""
        process = self.process
        process.crash()
        if back_after is not None:
            self._world.loop.call_later(back_after, self._again, process, context=self._world.cluster.context)

    def pause(self, seconds: float) -> None:
        """Stop it for a while, as SIGSTOP does."""
        process = self.process
        process.pause()
        self._world.loop.call_later(seconds, process.resume, context=self._world.cluster.context)

    def cut(self, seconds: float) -> None:
        """Part it from the broker for a while."""
        process, cluster = self.process, self._world.cluster
        cluster.cut(process)
        self._world.loop.call_later(seconds, cluster.heal, process, context=cluster.context)

    def skew(self, seconds: float) -> None:
        """Set its clock, for its later processes, too."""
        self._skew = seconds
        off = _MEASURED if self._world.one_clock and abs(seconds) > _CORRECTED else abs(seconds)
        self._world.skew = max(self._world.skew, off)
        if "eviction" in CHAINS.get(self.service, (self.service,)):
            self._world.eviction_skew = max(self._world.eviction_skew, off)
        self.process.clock.set_skew(seconds, self._world.rng)

    @property
    def ready(self) -> bool:
        """Whether it is at work, and nothing stands in its way."""
        return self.process.reachable and self.worker is not None and self.worker.ready

    @property
    def idle(self) -> bool:
        """Whether none of its owners has anything in hand."""
        owners = () if self.worker is None else self.worker.tasks.values()
        return all(owner.phase is Phase.RUNNING and owner.idle for owner in owners)


class World:
    """One run.

    Args:
        seed: decides everything that is left to chance.
        workers: of each service.
        faults: how well the network works.
        services: which take part, alone or as the name of a chain.
        settings: of all services, beside the defaults; limits that slow tests down are lifted unless they are given.
        topic_config: settings of topics, beside the table's: `{"": …}` of all, `{"taints": …}` of one.
        watchdog: whether the shipped watchdog looks at every worker, and ends its process.
        one_clock: whether processes measure their clocks against the broker's, and correct them.
        log: gets each line that the services log.
        max_time: virtual seconds after which a run is stuck.
        options: of the cluster.
    """

    def __init__(
        self,
        seed: int | str,
        *,
        workers: int = 2,
        faults: Faults | None = None,
        services: Sequence[str] = tuple(SERVICES),
        settings: Mapping[str, Any] | None = None,
        topic_config: Mapping[str, Mapping[str, str]] | None = None,
        watchdog: bool = False,
        one_clock: bool = False,
        log: Callable[[dict[str, Any]], None] | None = None,
        max_time: float = 100_000.0,
        max_steps: int = 3_000_000,
        **options: Any,
    ) -> None:
        self.seed = seed
        self.rng = Random(f"{seed}/world")  # noqa: S311 - drawn to be repeated
        # Brokers differ in the shortest session that they allow. A process that stands still keeps its partitions for
        # longer in a long one, and a killed one is noticed sooner in a short one.
        session = Random(f"{seed}/session").choice((1_500, 10_000))  # noqa: S311 - as above
        self.given = {**LIFTED, "session_timeout_ms": session, **(settings or {})}
        self.settings = Settings(bootstrap_servers="simulated:9092", **self.given)
        self.loop = VirtualLoop(max_time=max_time, max_steps=max_steps)
        self.cluster = Cluster(self.loop, Random(f"{seed}/network"), faults=faults, **options)  # noqa: S311 - as above
        for topic in TOPICS:
            config = {**topic.config(), **(topic_config or {}).get("", {}), **(topic_config or {}).get(topic.short, {})}
            self.cluster.create(topic.name(self.settings.topic_prefix), self.settings.partitions, config)
        self.cluster.unheard.add(CLOCKS.name(self.settings.topic_prefix))
        self.ended: list[str] = []
        """Processes that ended by themselves."""

        self.watchdog = watchdog
        self.over = False
        self.one_clock = one_clock
        self.skew = 0.0
        """The largest skew that any clock had, either way, after its correction."""

        self.eviction_skew = 0.0
        """The same of eviction's clocks."""

        self.outside = self.new_process("outside")
        self.writer = Writer(self.cluster, self.outside, self.settings)
        self.people = People(self.writer, self.settings)
        self.replicas = [Replica(self, name, number) for name in services for number in range(workers)]
        self._log = log
        self._quiet = False
        self._rested: float | None = None
        self._rows: dict[str, tuple[int, int]] = {}

    def new_process(self, name: str, *, skew: float = 0.0) -> Process:
        """A process on this world's loop that its broker knows of."""
        process = Process(self.loop, name, skew=skew)
        self.cluster.watch(process)
        return process

    def of(self, service: str) -> list[Replica]:
        """The replicas of one service, alone or in a chain."""
        return [replica for replica in self.replicas if service in (replica.service, *CHAINS.get(replica.service, ()))]

    def deployer(self, *, after: float = 1.0, idle: bool = False) -> Deployer | None:
        """Let somebody run what is bound to clusters, unless another one does."""
        if idle:
            return None
        return Deployer(self.cluster, self.new_process("deployer"), self.settings, self.people, after=after)

    def acknowledging_deployer(
        self, *, seed: str, after: float = 1.0, idle: bool = False
    ) -> AcknowledgingDeployer | None:
        """Let somebody run everything that is bound, and acknowledge evictions, unless nobody does."""
        if idle:
            return None
        process = self.new_process("deployer")
        return AcknowledgingDeployer(self.cluster, process, self.settings, self.people, seed=seed, after=after)

    # A run.

    def play(self, story: Callable[[World], Coroutine[Any, Any, None]], *, start: bool = True) -> History:
        """Start everything, play a story, and tell what happened.

        Args:
            story: what people do and what breaks; it ends with `settle` unless the end is not of interest.
            start: whether the replicas are started first.

        Raises:
            StuckError: it never ends.
        """

        async def main() -> None:
            if start:
                for replica in self.replicas:
                    replica.start()
            await story(self)
            self.over = True

        with installed(self.cluster, self.outside, self._log):
            try:
                self.loop.run_until_complete(main())
                return self.history()
            finally:
                self.over = True
                self.loop.dispose()

    async def ready(self, *, within: float = 120.0) -> None:
        """Return when every replica that is to run is at work.

        Raises:
            StuckError: one is not, for all this time.
        """
        deadline = self.loop.time() + within
        while not all(replica.ready for replica in self.replicas if replica.wanted):
            if self.loop.time() > deadline:
                waiting = [replica.name for replica in self.replicas if replica.wanted and not replica.ready]
                raise StuckError(f"not ready after {within:g} s: {waiting}\n{self.loop.dump()}")
            await asyncio.sleep(0.2)

    async def settle(self, *, quiet: float = _QUIET, within: float = 600.0) -> None:
        """Mend everything, and return when all is at rest: nothing is written, waited for, or left to read.

        Deadlines further away than `quiet` seconds do not count: sleep until they are over first.

        Raises:
            StuckError: it does not come to rest in that time.
        """
        self.mend()
        loop, deadline = self.loop, self.loop.time() + within
        while True:
            await self.ready(within=max(1.0, deadline - loop.time()))
            since = max(self.cluster.written, loop.time() - quiet) if self.writer.idle else loop.time()
            if loop.time() - since >= quiet - 1e-6 and not self.behind():
                self._quiet = True
                return
            if loop.time() > deadline:
                raise StuckError(f"not at rest after {within:g} s; behind: {self.behind()}\n{self.loop.dump()}")
            await asyncio.sleep(_LOOK)

    async def stand(self, seconds: float) -> None:
        """Let time pass in which nobody does anything, after it has settled, and count what is there before and after.

        Caches fill in the first half, so only the second one counts.

        Args:
            seconds: of each half. 0 does nothing.
        """
        if not seconds:
            return
        await asyncio.sleep(seconds)
        await self.settle()
        self._rested, before = START_SECONDS + self.loop.time(), dict(self._count_rows())
        await asyncio.sleep(seconds)
        await self.settle()
        self._rows = {place: (before[place], rows) for place, rows in self._count_rows() if place in before}

    def _count_rows(self) -> Iterator[tuple[str, int]]:
        """The rows of each partition's state, and of what a process holds of whole topics."""
        for replica in self.replicas:
            if (worker := replica.worker) is None:
                continue
            for partition, owner in sorted(worker.tasks.items()):
                if owner.caught_up:
                    for engine in owner.engines:
                        yield f"{replica.process.name}/{engine.service.name}/{partition}", rows_of(engine.state)

    def behind(self) -> list[str]:
        """Who has not come to the end of what there is to read, or has something in hand."""
        cluster = self.cluster
        found = [replica.name for replica in self.replicas if replica.wanted and not replica.idle]
        for tp, log in cluster.logs.items():
            if log.limit(committed_only=True) < log.limit(committed_only=False):
                found.append(f"an open transaction on {tp.topic}/{tp.partition}")
        for consumer in cluster.consumers:
            for tp, state in (consumer._assigned or {}).items():
                if state.paused or state.position is None:
                    continue
                if state.position < cluster.logs[tp].limit(committed_only=consumer._committed_only):
                    found.append(f"{consumer.client_id} {tp.topic}/{tp.partition}")
        return found

    def mend(self) -> None:
        """End every fault that lasts."""
        cluster = self.cluster
        if not cluster.up:
            cluster.start()
        if cluster.frozen:
            cluster.thaw()
        cluster.transactions.losing = None
        for replica in self.replicas:
            if not replica.wanted:
                continue
            process = replica.process
            if not process.connected:
                cluster.heal(process)
            process.resume()
            if process.state is State.DEAD:
                replica.start()

    def history(self) -> History:
        """What happened until now."""
        cluster = self.cluster
        return History(
            entries=tuple(cluster.entries),
            acknowledged=tuple(cluster.acknowledged),
            exact=True,
            began=START_SECONDS,
            ended=START_SECONDS + self.loop.time(),
            quiet=self._quiet,
            partitions=self.settings.partitions,
            skew=self.skew,
            eviction_skew=self.eviction_skew,
            settings=dict(self.given),
            repairs=tuple(self._repairs()) if self._quiet else (),
            whole=True,
            rested=self._rested,
            rows=self._rows,
        )

    def _repairs(self) -> Iterator[str]:
        """What the reconcilers would write now; the states are not to be used after that."""
        for replica in self.replicas:
            if (worker := replica.worker) is None:
                continue
            for partition, owner in sorted(worker.tasks.items()):
                for engine in owner.engines if owner.caught_up else ():
                    now, due = replica.clock.now(), engine.next_due()
                    if due is not None and due <= now:  # what is due at this very instant is to come
                        continue
                    service, state = engine.service, engine.state
                    emits = service.reconcile(state, now)
                    while service.is_reconciling(state):
                        emits += service.reconcile(state, now)
                    for emit in emits:
                        if not self._says_the_same(emit):
                            yield f"{replica.name}/{service.name}/{partition} {emit.topic.short} {emit.key}"

    def _says_the_same(self, emit: Emit) -> bool:
        """Whether a decision that is there differs in its explanation only: who waits is not told of each node."""
        if emit.topic is not PLACEMENTS or emit.event is None:
            return False
        known = next((one for one in reversed(self.cluster.entries) if (one.topic, one.key) == _place(emit)), None)
        before = json.loads((known.value if known is not None else None) or b"{}")
        after = json.loads(emit.event.model_dump_json())
        return all(before.get(name) == after.get(name) for name in ("uid", "state", "target", "bindingGeneration"))


def _place(emit: Emit) -> tuple[str, str]:
    return emit.topic.short, emit.key


LIFTED: Final[Mapping[str, Any]] = {
    "partitions": 2,
    "node_monitor_grace_period": 0,
    "cluster_monitor_grace_period": 0,
    "managed_cluster_monitor_grace_period": 0,
    "node_eviction_rate": math.inf,
    "secondary_node_eviction_rate": math.inf,
    "large_cluster_size_threshold": 0,
    "node_monitor_period": 0,
}
"""Nothing falls silent, and no rate holds anything back."""


def dump(history: History) -> bytes:
    """A history as bytes, to be compared."""
    lines = [repr((entry, sorted(entry.headers.items()))) for entry in history.entries]
    lines += [repr(one) for one in history.acknowledged]
    return "\n".join([*lines, repr((history.ended, history.quiet))]).encode()
