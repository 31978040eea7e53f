"""What was restored is not looked at by later garbage collections, and is freed nevertheless."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moorage.runtime.process import memory
from moorage.runtime.process.member import Member
from moorage.runtime.process.memory import Freezing, freeze


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """What the tests of this process have is not frozen after them."""
    yield
    gc.unfreeze()


class Row:
    """An object of a state."""

    def __init__(self) -> None:
        self.of: Row | None = None


def looked_at(row: Row) -> bool:
    """Whether a full collection looks at an object."""
    return any(one is row for one in gc.get_objects())


def test_a_collection_does_not_look_at_what_was_there_before() -> None:
    before = Row()
    assert looked_at(before)
    freeze()
    after = Row()
    assert not looked_at(before)
    assert looked_at(after)


def test_what_nothing_refers_to_is_freed_at_once() -> None:
    row = Row()
    gone = weakref.ref(row)
    freeze()
    del row
    assert gone() is None


def test_cycles_are_freed_with_the_next_freeze(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST", sys.maxsize)  # the process of the tests may have more objects
    row = Row()
    row.of = row
    gone = weakref.ref(row)
    freeze()
    del row
    gc.collect()
    assert gone() is not None
    freeze()
    assert gone() is None


def test_of_a_great_many_objects_only_the_young_ones_are_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    monkeypatch.setattr(memory, "_MOST", 10)
    gc.callbacks.append(lambda what, info: collected.append(info["generation"]) if what == "start" else None)
    try:
        assert freeze() > 10
    finally:
        gc.callbacks.pop()
    assert max(collected) == 1


class Process:
    """A process with one member that has one owner."""

    def __init__(self) -> None:
        self.owner = SimpleNamespace(idle=True)
        self.member = SimpleNamespace(ready=True, restored=1, tasks={0: self.owner})
        self.frozen = 0
        self.objects = 1000
        self.freezing = Freezing([cast("Member", self.member)], freeze=self._freeze)

    def _freeze(self) -> int:
        self.frozen += 1
        return self.objects

    def after(self, **changes: Any) -> int:
        """How often it has frozen after a change and a look."""
        for name, value in changes.items():
            setattr(self.owner if name == "idle" else self.member, name, value)
        self.freezing.check()
        return self.frozen


async def test_it_freezes_after_restores_when_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_EVERY", 0.0)
    process = Process()
    process.freezing.now()
    assert process.after() == 1, "nothing was restored"
    assert process.after(restored=2, idle=False) == 1, "a partition is busy"
    assert process.after(idle=True, ready=False) == 1, "a partition is restoring"
    assert process.after(ready=True) == 2
    assert process.after() == 2


async def test_it_freezes_once_in_a_while() -> None:
    process = Process()
    process.freezing.now()
    assert process.after(restored=2) == 1
    process.freezing._at -= memory._EVERY
    assert process.after() == 2


async def test_a_process_in_which_a_collection_takes_long_freezes_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_EVERY", 0.0)
    process = Process()
    process.objects = memory._MOST + 1
    process.freezing.now()
    assert process.after(restored=2) == 1
