"""What somebody else undoes is written again, and less and less often."""

from __future__ import annotations

import asyncio

from tests.support.virtual_time import virtual_time

from moorage.bridges.engine.acts import Contention


class Fight:
    """An object of which somebody undoes at once what is written."""

    def __init__(self) -> None:
        self.noticed: list[str] = []
        self.contention = Contention("taints", self._later, self.noticed.append)
        self.looks: list[tuple[str, float]] = []

    def _later(self, key: str, seconds: float) -> None:
        self.looks.append((key, seconds))

    def write(self, content: str, key: str = "c1") -> bool:
        """Write unless it has to wait. Return whether it was written."""
        if self.contention.holds(key, content):
            return False
        self.contention.written(key, content)
        return True

    async def writes_within(self, seconds: float) -> list[float]:
        """The times of writes of the same, with a look whenever one is due."""
        loop, found = asyncio.get_running_loop(), list[float]()
        began = loop.time()
        while loop.time() < began + seconds:
            if self.write("a"):
                found.append(loop.time() - began)
            else:
                await asyncio.sleep(self.looks[-1][1])
        return found


@virtual_time
async def test_the_same_is_written_three_times_at_once_and_then_with_longer_pauses() -> None:
    fight = Fight()
    times = [round(one) for one in await fight.writes_within(1000)]
    assert times == [0, 0, 0, 5, 15, 35, 75, 155, 315, 615, 915]
    assert fight.noticed == ["c1"] * 9, "each time from the third on"


@virtual_time
async def test_something_else_is_written_at_once() -> None:
    fight = Fight()
    assert [fight.write("a") for _ in range(4)] == [True, True, True, False]
    assert fight.write("b")
    assert fight.write("a")
    assert fight.write("a", key="c2")


@virtual_time
async def test_what_changes_to_and_fro_by_itself_is_no_contradiction() -> None:
    fight = Fight()
    assert all(fight.write(content) for _ in range(20) for content in ("a", "b"))
    assert not fight.noticed


@virtual_time
async def test_after_a_quiet_time_the_same_is_written_at_once_again() -> None:
    fight = Fight()
    await fight.writes_within(30)
    await asyncio.sleep(601)
    assert [fight.write("a") for _ in range(4)] == [True, True, True, False]
    fight.contention.gone("c1")
    assert fight.write("a")


@virtual_time
async def test_what_nobody_has_undone_for_long_is_forgotten() -> None:
    """A year of objects that come and go does not stay in memory."""
    fight = Fight()
    for number in range(1000):
        fight.write("a", key=f"c{number}")
        await asyncio.sleep(1)
    assert 10 <= len(fight.contention._written) <= 70
    await fight.writes_within(40)
    await asyncio.sleep(20)
    fight.write("a", key="another")
    assert len(fight.contention._written) == 2
    fight.noticed.clear()
    assert fight.write("a")
    assert fight.noticed == ["c1"], "somebody may still contradict"
