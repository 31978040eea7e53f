"""Which reports are kept while Moorage cannot be reached."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.envelope import Meta
from moorage_schemas.refs import TargetRef
from moorage_sdk.outbox import Outbox, Report

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def report(number: int, node: str) -> Report:
    event = ConditionReported(
        target=TargetRef.parse(f"Node/{node}"),
        type="Ready",
        status=ConditionStatus.TRUE,
        observed_time=NOW + timedelta(seconds=number),
    )
    return Report(event, Meta(str(number), "probe", event.event_type))


@given(st.lists(st.one_of(st.sampled_from("abcdef"), st.integers(1, 4)), max_size=60), st.integers(1, 8))
def test_the_newest_of_each_condition_always_waits(steps: list[str | int], most: int) -> None:
    outbox = Outbox(most)
    newest: dict[str, str] = {}
    sent: list[str] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            batch = outbox.first(step)
            sent += [one.meta.id for _, one in batch]
            outbox.remove(place for place, _ in batch)
        else:
            outbox.add(report(number, step))
            newest[step] = str(number)
        waiting = [one.meta.id for _, one in outbox.first(1000)]
        assert len(waiting) == len(outbox) <= max(most, len(newest))
        assert waiting == sorted(waiting, key=int), "in the order in which they were made"
        for node, last in newest.items():
            assert last in waiting or last in sent
            assert outbox.waits((f"Node/{node}", "", "Ready")) is (last in waiting)
    made = len([step for step in steps if isinstance(step, str)])
    assert made == len(sent) + len(outbox) + outbox.dropped
