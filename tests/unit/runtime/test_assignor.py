"""What workers tell each other through Kafka's consumer protocol about who has which partitions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from moorage.runtime.kafka.partition.assignor import StickyAssignor

TOPICS = ("taints", "bindings")


class Member:
    """A worker with its part of the assignor."""

    def __init__(self, warm: Iterable[int] = ()) -> None:
        self.owned: list[int] = []
        self.warm = list(warm)
        self.assignor = StickyAssignor(
            owned=lambda: self.owned, cold=tuple, warm=lambda: self.warm, partitions=6, standbys=1
        )

    def report(self, topics: Sequence[str] = TOPICS) -> ConsumerProtocolMemberMetadata:
        """What it sends, after the way through bytes."""
        return ConsumerProtocolMemberMetadata.decode(self.assignor.metadata(topics).encode())

    def hear(self, assignment: ConsumerProtocolMemberAssignment) -> None:
        decoded = ConsumerProtocolMemberAssignment.decode(assignment.encode())
        self.assignor.on_assignment(decoded)
        self.owned = sorted({tp.partition for tp in decoded.partitions()})


def divided(members: dict[str, Member]) -> None:
    leader = next(iter(members.values()))
    for name, given in leader.assignor.assign(None, {name: one.report() for name, one in members.items()}).items():
        members[name].hear(given)


def test_each_gets_its_partitions_of_every_topic_and_learns_for_which_it_stands_by() -> None:
    members = {"a": Member(), "b": Member()}
    reports = {name: one.report() for name, one in members.items()}
    found = members["a"].assignor.assign(None, reports)
    for given in found.values():
        by_topic = dict(given.assignment)
        assert by_topic["taints"] == by_topic["bindings"]
    divided(members)
    assert sorted(members["a"].owned + members["b"].owned) == list(range(6))
    assert sorted(members["a"].assignor.standby) == members["b"].owned


def test_partitions_stay_where_they_are_while_others_come_and_go() -> None:
    members = {"a": Member(), "b": Member()}
    divided(members)
    before = {name: list(one.owned) for name, one in members.items()}
    members["c"] = Member()
    divided(members)
    assert {name: members[name].owned for name in "ab"} == before, "the new one is not warm"
    members["c"].warm = list(members["c"].assignor.standby)
    divided(members)
    assert [len(one.owned) for one in members.values()] == [2, 2, 2]
    del members["b"]
    kept = {name: set(one.owned) for name, one in members.items()}
    divided(members)
    assert all(kept[name] <= set(one.owned) for name, one in members.items())


def test_a_worker_that_was_away_does_not_take_back_what_it_had() -> None:
    members = {"a": Member(), "b": Member()}
    divided(members)
    away = members.pop("b")
    divided(members)
    divided(members | {"b": away})
    assert set(members["a"].owned) >= {0, 1, 2, 3, 4, 5} - set(away.owned)
    assert not set(members["a"].owned) & set(away.owned)


def test_a_member_of_a_version_with_fewer_topics_gets_its_own_only() -> None:
    members = {"a": Member(), "b": Member()}
    reports = {"a": members["a"].report(), "b": members["b"].report(("taints",))}
    found = members["a"].assignor.assign(None, reports)
    assert {topic for topic, _ in found["b"].assignment} == {"taints"}
    assert {topic for topic, _ in found["a"].assignment} == set(TOPICS)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"owned": 3, "round": 1}', b'{"owned": ["x"], "round": 1}'])
def test_a_report_that_makes_no_sense_is_that_of_a_new_worker(data: bytes) -> None:
    member = Member()
    found = member.assignor.assign(None, {"a": ConsumerProtocolMemberMetadata(0, list(TOPICS), data)})
    assert [tp.partition for tp in found["a"].partitions() if tp.topic == "taints"] == list(range(6))


def test_an_assignment_without_a_word_makes_nobody_a_standby() -> None:
    member = Member()
    member.assignor.on_assignment(ConsumerProtocolMemberAssignment(0, [], b""))
    assert member.assignor.standby == frozenset()
