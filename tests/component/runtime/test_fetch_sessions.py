"""The book-keeping of fetch sessions, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaError
from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v4, FetchRequest_v7, FetchRequest_v11

from moorage.runtime.kafka.clients.fetch_sessions import FetchSession, SessionFetchRequest

ASSIGNMENT = object()
MOST = 1000


class Consumer:
    """Sends the fetches of one consumer to one broker."""

    def __init__(self) -> None:
        self.session = FetchSession()
        self.assignment: object = ASSIGNMENT

    def fetch(self, **topics: dict[int, int]) -> SessionFetchRequest:
        """A fetch of these partitions from these offsets."""
        whole = [(topic, [(number, offset, MOST) for number, offset in at.items()]) for topic, at in topics.items()]
        return self.session.request(FetchRequest(2000, 1, 10**6, 1, whole), self.assignment)

    def answer(self, *, session: int = 5, code: int = 0, version: int = 11) -> None:
        self.session.answered(SimpleNamespace(API_VERSION=version, error_code=code, session_id=session))


def named(request: SessionFetchRequest) -> dict[str, list[tuple[int, int]]]:
    """The partitions and offsets that a request names."""
    return {topic: [entry[:2] for entry in entries] for topic, entries in request.changed}


def begun(**topics: dict[int, int]) -> Consumer:
    """A consumer with a session of these partitions."""
    consumer = Consumer()
    assert consumer.session.epoch == 0
    whole = consumer.fetch(**topics)
    assert named(whole) == {topic: list(at.items()) for topic, at in topics.items()}
    consumer.answer()
    return consumer


def test_only_what_has_changed_is_named() -> None:
    consumer = begun(a={0: 1, 1: 2}, b={0: 3})
    assert (consumer.session.id, consumer.session.epoch) == (5, 1)
    same = consumer.fetch(a={0: 1, 1: 2}, b={0: 3})
    assert (named(same), same.forgotten) == ({}, [])
    consumer.answer()
    read = consumer.fetch(a={0: 1, 1: 7}, b={0: 3})
    assert (named(read), read.forgotten) == ({"a": [(1, 7)]}, [])
    consumer.answer()
    paused = consumer.fetch(a={0: 1}, c={4: 0})
    assert named(paused) == {"c": [(4, 0)]}
    assert sorted(paused.forgotten) == [("a", [1]), ("b", [0])]
    consumer.answer()
    resumed = consumer.fetch(a={0: 1, 1: 7}, c={4: 0})
    assert (named(resumed), resumed.forgotten) == ({"a": [(1, 7)]}, [])
    assert consumer.session.epoch == 4


def test_all_partitions_stay_part_of_the_request_for_its_sender() -> None:
    consumer = begun(a={0: 1, 1: 2})
    assert consumer.fetch(a={0: 1, 1: 3}).topics == [("a", [(0, 1, MOST), (1, 3, MOST)])]


@pytest.mark.parametrize(("code", "kept"), [(70, 0), (71, 5)])
def test_after_an_error_of_the_session_everything_is_named_in_a_new_one(code: int, kept: int) -> None:
    consumer = begun(a={0: 1, 1: 2})
    consumer.fetch(a={0: 1, 1: 3})
    consumer.answer(session=0, code=code)
    again = consumer.fetch(a={0: 1, 1: 3})
    assert (named(again), again.forgotten) == ({"a": [(0, 1), (1, 3)]}, [])
    assert again.session == (kept, 0), "the broker drops the session that it may still have"
    consumer.answer(session=6)
    assert named(consumer.fetch(a={0: 1, 1: 3})) == {}
    assert (consumer.session.id, consumer.session.epoch) == (6, 1)


def test_another_error_is_raised_so_that_the_next_fetch_comes_after_a_pause() -> None:
    consumer = begun(a={0: 1})
    consumer.fetch(a={0: 1})
    with pytest.raises(KafkaError):
        consumer.answer(session=0, code=-1)
    assert named(consumer.fetch(a={0: 1})) == {"a": [(0, 1)]}


def test_a_lost_answer_ends_the_session() -> None:
    consumer = begun(a={0: 1})
    consumer.fetch(a={0: 2})
    consumer.session.lost()
    again = consumer.fetch(a={0: 2})
    assert (named(again), again.session) == ({"a": [(0, 2)]}, (5, 0))


def test_a_broker_without_room_is_told_everything_each_time() -> None:
    consumer = Consumer()
    for _ in range(3):
        fetch = consumer.fetch(a={0: 1})
        assert (named(fetch), fetch.session) == ({"a": [(0, 1)]}, (0, 0))
        consumer.answer(session=0)


def test_a_session_that_the_broker_closes_begins_again() -> None:
    consumer = begun(a={0: 1})
    consumer.fetch(a={0: 1})
    consumer.answer(session=0)
    assert named(consumer.fetch(a={0: 1})) == {"a": [(0, 1)]}


def test_a_new_assignment_begins_a_session() -> None:
    consumer = begun(a={0: 1})
    consumer.assignment = object()
    again = consumer.fetch(a={0: 1})
    assert (named(again), again.session) == ({"a": [(0, 1)]}, (5, 0))


def test_the_epoch_begins_again_after_the_last() -> None:
    consumer = begun(a={0: 1})
    consumer.session.epoch = 2**31 - 1
    consumer.fetch(a={0: 1})
    consumer.answer()
    assert consumer.session.epoch == 1


def fields(built: Any) -> tuple[int, int, list[Any], list[Any]]:
    return built.session_id, built.session_epoch, built.topics, built.forgotten_topics_data


def test_the_request_has_the_form_of_the_brokers_version() -> None:
    consumer = begun(a={0: 1, 1: 2})
    request = consumer.fetch(a={0: 9})
    assert fields(request.build(FetchRequest_v11)) == (5, 1, [("a", [(0, -1, 9, -1, MOST)])], [("a", [1])])
    assert fields(request.build(FetchRequest_v7)) == (5, 1, [("a", [(0, 9, -1, MOST)])], [("a", [1])])
    assert request.build(FetchRequest_v11).encode()


def test_a_broker_that_knows_no_sessions_gets_everything() -> None:
    consumer = Consumer()
    for _ in range(2):
        built = consumer.fetch(a={0: 9}).build(FetchRequest_v4)
        assert built.topics == [("a", [(0, 9, MOST)])]
        consumer.answer(version=4)
