"""A failed round's history can be checked again from its files."""

from __future__ import annotations

from pathlib import Path

from tests.faults.saved import load, save
from tests.seeded.history import Acknowledged, Entry, History


def test_a_history_comes_back_as_it_was(tmp_path: Path) -> None:
    def entry(order: int, value: bytes | None) -> Entry:
        return Entry(
            topic="taints",
            partition=1,
            offset=order,
            key="Node/n1",
            value=value,
            headers={"ce_id": "x", "moorage-sources": "conditions=3"},
            appended=1.5,
            committed=2.25,
            order=order,
        )

    history = History(
        entries=[entry(0, b'{"a": "\xc3\xa4"}'), entry(1, None), entry(2, b"\xff no text")],
        acknowledged=[Acknowledged(time=3.0, topic="resources", partition=0, offset=7)],
        exact=False,
        began=1.0,
        ended=9.0,
        quiet=True,
        partitions=3,
        skew=0.5,
        settings={"node_eviction_rate": "2"},
    )
    save(history, tmp_path)
    assert load(tmp_path) == history
