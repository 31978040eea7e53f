"""The index of chains finds all records, and forgets those that can no longer be requested."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moorage.insight.query import chain_index
from moorage.insight.query.chain_index import YOUNG_SECONDS, ChainIndex, rounds_of, spans_of
from moorage.insight.query.query_tables import QueryTables
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CONDITIONS, TAINTS, TIMERS

NOW = 1_800_000_000.0
PLACES = {TIMERS: (0, 1), CONDITIONS: (0,)}


def record(
    offset: int,
    correlation: str = "",
    *,
    id: str = "",  # noqa: A002 - the attribute's own name
    key: str = "k",
    partition: int = 0,
    age: float = 0.0,
) -> Any:
    headers = [("ce_id", (id or f"id-{offset}").encode()), ("ce_source", b"s")]
    headers += [("ce_correlationid", correlation.encode())] if correlation else []
    stamp = int((NOW - age) * 1000)
    return SimpleNamespace(offset=offset, partition=partition, key=key.encode(), headers=headers, timestamp=stamp)


def with_chains(*correlations: str) -> QueryTables:
    """Tables with records of some chains."""
    tables = QueryTables(Settings(partitions=3))
    for offset, name in enumerate(correlations):
        tables.fold(
            TAINTS,
            SimpleNamespace(
                partition=0,
                offset=offset,
                key=f"Node/{name}".encode(),
                value=None,
                timestamp=int(NOW * 1000),
                headers=[
                    ("ce_specversion", b"1.0"),
                    ("ce_id", f"taints-{name}".encode()),
                    ("ce_source", b"s"),
                    ("ce_type", TAINTS.event_type.encode()),
                    ("ce_correlationid", name.encode()),
                ],
            ),
        )
    assert set(tables.correlations()) == set(correlations)
    return tables


def found(index: ChainIndex, *wanted: str) -> dict[tuple[str, int], list[int]]:
    places = index.find(PLACES, [one.encode() for one in wanted])
    return {(topic.short, partition): offsets for (topic, partition), offsets in places.items()}


def test_records_are_found_by_their_chain_and_the_first_by_its_own_id() -> None:
    index = ChainIndex(with_chains(), NOW)
    index.fold(TIMERS, record(3, id="first"))
    index.fold(TIMERS, record(4, "first"))
    index.fold(TIMERS, record(5, "other"))
    index.fold(TIMERS, record(9, "first", partition=1))
    index.fold(CONDITIONS, record(1, "first"))
    index.fold(CONDITIONS, record(2, "first", partition=1))  # not at the place where it is searched
    assert found(index, "first") == {("timers", 0): [3, 4], ("timers", 1): [9], ("conditions", 0): [1]}
    assert found(index, "first", "other")["timers", 0] == [3, 4, 5]
    assert found(index, "nothing") == {}


def test_a_record_without_attributes_is_nobodys() -> None:
    index = ChainIndex(with_chains(), NOW)
    index.fold(TIMERS, SimpleNamespace(offset=1, partition=0, headers=[], timestamp=int(NOW * 1000)))
    assert index.size == 0


def test_of_what_is_old_only_the_chains_of_the_tables_are_taken_in() -> None:
    index = ChainIndex(with_chains("wanted"), NOW)
    index.fold(TIMERS, record(1, "wanted", age=YOUNG_SECONDS + 60))
    index.fold(TIMERS, record(2, "heartbeat", age=YOUNG_SECONDS + 60))
    index.fold(TIMERS, record(3, "heartbeat", age=YOUNG_SECONDS - 60))
    assert found(index, "wanted", "heartbeat") == {("timers", 0): [1, 3]}


def test_what_leads_to_nothing_is_forgotten_once_it_is_old() -> None:
    index = ChainIndex(with_chains("wanted"), NOW)
    index.fold(TIMERS, record(1, "wanted"))
    index.fold(TIMERS, record(2, "heartbeat"))
    sizes = []
    for number in range(5):
        list(index.sweep())  # at half of the time for which a record counts as young
        sizes.append(index.size)
        index.fold(TIMERS, record(3 + number, "heartbeat"))
    assert sizes[:2] == [2, 3], "what came before the sweep is young for two more"
    assert max(sizes) == 3, "and it does not grow"
    assert found(index, "wanted") == {("timers", 0): [1]}
    assert 2 not in found(index, "heartbeat")["timers", 0]
    assert found(index, "heartbeat")["timers", 0][-1] == 7


def test_of_a_timer_that_is_set_again_and_again_in_one_chain_the_last_records_are_kept() -> None:
    index = ChainIndex(with_chains("watch"), NOW)
    for offset in range(500):
        index.fold(TIMERS, record(offset, "watch", key=f"heartbeat-{offset % 2}"))
    index.fold(TIMERS, record(500, "watch", key="evict"))
    for _ in range(3):
        list(index.sweep())
    assert found(index, "watch")["timers", 0] == [*range(500 - 2 * 64, 501)]


def test_what_is_old_from_the_beginning_is_dropped_at_once_and_what_is_young_is_not() -> None:
    index = ChainIndex(with_chains("watch"), NOW)
    for offset in range(200):
        index.fold(TIMERS, record(offset, "watch", age=YOUNG_SECONDS + 60))
    for offset in range(200, 210):
        index.fold(TIMERS, record(offset, "heartbeat"))
    for _ in range(5):
        list(index.sweep(ages=False))
    assert found(index, "watch")["timers", 0] == [*range(136, 200)]
    assert len(found(index, "heartbeat")["timers", 0]) == 10, "no time has passed"


@given(st.lists(st.integers(0, 3)), st.integers(1, 4))
def test_the_last_of_each_are_those_that_a_list_would_keep(values: list[int], count: int) -> None:
    wanted = [values[at + 1 :].count(value) < count for at, value in enumerate(values)]
    assert chain_index._last_of_each(np.array(values, dtype=np.uint64), count).tolist() == wanted


@given(st.sets(st.integers(0, 300)), st.integers(0, 20))
def test_ranges_hold_every_offset_and_skip_wide_gaps(offsets: set[int], gap: int) -> None:
    spans = spans_of(sorted(offsets), gap)
    assert {offset for span in spans for offset in span} >= offsets
    assert all(span.start in offsets and span.stop - 1 in offsets for span in spans)
    assert all(later.start - earlier.stop > gap for earlier, later in pairwise(spans))


def test_of_each_partition_one_range_is_read_at_a_time() -> None:
    places = {(TIMERS, 0): [1, 2, 50], (CONDITIONS, 1): [7]}
    turns = list(rounds_of(places, 5))
    assert turns == [{(TIMERS, 0): range(1, 3), (CONDITIONS, 1): range(7, 8)}, {(TIMERS, 0): range(50, 51)}]
    assert list(rounds_of({}, 5)) == []


def test_it_knows_the_topics_in_which_older_records_are_looked_for() -> None:
    assert len(set(chain_index.TOPICS)) == len(chain_index.TOPICS)
    assert {TAINTS, TIMERS, CONDITIONS} <= set(chain_index.TOPICS)


def test_earlier_records_of_taints_are_found_by_their_keys_whatever_their_chains_are() -> None:
    index = ChainIndex(with_chains(), NOW)
    for offset in range(40):
        index.fold(TAINTS, record(offset, f"chain-{offset}", key="Node/n1", age=YOUNG_SECONDS * 2))
        index.fold(CONDITIONS, record(offset, f"chain-{offset}", key="Node/n1", age=YOUNG_SECONDS * 2))
    index.fold(TAINTS, record(40, "other", key="Node/n2", age=YOUNG_SECONDS * 2))
    assert index.find_key(TAINTS, 0, "Node/n1") == list(range(40))
    for _ in range(3):
        for _ in index.sweep():
            pass
    assert index.find_key(TAINTS, 0, "Node/n1") == list(range(24, 40)), "the last ones stay"
    assert index.find_key(TAINTS, 0, "Node/n2") == [40]
    assert index.find_key(TAINTS, 1, "Node/n1") == []
    assert index.find_key(CONDITIONS, 0, "Node/n1") == [], "others are found by their chains"
