"""Bugs of chains: what is handed over in memory, and under which offset; what waits to be written."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from tests.chaos.seeded.bugs.registry import Change, bug

from moorage.runtime.engine.chain import PartitionChain
from moorage.runtime.engine.requests import Refresh
from moorage.runtime.kafka.clients.fenced_producer import PartitionProducer
from moorage.runtime.service import Freshness, Needs

_WRITE = PartitionProducer.write
_PREPARE = PartitionChain.prepare
_SETTLE = PartitionChain._prepare


@bug(
    "undrained",
    "A service of a chain decides without those before it having read what was accepted.",
    "on the way",
    chained=True,
)
def _() -> list[Change]:
    def refresh(
        self: Any, place: int, request: Refresh, _now: Any, _decision: Any
    ) -> Generator[Any, Any, Freshness | None]:
        needs = request.needs
        tables = tuple(topic for topic in needs.tables if topic not in self.inner)
        found: Freshness | None = yield place, Refresh(Needs(tables, needs.globals, (), needs.keys))
        if found is None:
            return None
        inner = {topic: self._next[topic.short] for topic in needs.tables if topic in self.inner}
        return Freshness(found.now, {**found.ends, **inner}, {}, found.keys)

    return [(PartitionChain, "_refresh", refresh)]


@bug("unmarked", "Offsets of what is handed over are predicted without markers, and not compared.", chained=True)
def _() -> list[Change]:
    async def write(self: Any, records: Any, offsets: Any, *, within: float | None = None, **_: Any) -> None:
        await _WRITE(self, records, offsets, within=within)

    def prepare(self: Any, decision: Any) -> Any:
        made = _PREPARE(self, decision)
        for topic in made.expected if made is not None else ():
            self._next[topic.short] -= 1
        return made

    return [(PartitionProducer, "write", write), (PartitionChain, "prepare", prepare)]


@bug("handed-over-twice", "What is handed over is fetched as well.", chained=True)
def _() -> list[Change]:
    def offer(self: Any, topic: Any, records: Any) -> None:
        for place in self._readers[topic.short]:
            self.engines[place].offer(topic, records)

    wanted = property(lambda self: self.sources if self.caught_up else _WANTED(self))
    return [(PartitionChain, "offer", offer), (PartitionChain, "wanted", wanted)]


@bug("waited-unwritten", "Records that may wait are never written, but the offsets that they rest on are.", "sources")
def _() -> list[Change]:
    def prepare(self: Any, decided: Any) -> Any:
        waited = {id(share) for share in self._kept}
        return _SETTLE(self, [share for share in decided if id(share) not in waited])

    return [(PartitionChain, "_prepare", prepare)]


_WANTED: Any = PartitionChain.wanted.fget  # type: ignore[attr-defined]  # mypy takes a property for its value
