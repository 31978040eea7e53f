"""Measures how the cost of every table grows with the fleet, in bytes and processor time. The last line is JSON.

    .venv/bin/python bench/scale.py [--only NAME] [--rounds 3]

For each state of each service, and each unit of a fleet (a node, a workload, …), a process of its own restores N units
and then up to 4N units, as the runtime does: aiokafka parses batches, the codec or the row reader decodes records, and
`apply_row`, `apply` or the global view folds them in. The difference of the two divided by 3N is the slope, so that
what does not depend on the fleet is left out. Nothing waits for a network or a disk, so other load has little effect.

- `bytes`: growth of the resident memory of the process for each unit, after garbage collection. It contains what the
  allocator wastes. Tables are hash tables, which double, so a slope can be a third lower or higher at other sizes.
- `us`: processor time to restore each unit.
- `log_bytes`: bytes of each unit in each topic, as the producer writes them: whole batches with headers, uncompressed.

`decisions` has the processor time of a service for each decision, in a fleet of N and of 4N nodes. It runs all services
in memory on a virtual clock and includes neither decoding nor encoding; those are `read_us` and `write_us` of a record.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that the script runs from any folder
from bench import harness, history, scale_decisions, scale_fleet
from bench.scale_fleet import UNITS, Unit, UnitRecord

from moorage.gateway.derivation import Derivation
from moorage.gateway.object_log import LoggedRecord
from moorage.gateway.store import Store
from moorage.gateway.tables import READ
from moorage.query.tables import QueryTables
from moorage.runtime import codec
from moorage.runtime.app import GC_THRESHOLDS
from moorage.runtime.kafka.global_tables import fold_into_view
from moorage.runtime.service import GlobalView, Input, Service
from moorage.runtime.settings import Settings
from moorage.simulation.copy import run
from moorage.simulation.explain.grounds import TOPICS as EXPLAINED
from moorage_schemas.topics import Topic

T = TypeVar("T")

SIZES: Final = {"node": 1_000}
SIZE: Final = 2_000
"""The units of the smaller fill, N."""

GATEWAY: Final = "gateway"
STATE: Final = "partition"
VIEW: Final = "view"

Fold = Callable[[Topic, list[Any]], None]
"""Folds consumed records of a topic into a table."""


@dataclass(frozen=True, slots=True)
class Place:
    """A state of a service in a process."""

    service: str
    part: str
    """`partition` for what is divided among the workers, `view` for what each process holds whole."""

    topics: tuple[Topic, ...]
    make: Callable[[], tuple[object, Fold, Callable[[], object]]]
    """Returns an empty state, the function that folds records into it, and one to call when all are folded in."""

    @property
    def name(self) -> str:
        """Its name."""
        return f"{self.service} {self.part}"


def partition_of(service: Service[Any]) -> Place:
    """The state of one partition of a service."""
    tables = [topic for topic in service.sources if topic in service.source_tables]
    topics = tuple(dict.fromkeys((*tables, *service.changelogs, *service.follows)))

    def make() -> tuple[object, Fold, Callable[[], object]]:
        state, view = service.new_state(0), service.new_globals()
        if view is not None:
            service.use_globals(state, view)

        def fold(topic: Topic, records: list[Any]) -> None:
            # The same as the engine's `fold`, without what it notes about offsets.
            reader = service.rows.get(topic)
            row_of = None if reader is None else codec.row_decoder(topic, reader)
            for record in records:
                row = None if row_of is None else row_of(record)
                if row is None or not service.apply_row(state, topic, record.key.decode(), row):
                    service.apply(state, topic, *codec.decode_table(topic, record))

        return state, fold, lambda: None

    return Place(service.name, STATE, topics, make)


def view_of(service: Service[Any]) -> Place:
    """The global view of a service."""

    def make() -> tuple[object, Fold, Callable[[], object]]:
        view = service.new_globals()
        if view is None:
            raise TypeError(f"{service.name} has no view")
        whole: GlobalView = view

        def fold(topic: Topic, records: list[Any]) -> None:
            for record in records:
                fold_into_view(whole, topic, record, service=service.name)
            whole.changed()

        return whole, fold, lambda: None

    return Place(service.name, VIEW, service.globals, make)


def gateway() -> Place:
    """The tables of the leading gateway, and the objects that it shows."""

    def make() -> tuple[object, Fold, Callable[[], object]]:
        store = Store()
        derivation = Derivation(store)

        def fold(topic: Topic, records: list[Any]) -> None:
            decoded = (codec.decode(topic, record) for record in records)
            derivation.fold([one for one in decoded if isinstance(one, Input)])

        def finish() -> None:
            store.history.begin(sys.maxsize)  # what is kept of changes is bounded, and does not belong to the objects
            derivation.begin()
            while changes := derivation.take():
                for change in changes:
                    record = LoggedRecord(store.version, change.object_id.key, change.value)
                    store.apply([record])

        return (store, derivation), fold, finish

    return Place(GATEWAY, VIEW, READ, make)


def query() -> Place:
    """The tables of the query worker, placement's view included."""

    def make() -> tuple[object, Fold, Callable[[], object]]:
        tables = QueryTables(Settings())

        def fold(topic: Topic, records: list[Any]) -> None:
            for record in records:
                tables.fold(topic, record)

        return tables, fold, lambda: None

    return Place("query", VIEW, EXPLAINED, make)


