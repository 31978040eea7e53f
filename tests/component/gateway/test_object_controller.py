"""What settles objects in the background: nothing that fails is forgotten, or stops the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from moorage.apiserver.controllers import object_controller
from moorage.apiserver.controllers.object_controller import ObjectController
from moorage.apiserver.kinds.status.index import Unsettled
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.storage.store import Store


class Toy(ObjectController):
    """Settles names, some of which fail a number of times."""

    what = "toys"
    at_once = 2

    def __init__(self, store: Store, failures: Mapping[str, list[Exception | str]]) -> None:
        self.unsettled = Unsettled()
        super().__init__(store, None, self.unsettled)  # type: ignore[arg-type]  # a toy writes nothing
        self.tried: list[str] = []
        self.done: list[str] = []
        self.all_done = asyncio.Event()
        self._failures = failures

    async def settle(self, name: str) -> str:
        """See `ObjectController`."""
        self.tried.append(name)
        waiting = self._failures.get(name)
        if waiting:
            outcome = waiting.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        self.done.append(name)
        if len(self.done) == 4:
            self.all_done.set()
        return ""


@pytest.fixture
def store() -> Store:
    found = Store()
    found.complete = found.caught_up = True
    return found


def test_what_fails_is_tried_again_and_stops_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_controller, "_PAUSE", 0.0)

    async def story() -> Toy:
        toy = Toy(
            store,
            {"a": [RuntimeError("broken"), "not yet"], "b": [StatusError(503, "no leader", reason="Unavailable")]},
        )
        toy.unsettled.update(["a", "b", "c", "d", "a"])
        working = asyncio.create_task(toy.run())
        assert toy.busy
        toy.applied()
        async with asyncio.timeout(120):
            await toy.all_done.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return toy

    toy = asyncio.run(story())
    assert toy.tried[:4] == ["a", "b", "c", "d"]
    assert toy.done == ["c", "d", "b", "a"]
    assert not toy.unsettled


def test_a_refusal_because_another_write_came_first_is_no_failure(store: Store) -> None:
    async def story() -> Toy:
        toy = Toy(store, {"a": [StatusError(409, "changed", reason="Conflict")]})
        toy.unsettled.add("a")
        assert await toy._settle_all() == {}
        return toy

    assert asyncio.run(story()).tried == ["a"]


def test_nothing_is_settled_before_everything_is_read() -> None:
    async def story() -> Toy:
        toy = Toy(Store(), {})
        toy.unsettled.add("a")
        assert await toy._settle_all() == {}
        return toy

    toy = asyncio.run(story())
    assert (toy.tried, len(toy.unsettled)) == ([], 1)
