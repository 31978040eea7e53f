"""The simulated broker: topics, requests that take their time, and all that can go wrong on the way.

Every request is one call with a latency that is drawn; what it does, it does at one instant, outside all processes.
aiokafka repeats a request that got lost until it has an answer, and the broker does nothing twice, so a loss is a
longer way to the broker or back: a commit whose answer is lost is done all the same.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError, UnknownTopicOrPartitionError
from tests.chaos.seeded.history import Acknowledged, Entry
from tests.chaos.seeded.kafka.groups import Groups
from tests.chaos.seeded.kafka.log import Log, Record
from tests.chaos.seeded.kafka.loop import START_SECONDS, Process, State, VirtualLoop
from tests.chaos.seeded.kafka.transactions import Transactions

LATER: Final = object()
"""What an operation returns that answers by itself later on."""

REQUEST_TIMEOUT: Final = 15.0
"""Seconds after which a client gives a request up that gets no answer."""


@dataclass
class Faults:
    """How the network and the broker behave; probabilities are per request or fetch."""

    latency: tuple[float, float] = (0.0005, 0.004)
    """Seconds of a request and its answer together."""

    slow: float = 0.0
    """How often one takes long, as it does when a connection breaks and the client tries again."""

    slow_seconds: tuple[float, float] = (0.02, 1.0)
    timeout: float = 0.0
    """How often one is lost without a word: it is sent again after the request timeout."""

    answer_lost: float = 0.0
    """How often a request is done, and its answer comes late (`slow_seconds`), or after the request timeout."""

    duplicated: float = 0.0
    """How often a record of a producer without idempotence is written twice."""

    straggling: float = 0.05
    """How often a batch of a transaction travels by itself, and markers are written one by one."""

    fetch: tuple[float, float] = (0.0005, 0.005)
    """Seconds from when a record can be read to when a waiting consumer has it."""

    fetch_slow: float = 0.02
    """How often a partition is left out of a fetch, and comes with a later one."""

    fetch_slow_seconds: tuple[float, float] = (0.005, 0.3)
    fetch_small: float = 0.02
    """How often a fetch brings no more than a few entries of a partition."""

    in_flight_arrives: float = 0.5
    """How often a request that was on its way when its process was killed reaches the broker."""


class Request:
    """One request of a client."""

    __slots__ = ("answered", "client", "done", "op", "refusable", "sent")

    def __init__(
        self, client: Client, op: Callable[[Request], Any], done: Callable[[Any, Any], None], sent: float
    ) -> None:
        self.client = client
        self.op = op
        self.done = done
        self.sent = sent
        self.answered = False
        self.refusable: type[KafkaError] | None = None


class Client:
    """What all clients are: something in a process that sends requests.

    Args:
        cluster: whom to.
        process: whose it is; it is known to nobody but the process.
        client_id: as in Kafka's logs.
    """

    def __init__(self, cluster: Cluster, process: Process, client_id: str) -> None:
        self.cluster = cluster
        self.process = process
        self.client_id = client_id
        self.loop = cluster.loop
        self.context = contextvars.copy_context()
        self.gone = False
        """Its connections are closed: it sends and hears nothing more."""

    async def ask(
        self,
        op: Callable[[Request], Any],
        *,
        error: type[KafkaError] | None = None,
    ) -> Any:
        """Send a request and return its answer.

        Args:
            op: what the broker does; it returns the answer, or `LATER`.
            error: raised when the broker cannot be reached, at once or after the request timeout; tried for ever
                without.
        """
        future = self.loop.create_future()

        def done(result: Any, problem: BaseException | None) -> None:
            if not future.done():
                if problem is not None:
                    future.set_exception(problem)
                else:
                    future.set_result(result)

        self.cluster.send(self, op, done, error)
        return await future


class Cluster:
    """One simulated Kafka.

    Args:
        loop: whose time it takes.
        rng: draws latencies, orders and ids.
        faults: how well the network works.
        transaction_check: seconds between two looks for transactions that took too long.
        rebalance_delay: seconds that an empty group waits for more members at first.
        idle_poll: virtual seconds after which `getmany` returns to a caller for whom nothing has changed, when its own
            timeout is shorter: an empty answer every tenth of a second would be most of what a run does. 0 holds each
            timeout.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        rng: Random,
        *,
        faults: Faults | None = None,
        transaction_check: float = 1.0,
        rebalance_delay: float = 0.0,
        idle_poll: float = 30.0,
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.faults = faults or Faults()
        self.logs: dict[TopicPartition, Log] = {}
        self.topics: dict[str, int] = {}
        """How many partitions each has."""

        self.configs: dict[str, dict[str, str]] = {}
        self.born: dict[str, float] = {}
        """When the leaders of a topic's partitions are known."""

        self.context = contextvars.Context()
        """In no process."""

        self.transactions = Transactions(self, transaction_check)
        self.groups = Groups(self, rebalance_delay)
        self.consumers: dict[Any, None] = {}
        self.entries: list[Entry] = []
        """Everything that was ever readable to readers of committed records, in the order in which it became so."""

        self.readable: list[Record] = []
        """The same, as the broker holds them."""

        self.acknowledged: list[Acknowledged] = []
        self.written = 0.0
        """When a record or marker was last written."""

        self.unheard: set[str] = set()
        """Topics whose records are no part of what happens: they are written while nobody does anything."""

        self.idle_poll = idle_poll
        self.up = True
        self.frozen = False
        self.closed = False
        self._held: list[Request] = []
        self._ids = 0
        loop.on_dispose.append(self.close)

    # Topics.

    def create(self, name: str, partitions: int, config: dict[str, str] | None = None) -> None:
        """Make a topic."""
        self.topics[name] = partitions
        self.configs[name] = dict(config or {})
        self.born.setdefault(name, 0.0)
        for partition in range(partitions):
            tp = TopicPartition(name, partition)
            self.logs[tp] = Log(tp, self.configs[name], self._readable)

    def log(self, tp: TopicPartition) -> Log:
        """A partition.

        Raises:
            UnknownTopicOrPartitionError: there is none.
        """
        found = self.logs.get(tp)
        if found is None:
            raise UnknownTopicOrPartitionError(tp)
        return found

    def _readable(self, record: Record) -> None:
        if record.topic in self.unheard:
            return
        now = START_SECONDS + self.loop.time()
        entries = self.entries
        self.readable.append(record)
        entries.append(
            Entry(
                short_name(record.topic),
                record.partition,
                record.offset,
                (record.key or b"").decode(errors="replace"),
                record.value,
                {name: value.decode(errors="replace") for name, value in record.headers},
                START_SECONDS + record.appended,
                now,
                len(entries),
                START_SECONDS + record.since if record.since else None,
            )
        )

    def acknowledge(self, topic: str, partition: int, offset: int) -> None:
        """Note that somebody outside was told that a record is accepted."""
        self.acknowledged.append(Acknowledged(START_SECONDS + self.loop.time(), short_name(topic), partition, offset))

    def clean(self, topics: Iterable[str] | None = None) -> int:
        """Compact and expire what is old enough by now, and return how many entries went."""
        now_ms = int((START_SECONDS + self.loop.time()) * 1000)
        names = None if topics is None else set(topics)
        return sum(log.clean(now_ms) for tp, log in self.logs.items() if names is None or tp.topic in names)

    def clean_every(self, seconds: float) -> None:
        """Clean again and again from now on."""

        def again() -> None:
            self.clean()
            self.loop.call_later(seconds, again, context=self.context)

        self.loop.call_later(seconds, again, context=self.context)

    def new_id(self) -> int:
        """A number that nothing else has."""
        self._ids += 1
        return self._ids

    def fetch_limit(self) -> int:
        """Entries of one partition that a fetch brings, at most."""
        if self.faults.fetch_small and self.rng.random() < self.faults.fetch_small:
            return self.rng.randint(1, 3)
        return 1000

    # Requests.

    def draw(self, span: tuple[float, float]) -> float:
        """Seconds within a span."""
        return span[0] + (span[1] - span[0]) * self.rng.random()

    def send(
        self,
        client: Client,
        op: Callable[[Request], Any],
        done: Callable[[Any, Any], None],
        error: type[KafkaError] | None = None,
    ) -> None:
        """Send a request on its way; `done` is called with its answer or its error, in the client's process."""
        if self.closed or client.gone:
            raise KafkaConnectionError("the client is closed")
        request = Request(client, op, done, self.loop.time())
        request.refusable = error
        faults = self.faults
        delay = self.draw(faults.latency)
        if faults.slow and self.rng.random() < faults.slow:
            delay += self.draw(faults.slow_seconds)
        if faults.timeout and self.rng.random() < faults.timeout:
            if error is None:
                delay += REQUEST_TIMEOUT
            else:
                self._refuse_later(request)
                return
        self.loop.call_later(delay, self.arrive, request, context=self.context)

    def arrive_again(self, request: Request) -> None:
        """A request that was told to come back does."""
        self.loop.call_later(self.draw(self.faults.latency), self.arrive, request, context=self.context)

    def arrive(self, request: Request) -> None:
        """A request is at the broker's door."""
        if self.closed:
            return
        process = request.client.process
        if process.state is State.DEAD and (
            self.rng.random() >= self.faults.in_flight_arrives or not process.connected
        ):
            return
        if not self._takes(request):
            return
        try:
            result = request.op(request)
        except KafkaError as problem:
            self.answer(request, None, problem)
        else:
            if result is not LATER:
                self.answer(request, result)

    def _takes(self, request: Request) -> bool:
        """Whether a request gets through; it is kept, or refused, when it does not."""
        if not request.client.process.connected or self.frozen:
            self._hold(request)
        elif self.up:
            return True
        elif request.refusable is KafkaConnectionError:
            self._refuse(request)
        else:
            self._hold(request)
        return False

    def answer(self, request: Request, result: Any, problem: BaseException | None = None) -> None:
        """Answer a request, at once unless the answer gets lost."""
        faults = self.faults
        if faults.answer_lost and self.rng.random() < faults.answer_lost:
            delay = REQUEST_TIMEOUT if self.rng.random() < 0.3 else self.draw(faults.slow_seconds)
            self.loop.call_later(delay, self._hand_over, request, result, problem, context=self.context)
        else:
            self._hand_over(request, result, problem)

    def _hand_over(self, request: Request, result: Any, problem: BaseException | None) -> None:
        client = request.client
        if request.answered or client.gone or self.closed:
            return
        if not client.process.connected or self.frozen or not self.up:
            # It asks again once it can, and is told then.
            self._held.append(_again(request, result, problem))
            return
        request.answered = True
        self._tell(request, result, problem)

    def _tell(self, request: Request, result: Any, problem: BaseException | None) -> None:
        """In the client's process, which may be standing still."""
        client = request.client
        if client.process.state is State.RUNNING:
            client.context.run(request.done, result, problem)
        else:
            self.loop.call_soon(request.done, result, problem, context=client.context)

    def _hold(self, request: Request) -> None:
        """Nothing answers: it is kept, and given up in time when its client does that."""
        self._held.append(request)
        if request.refusable is not None:
            self._refuse_later(request)

    def _refuse_later(self, request: Request) -> None:
        left = max(0.0, request.sent + REQUEST_TIMEOUT - self.loop.time())
        self.loop.call_later(left, self._refuse, request, context=self.context)

    def _refuse(self, request: Request) -> None:
        if not request.answered and not request.client.gone and request.refusable is not None:
            request.answered = True
            self._tell(request, None, request.refusable("no broker answers"))

    def _release(self) -> None:
        """What was kept goes on; each takes its time to find that it can."""
        held, self._held = self._held, []
        for request in held:
            if not request.client.gone and not request.answered:
                delay = self.draw(self.faults.latency) + 0.1 * self.rng.random()
                self.loop.call_later(delay, self.arrive, request, context=self.context)
        for consumer in list(self.consumers):
            consumer.reach()

    # Faults.

    def cut(self, process: Process) -> None:
        """Part a process from the broker: its requests hang."""
        process.connected = False
        self.groups.contact_changed(process)

    def heal(self, process: Process) -> None:
        """Join them again."""
        process.connected = True
        self.groups.contact_changed(process)
        self._release()

    def freeze(self) -> None:
        """The broker hangs: connections stay open, nothing answers."""
        self.frozen = True
        self.groups.pause()
        self.transactions.pause()

    def thaw(self) -> None:
        """It goes on."""
        self.frozen = False
        self.groups.go_on(lenient=False)
        self.transactions.go_on()
        self._release()

    def stop(self) -> None:
        """The broker goes, in order or not: what it has acknowledged stays."""
        self.up = False
        self.groups.pause()
        self.transactions.pause()

    def start(self) -> None:
        """It comes back."""
        self.up = True
        self.groups.go_on(lenient=True)
        self.transactions.go_on()
        self._release()

    @property
    def answers(self) -> bool:
        """Whether the broker works."""
        return self.up and not self.frozen

    def reaches(self, process: Process) -> bool:
        """Whether a process gets through to the broker now."""
        return process.reachable and self.up and not self.frozen

    def watch(self, process: Process) -> None:
        """Notice when a process is paused, goes on, or dies."""
        process.on_state.append(lambda: self._changed(process))

    def _changed(self, process: Process) -> None:
        self.groups.contact_changed(process)
        if process.state is State.RUNNING:
            for consumer in list(self.consumers):
                if consumer.process is process:
                    consumer.reach()
        elif process.state is State.DEAD:
            for consumer in [consumer for consumer in self.consumers if consumer.process is process]:
                consumer.gone = True
                del self.consumers[consumer]

    def close(self) -> None:
        """Answer nobody any more."""
        self.closed = True


def _again(request: Request, result: Any, problem: BaseException | None) -> Request:
    """The same request as one that has its answer already."""

    def known(_: Request) -> Any:
        if problem is not None:
            raise problem
        return result

    again = Request(request.client, known, request.done, request.sent)
    again.refusable = request.refusable
    return again


def short_name(topic: str) -> str:
    """`taints` of `moorage.taints.v1`; another name as it is."""
    parts = topic.split(".")
    return parts[-2] if len(parts) > 2 else topic