def places() -> dict[str, Place]:
    """All states, by name."""
    services = run.services(Settings())
    found = [partition_of(service) for service in services]
    found += [view_of(service) for service in services if service.globals]
    return {place.name: place for place in (*found, gateway(), query())}


def chunks(records: Iterable[UnitRecord], topics: tuple[Topic, ...]) -> Iterator[tuple[Topic, bytes, int]]:
    """Batches of records with their topic and number of records. The records of each topic stay in their order."""
    waiting: dict[str, list[UnitRecord]] = {}
    written = dict.fromkeys((topic.short for topic in topics), 0)
    for record in records:
        short = record.topic.short
        if short in written:
            queue = waiting.setdefault(short, [])
            queue.append(record)
            if len(queue) == scale_fleet.BATCH:
                yield record.topic, scale_fleet.batch(queue, written[short]), len(queue)
                written[short] += len(queue)
                queue.clear()
    for queue in waiting.values():
        if queue:
            yield queue[0].topic, scale_fleet.batch(queue, written[queue[0].topic.short]), len(queue)


def fill(fold: Fold, topics: tuple[Topic, ...], records: Iterable[UnitRecord]) -> tuple[float, int]:
    """Fold records in. Returns the processor seconds of reading them, and how many there were."""
    busy, count = 0.0, 0
    for topic, payload, size in chunks(records, topics):
        began = time.process_time()
        fold(topic, scale_fleet.consumed(topic, payload))
        busy += time.process_time() - began
        count += size
    return busy, count


def slope(place: Place, unit: Unit) -> dict[str, float]:
    """The bytes and the processor time of each unit in a state, from N to 4N units. Empty if it takes none."""
    size = SIZES.get(unit.name, SIZE)
    topics = frozenset(record.topic.short for record in unit.records(0))
    if not topics & {topic.short for topic in place.topics}:
        return {}
    gc.set_threshold(*GC_THRESHOLDS)
    state, fold, finish = place.make()
    fill(fold, place.topics, unit.context(4 * size))
    # What the gateway shows is built once, when all records are read. So its slope begins with no units.
    first = 0 if place.service == GATEWAY else size
    fill(fold, place.topics, itertools.chain.from_iterable(map(unit.records, range(first))))
    gc.collect()
    before = harness.memory()
    busy, count = fill(fold, place.topics, itertools.chain.from_iterable(map(unit.records, range(first, 4 * size))))
    began = time.process_time()
    finish()
    busy += time.process_time() - began
    gc.collect()
    grown, units = max(0, harness.memory() - before), 4 * size - first  # it falls if nothing is kept
    del state
    return {"bytes": round(grown / units), "us": round(busy / units * 1e6, 1), "records": round(count / units, 2)}


def log_bytes(unit: Unit) -> dict[str, int]:
    """The bytes of each unit in each topic."""
    count, found = 2 * scale_fleet.BATCH, dict[str, int]()
    records = list(itertools.chain.from_iterable(map(unit.records, range(count))))
    topics = tuple({record.topic.short: record.topic for record in records}.values())
    for topic, payload, _ in chunks(records, topics):
        found[topic.short] = found.get(topic.short, 0) + len(payload)
    return {short: round(size / count) for short, size in found.items()}


def case(place: str, unit: str) -> dict[str, float]:
    """The slope of a unit in a state, by their names."""
    return slope(places()[place], next(one for one in UNITS if one.name == unit))


def in_process(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a new process. The first fill of a slope takes what the forked heap has free."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(function, arguments)


def measured(place: Place, unit: Unit, rounds: int) -> dict[str, float]:
    """The medians of several processes."""
    found = [in_process(case, place.name, unit.name) for _ in range(rounds)]
    return {name: round(harness.median([one[name] for one in found]), 2) for name in found[0]}


def main() -> int:
    """Measure everything, or one case of which the parent process asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only states whose name contains this")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    known = places()
    slopes: dict[str, dict[str, Any]] = {}
    for place in known.values():
        if options.only not in place.name:
            continue
        for unit in UNITS:
            found = measured(place, unit, options.rounds)
            if found and found["records"]:
                slopes.setdefault(place.name, {})[unit.name] = found
                harness.note(f"{place.name:26} {unit.name:16} {found}")
    result: dict[str, Any] = {
        "bench": "scale",
        "what": "memory and processor time for each unit of a fleet in each state, bytes in each topic, decisions",
        "rounds": options.rounds,
        "units": {unit.name: unit.what for unit in UNITS},
        "slopes": slopes,
        "log_bytes": {unit.name: log_bytes(unit) for unit in UNITS},
    }
    if not options.only:
        result["decisions"] = in_process(scale_decisions.measure)
        scale_decisions.note(result["decisions"])
    history.record(result)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
