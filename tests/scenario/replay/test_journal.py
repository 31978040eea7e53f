"""What a journal records, how it is packed, and what happens to steps that are never written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.insight.replay.recording import RecordedRecord, Recording
from moorage.insight.replay.runs import settings_of
from moorage.insight.replay.script import MissingError, records_of
from moorage.runtime.engine import journal
from moorage.runtime.engine.journal import (
    Flag,
    Journal,
    Journals,
    Part,
    TaskBook,
    deciding,
    fits,
    heading,
    microseconds,
    steps_of,
    texts,
    time_of,
)
from moorage.runtime.engine.requests import Refresh, Turn
from moorage.runtime.service import Freshness, Needs
from moorage.runtime.settings.process_settings import Settings
from moorage.workers import placement, timer
from moorage_schemas.topics import RESOURCES, TIMERS, TOPICS

NOW = datetime(2026, 3, 4, 5, 6, 7, 891234, tzinfo=UTC)


@dataclass
class At:
    offset: int


def at(*offsets: int) -> list[At]:
    return [At(offset) for offset in offsets]


def made() -> tuple[Journal, TaskBook]:
    found = Journal("run", timer.service(Settings()), Settings(), partitions=4)
    return found, found.book(2)


def entries(found: Journal) -> list[object]:
    return [entry for part in found.take() for entry in part.entries]


@given(st.sets(st.integers(0, 200), min_size=1))
def test_offsets_are_what_they_were(offsets: set[int]) -> None:
    found, book = made()
    book.folded(TIMERS, at(*sorted(offsets)))
    recording = Recording.of(RecordedRecord("timers", 2, offset, 0, None, None, ()) for offset in range(201))
    *_, entry = entries(found)
    assert isinstance(entry, list)
    assert {one.offset for one in records_of(recording, TIMERS, 2, entry[3:])} == offsets
    recording.places["timers", 2].pop(max(offsets))
    with pytest.raises(MissingError, match=rf"timers/2@{max(offsets)} was read and no longer exists"):
        records_of(recording, TIMERS, 2, entry[3:])


@given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the zone
def test_times_are_exact(when: datetime) -> None:
    assert time_of(microseconds(when)) == when


def test_a_decision_is_one_entry_unless_something_comes_between() -> None:
    found, book = made()
    number = book.decides(NOW)
    assert book.took(lambda: [(TIMERS, at(3)[0]), (TIMERS, at(5)[0])])
    book.resumed(Turn(), None)
    assert book.flag(Flag.POKED, found=True)
    assert not book.flag(Flag.HELD, found=False)
    other = found.book(3)
    book.resumed(Turn(), None)
    assert book.slice(25, 5) == 5
    assert book.slice(5, 5) == 5
    assert book.passed({TIMERS: 9}) == {TIMERS: 9}
    assert other is not book
    head, *rest = entries(found)
    assert isinstance(head, dict)
    assert (head["service"], head["partitions"]) == ("timer", 4)
    place = head["topics"].index("timers")
    assert rest == [
        ["o", 0, 2],
        ["d", 0, microseconds(NOW), [[place, 3, 1, 1, 1]], "t", "p"],
        ["o", 1, 3],
        ["c", 0, "z5", {"m": [place, 9]}],
    ]
    assert number == 2


def test_an_entry_that_was_written_is_not_added_to() -> None:
    found, book = made()
    book.decides(NOW)
    found.take()
    book.resumed(Turn(), None)
    assert entries(found) == [["c", 0]]


def test_what_was_read_anew_is_noted() -> None:
    found, book = made()
    needs = Refresh(Needs(tables=(TIMERS,)))
    book.decides(NOW)
    book.resumed(needs, Freshness(NOW + timedelta(seconds=1), {TIMERS: 7}, {"b": "placement", "a": "taint-manager"}))
    book.resumed(needs, None)
    book.resumed(needs, Freshness(NOW, {TIMERS: 8}))
    assert entries(found)[-1] == [
        *("d", 0, microseconds(NOW)),
        *("t", [microseconds(NOW) + 1_000_000, [7], {"a": "taint-manager", "b": "placement"}]),
        *("t", []),
        *("t", [microseconds(NOW), [8], {}]),
    ]


def test_what_could_not_be_written_is_written_again_under_its_numbers() -> None:
    found, book = made()
    first = found.take()
    book.forgot()
    found.give_back(first)
    assert [(part.first, len(part.entries)) for part in found.take()] == [(0, 2), (2, 1)]
    assert found.take() == []


def test_a_journal_that_nobody_writes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_HEAVY", 100)
    monkeypatch.setattr(journal, "_LOST", 1000)
    found, book = made()
    heavy = []
    for count in (1, 20, 200):
        for _ in range(count):
            book.forgot()
        heavy.append(book.heavy)
    assert heavy == [False, True, False]
    found.give_back([Part(0, [["x", 0]])])
    assert found.take() == []
    assert book.decides(NOW) == -1
    book.took(list)
    book.resumed(Turn(), None)
    assert found.take() == [], "it stays given up"


def test_those_that_share_a_view_share_a_journal() -> None:
    settings = Settings()
    shared = Journals("p", placement.service(settings), settings, partitions=4)
    assert shared.book(0).journal is shared.book(1).journal is shared.shared
    alone = Journals("t", timer.service(settings), settings, partitions=4)
    one, other = alone.book(0).journal, alone.book(1).journal
    assert alone.shared is None
    assert one.run != other.run


@given(st.lists(st.lists(st.integers(0, 1000) | st.text(max_size=5)), max_size=30), st.integers(1, 500))
def test_long_steps_are_split_and_come_back(given_: list[list[object]], size: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(journal, "_PART_BYTES", size)
        packed = texts([Part(5, given_)])
    found: dict[int, object] = {}
    for first, text in packed:
        for begin, some in steps_of(text):
            assert begin == first
            found |= dict(enumerate(some, begin))
    assert found == dict(enumerate(given_, 5))


@pytest.mark.parametrize("text", ["?", "AAAA", ""])
def test_what_is_no_steps_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="steps: "):
        steps_of(text)


def test_a_header_never_makes_a_record_too_large() -> None:
    _, book = made()
    header = heading(book, 5, 1, [Part(0, [["x", 0]])])
    assert orjson.loads(header) == {"run": "run", "tx": [5, 2, 1], "steps": [[0, [["x", 0]]]]}
    limit = RESOURCES.max_message_bytes
    assert fits(header, 1000, limit)
    assert not fits(header, limit - 5000 + 1000, limit)
    assert not fits(b"x" * 5000, 1000, limit)


def test_settings_that_decide_come_back_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    given_ = Settings(
        node_eviction_rate=float("inf"), taint_add_hold=3, bootstrap_servers="there:9092", feature_gates="Failover=true"
    )
    said = orjson.loads(orjson.dumps(deciding(given_)))
    assert said == {"node_eviction_rate": "inf", "taint_add_hold": 3.0, "feature_gates": "Failover=true"}
    monkeypatch.setenv("MOORAGE_TAINT_ADD_HOLD", "99")
    monkeypatch.setenv("MOORAGE_TAINT_REMOVE_HOLD", "99")
    found = settings_of({"settings": said, "partitions": 3})
    assert (found.node_eviction_rate, found.taint_add_hold, found.taint_remove_hold) == (float("inf"), 3.0, 0.0)
    assert (found.failover, found.partitions) == (True, 3)


def test_every_topic_that_is_read_has_a_number() -> None:
    settings = Settings()
    service = placement.service(settings)
    found = Journal("run", service, settings, partitions=1)
    for topic in (*service.sources, *service.changelogs, *service.follows, *service.globals):
        found.viewed(topic, 0, at(1))
    assert {topic.short for topic in TOPICS} >= {topic.short for topic in service.globals}
