"""The lag of upstream services, without Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from aiokafka import TopicPartition

from moorage.runtime.kafka.partition.context import WorkerContext
from moorage.runtime.kafka.partition.upstream_follower import Place, UpstreamFollower
from moorage.runtime.kafka.partition.upstream_lag import UpstreamWatch
from moorage.runtime.kafka.tables.table_reader import TableReader, Tail
from moorage.runtime.service import EVERYTHING, Upstream
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CONDITIONS, RESOURCES, TAINTS, Topic

UPSTREAM = Upstream("taint-manager", (RESOURCES, CONDITIONS), TAINTS, lambda _topic, key, _value: key, via=TAINTS)


class Broker:
    """What is committed, by topic: the keys, the stable ends, and upstream's committed offsets."""

    def __init__(self) -> None:
        self.keys: dict[str, list[str]] = {"resources": [], "conditions": [], "taints": []}
        self.open: dict[str, int] = {}
        self.done: dict[str, int] = {}
        self.asked = 0
        self.added: list[tuple[str, int]] = []
        self._sinks: dict[TopicPartition, tuple[Tail, Callable[[Sequence[Any]], None]]] = {}

    @property
    def read(self) -> list[str]:
        """The topics that are read."""
        return [self.short(tp) for tp in self._sinks]

    @staticmethod
    def short(tp: TopicPartition) -> str:
        return str(tp.topic).split(".")[1]

    async def stable(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self.keys[self.short(tp)]) - self.open.get(self.short(tp), 0) for tp in tps}

    async def end(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self.keys[self.short(tp)]) for tp in tps}

    async def begin(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 0)

    async def committed(self, group: str, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        assert group.endswith(".taint-manager")
        self.asked += 1
        return {tp: self.done[self.short(tp)] for tp in tps if self.short(tp) in self.done}

    def add(self, tp: TopicPartition, position: int, sink: Callable[[Sequence[Any]], None]) -> Tail:
        tail = Tail(tp, sink, position, None)
        self.added.append((self.short(tp), position))
        self._sinks[tp] = (tail, sink)
        return tail

    def remove(self, tails: Iterable[Tail]) -> None:
        for tail in tails:
            self._sinks.pop(tail.tp, None)

    async def reached_all(self, offsets: Mapping[Tail, int]) -> None:
        for tail, offset in offsets.items():
            assert self._sinks[tail.tp][0] is tail, "a reader has one tail of each partition"
            keys = self.keys[self.short(tail.tp)]
            tail.sink(
                [SimpleNamespace(offset=o, key=keys[o].encode(), value=b"") for o in range(tail.position, offset)]
            )
            tail.position = max(tail.position, offset)


class Owner:
    """A partition owner that requests the lag."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.progress: dict[str, int] = {}
        self.below: list[int] = []
        settings = Settings()
        context = SimpleNamespace(
            settings=settings,
            partitions=24,
            offsets=self.broker,
            upstream=UpstreamFollower(cast("TableReader", self.broker), self.broker.begin),
            tp=lambda topic, partition: TopicPartition(topic.name(settings.topic_prefix), partition),
        )
        self.watch = UpstreamWatch(cast("WorkerContext[Any]", context), 0, self._progress)

    def _progress(self, one: Upstream, below: int) -> dict[str, int]:
        assert one is UPSTREAM
        self.below.append(below)
        return self.progress

    async def lagging(self) -> set[str]:
        await self.watch.ask((UPSTREAM,))
        ends = await self.watch.ends((UPSTREAM,), (TAINTS,))
        found = await self.watch.lagging((UPSTREAM,), ends)
        assert set(found.values()) <= {"taint-manager"}
        return set(found)


def put(owner: Owner, topic: Topic, *keys: str) -> None:
    owner.broker.keys[topic.short] += keys


def test_two_services_that_read_one_partition_are_both_followed() -> None:
    other = Upstream("placement", (RESOURCES,), TAINTS, lambda _topic, key, _value: key.upper(), via=TAINTS)

    async def story() -> None:
        broker = Broker()
        follower = UpstreamFollower(cast("TableReader", broker), broker.begin)
        tp = TopicPartition(RESOURCES.name("moorage"), 0)

        async def keys(one: Upstream, floor: int, task: int = 0) -> list[str]:
            place = {Place(one.service, RESOURCES, 0): (tp, floor, len(broker.keys["resources"]))}
            return sorted(await follower.keys(one, place, task=task))

        broker.keys["resources"] = ["a", "b", "c"]
        assert await keys(UPSTREAM, 1) == ["b", "c"]
        assert await keys(other, 0, task=1) == ["A", "B", "C"]
        broker.keys["resources"].append("d")
        assert await keys(UPSTREAM, 1) == ["b", "c", "d"]
        assert await keys(other, 2, task=1) == ["C", "D"]
        follower.forget(1)
        broker.keys["resources"].append("e")
        assert await keys(UPSTREAM, 3) == ["d", "e"]
        follower.forget(0)
        assert broker.read == []

    asyncio.run(story())


def test_keys_behind_are_read_once_and_forgotten_when_they_are_worked_through() -> None:
    async def story() -> None:
        owner = Owner()
        put(owner, RESOURCES, "a", "b", "c")
        owner.broker.done = {"resources": 1, "conditions": 0}
        assert await owner.lagging() == {"b", "c"}
        put(owner, RESOURCES, "d")
        owner.progress = {"resources": 3}
        assert await owner.lagging() == {"d"}
        owner.progress = {"resources": 4}
        assert await owner.lagging() == set()
        assert owner.broker.added == [("resources", 1)]  # none of these requests has opened it again
        assert owner.broker.asked == 1
        owner.watch.close()

    asyncio.run(story())


def test_what_upstream_says_after_the_ends_were_asked_for_counts_from_the_next_ends_on() -> None:
    """Upstream may have written taints since then that were not read."""

    async def story() -> None:
        owner = Owner()
        put(owner, RESOURCES, "a")
        owner.broker.done = {"resources": 0}
        await owner.watch.ask((UPSTREAM,))
        ends = await owner.watch.ends((UPSTREAM,), (TAINTS,))
        owner.broker.done = {"resources": 1}
        put(owner, TAINTS, "a")  # beyond those ends
        assert await owner.watch.lagging((UPSTREAM,), ends) == {"a": "taint-manager"}
        assert await owner.watch.claim((UPSTREAM,))
        assert await owner.watch.lagging((UPSTREAM,), ends) == {"a": "taint-manager"}
        assert await owner.lagging() == set()
        assert not await owner.watch.claim((UPSTREAM,))
        owner.watch.close()

    asyncio.run(story())


def test_only_what_is_read_for_the_decision_tells_how_far_upstream_has_come() -> None:
    """Records beyond the requested ends are not decided on, although they may have been fetched."""

    async def story() -> None:
        owner = Owner()
        put(owner, RESOURCES, "a")
        put(owner, TAINTS, "a", "b")
        ends = await owner.watch.ends((UPSTREAM,), (TAINTS,))
        put(owner, TAINTS, "c")
        await owner.watch.lagging((UPSTREAM,), ends)
        assert owner.below == [2]
        owner.watch.close()

    asyncio.run(story())


async def asked_while_open() -> Owner:
    """An owner that asked while upstream's committed offsets were visible but its taints were not."""
    owner = Owner()
    put(owner, RESOURCES, "a")
    put(owner, TAINTS, "a")
    owner.broker.open = {"taints": 1}
    owner.broker.done = {"resources": 1}
    assert await owner.lagging() == {"a"}
    return owner


def test_what_upstream_says_does_not_count_while_its_transaction_is_open() -> None:
    """Offsets and taints are committed together, but become visible one after the other."""

    async def story() -> None:
        owner = await asked_while_open()
        owner.broker.open = {}
        assert await owner.lagging() == set()
        owner.watch.close()

    asyncio.run(story())


def test_what_upstream_said_while_its_transaction_was_open_does_not_count_when_that_is_aborted() -> None:
    """The markers of the taints were lost, but not those of the offsets. The offsets are reset before the sweep."""

    async def story() -> None:
        owner = await asked_while_open()
        owner.broker.open = {}
        owner.broker.done = {"resources": 0}
        assert await owner.lagging() == {"a"}
        owner.broker.done = {"resources": 1}
        assert await owner.watch.claim((UPSTREAM,))
        assert await owner.lagging() == set()
        owner.watch.close()

    asyncio.run(story())


def test_too_far_behind_is_everything() -> None:
    async def story() -> None:
        owner = Owner()
        put(owner, CONDITIONS, *["a"] * 20_001)
        assert await owner.lagging() == {EVERYTHING}
        assert owner.broker.added == []
        owner.progress = {"conditions": 20_000}
        assert await owner.lagging() == {"a"}
        owner.watch.close()

    asyncio.run(story())
