"""The transaction coordinator: who may write under an id, and what becomes of what he wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition
from aiokafka.errors import InvalidTxnState, ProducerFenced
from tests.chaos.seeded.kafka.log import Outcome
from tests.chaos.seeded.kafka.loop import START_SECONDS

if TYPE_CHECKING:
    from tests.chaos.seeded.kafka.cluster import Cluster


class Stage(Enum):
    """Where a transactional id stands."""

    EMPTY = "empty"
    ONGOING = "ongoing"
    PREPARED = "prepared"
    """Decided, and its markers are not all written."""


class Transactional:
    """One transactional id."""

    __slots__ = (
        "began",
        "epoch",
        "groups",
        "id",
        "leaderless",
        "left",
        "outcome",
        "parts",
        "pid",
        "stage",
        "timeout",
        "waiters",
    )

    def __init__(self, id_: str, pid: int) -> None:
        self.id = id_
        self.pid = pid
        self.epoch = -1
        self.stage = Stage.EMPTY
        self.outcome = Outcome.ABORTED
        self.parts: dict[TopicPartition, None] = {}
        self.groups: dict[str, None] = {}
        self.timeout = 60.0
        self.began = 0.0
        self.left = 0
        self.leaderless: frozenset[TopicPartition] | None = None
        """Those of its partitions whose markers are lost; None until the first is written, or lost."""

        self.waiters: list[Callable[[], None]] = []
        """Called when it is empty again."""


class Transactions:
    """All transactional ids.

    Args:
        cluster: whose they are.
        check: seconds between two looks for transactions that took too long.
    """

    def __init__(self, cluster: Cluster, check: float) -> None:
        self.by_id: dict[str, Transactional] = {}
        self.losing: set[TopicPartition] | None = None
        """Partitions that have no leader now, whose markers are lost for good; planted (docs/decisions/0013)."""

        self.losing_begun_before = float("inf")
        """Only markers of transactions that began before that time are lost."""

        self.losing_groups = False
        """Whether the offsets' markers are lost with them."""

        self.lost: list[tuple[str, TopicPartition]] = []
        """What was lost."""

        self._cluster = cluster
        self._check = check
        self._ongoing: dict[Transactional, None] = {}
        self._armed = False
        self._waiting: list[Callable[[], None]] = []

    def init(self, id_: str, timeout: float, then: Callable[[int, int], None]) -> None:
        """Fence whoever wrote under the id before, end what he has open, and give the new epoch."""
        found = self.by_id.get(id_)
        if found is None:
            found = self.by_id[id_] = Transactional(id_, self._cluster.new_id())
        if found.stage is Stage.ONGOING:
            found.epoch += 1
            self._prepare(found, Outcome.ABORTED)
        if found.stage is Stage.PREPARED:
            found.waiters.append(lambda: self.init(id_, timeout, then))
            return
        found.epoch += 1
        found.timeout = timeout
        then(found.pid, found.epoch)

    def enter(self, id_: str, epoch: int) -> Transactional | None:
        """The id, as its producer may write under it; None while the transaction before is not over.

        Raises:
            ProducerFenced: another producer has started, or the transaction took too long.
        """
        found = self.by_id[id_]
        if epoch != found.epoch:
            raise ProducerFenced
        if found.stage is Stage.PREPARED:
            return None
        return found

    def begin(self, found: Transactional) -> None:
        """What is written now belongs to a transaction."""
        if found.stage is Stage.EMPTY:
            found.stage = Stage.ONGOING
            found.began = self._cluster.loop.time()
            self._ongoing[found] = None
            self._arm()

    def writable(self, id_: str, epoch: int, tp: TopicPartition) -> Transactional:
        """The id, for a batch whose partition was added.

        Raises:
            ProducerFenced: as for `enter`.
            InvalidTxnState: its transaction is over.
        """
        found = self.by_id[id_]
        if epoch != found.epoch:
            raise ProducerFenced
        if found.stage is not Stage.ONGOING or tp not in found.parts:
            raise InvalidTxnState
        return found

    def offsets(self, found: Transactional, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets with the transaction; of whatever generation the group is."""
        self.begin(found)
        found.groups[group] = None
        self._cluster.groups.pend(group, found.pid, offsets)

    def end(self, found: Transactional, *, commit: bool) -> None:
        """Decide.

        Raises:
            InvalidTxnState: there is nothing to end.
        """
        if found.stage is not Stage.ONGOING:
            raise InvalidTxnState
        self._prepare(found, Outcome.COMMITTED if commit else Outcome.ABORTED)

    def _prepare(self, found: Transactional, outcome: Outcome) -> None:
        cluster = self._cluster
        found.stage, found.outcome = Stage.PREPARED, outcome
        self._ongoing.pop(found, None)
        parts, groups = list(found.parts), list(found.groups)
        found.left = len(parts) + len(groups)
        if found.left and cluster.rng.random() < cluster.faults.straggling:
            cluster.rng.shuffle(parts)
            for tp in parts:
                self._later(partial(self._mark, found, [tp], []), cluster.faults.fetch_slow_seconds)
            for group in groups:
                self._later(partial(self._mark, found, [], [group]), cluster.faults.fetch_slow_seconds)
        else:
            self._later(lambda: self._mark(found, parts, groups), cluster.faults.latency)

    def _later(self, work: Callable[[], None], span: tuple[float, float]) -> None:
        def now() -> None:
            if self._cluster.answers:
                work()
            else:
                self._waiting.append(work)

        self._cluster.loop.call_later(self._cluster.draw(span), now, context=self._cluster.context)

    def _mark(self, found: Transactional, parts: Iterable[TopicPartition], groups: Iterable[str]) -> None:
        cluster = self._cluster
        now = cluster.loop.time()
        timestamp = int((START_SECONDS + now) * 1000)
        if found.leaderless is None:
            # The coordinator looks once who leads, and sends the markers of one broker together.
            losing = self.losing if found.began < self.losing_begun_before else None
            found.leaderless = frozenset(losing or ())
        for tp in parts:
            found.left -= 1
            if tp in found.leaderless:
                self.lost.append((found.id, tp))
                continue
            cluster.logs[tp].mark(found.pid, found.outcome, timestamp, now)
            cluster.written = now
        for group in groups:
            found.left -= 1
            if not self.losing_groups:
                cluster.groups.mark(group, found.pid, commit=found.outcome is Outcome.COMMITTED)
        if found.left <= 0:
            found.parts.clear()
            found.groups.clear()
            found.leaderless = None
            found.stage = Stage.EMPTY
            waiters, found.waiters = found.waiters, []
            for waiter in waiters:
                waiter()

    # What took too long.

    def _arm(self) -> None:
        if self._ongoing and not self._armed:
            self._armed = True
            first = min(found.began + found.timeout for found in self._ongoing)
            delay = max(0.0, first - self._cluster.loop.time()) + self._check * self._cluster.rng.random()
            self._cluster.loop.call_later(delay, self._look, context=self._cluster.context)

    def _look(self) -> None:
        self._armed = False
        if self._cluster.answers:
            now = self._cluster.loop.time()
            for found in [one for one in self._ongoing if one.began + one.timeout <= now]:
                found.epoch += 1
                self._prepare(found, Outcome.ABORTED)
            self._arm()

    def pause(self) -> None:
        """The broker works no more."""

    def go_on(self) -> None:
        """It works again."""
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            self._later(work, self._cluster.faults.latency)
        self._arm()

    @property
    def ongoing(self) -> list[str]:
        """The ids whose transactions are open, or not marked to their end."""
        return [one.id for one in self.by_id.values() if one.stage is not Stage.EMPTY]

    def describe(self) -> dict[str, Any]:
        """For a dump."""
        return {one.id: (one.stage.value, one.epoch, list(one.parts)) for one in self.by_id.values()}
