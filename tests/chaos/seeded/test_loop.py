"""Virtual time, and processes that are killed and stopped on it."""

from __future__ import annotations

import asyncio
import gc
from datetime import timedelta
from typing import Any

import pytest
from tests.chaos.seeded.kafka.loop import START, Process, State, StuckError, VirtualLoop, current_process


def test_time_passes_only_when_nothing_is_left_to_do() -> None:
    loop = VirtualLoop()
    seen: list[tuple[float, str]] = []

    async def one(name: str, *pauses: float) -> None:
        for pause in pauses:
            await asyncio.sleep(pause)
            seen.append((loop.time(), name))

    async def main() -> None:
        await asyncio.gather(one("a", 1.0, 1.0), one("b", 0.5, 1.5), one("c", 3600.0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(10):
                await asyncio.Event().wait()

    loop.play(main())
    assert sorted(seen) == [(0.5, "b"), (1.0, "a"), (2.0, "a"), (2.0, "b"), (3600.0, "c")]
    assert [time for time, _ in seen] == [0.5, 1.0, 2.0, 2.0, 3600.0]
    assert loop.time() == 3610.0


def test_a_hang_is_told_with_what_everybody_waits_for() -> None:
    async def lost_in_thought() -> None:
        await asyncio.Event().wait()

    loop = VirtualLoop()
    with pytest.raises(StuckError, match=r"everybody waits at 0\.000 s(.|\n)*lost_in_thought"):
        loop.play(lost_in_thought())

    async def restless() -> None:
        while True:  # noqa: ASYNC110 - a task that never ends is the point
            await asyncio.sleep(0)

    loop = VirtualLoop(max_steps=1000)
    with pytest.raises(StuckError, match="1001 steps"):
        loop.play(restless())

    async def slow() -> None:
        while True:  # noqa: ASYNC110 - as above
            await asyncio.sleep(60)

    loop = VirtualLoop(max_time=3600)
    with pytest.raises(StuckError, match=r"not at an end after 3600\.000 virtual"):
        loop.play(slow())


def test_a_task_that_waits_for_ever_is_not_thrown_away() -> None:
    loop = VirtualLoop()

    async def lost() -> None:
        await loop.create_future()  # nobody but the task itself knows of it

    async def failing() -> None:
        raise ValueError("nobody asks")

    async def main() -> None:
        for _ in range(3):
            asyncio.create_task(lost())  # noqa: RUF006 - that nobody keeps it is the point
        asyncio.create_task(failing())  # noqa: RUF006 - as above
        await asyncio.sleep(1)
        gc.collect()

    loop.play(main())
    assert [str(one["exception"]) for one in loop.unhandled] == ["nobody asks"]


def play(*parts: Any) -> None:
    """Run functions of a process, each with the loop's."""
    (main,) = parts
    loop = VirtualLoop(max_steps=10_000)
    process = Process(loop, "p")
    loop.play(main(loop, process))
    assert not loop.unhandled


def test_a_killed_process_does_nothing_more_not_even_what_it_does_at_last() -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            done.append("begun")
            assert current_process() is not None
            await asyncio.gather(asyncio.sleep(1), asyncio.create_task(inner()))
        finally:
            done.append("cleaned up")

    async def inner() -> None:
        try:
            await asyncio.sleep(1)
            done.append("finished")
        finally:
            done.append("cleaned up inside")

    async def main(_: VirtualLoop, process: Process) -> None:
        task = process.spawn(work())
        await asyncio.sleep(0.5)
        process.crash()
        task.cancel()
        await asyncio.sleep(5)
        assert done == ["begun"]
        assert process.state is State.DEAD
        assert not process.alive

    play(main)


def test_a_stopped_process_goes_on_where_it_was() -> None:
    done: list[float] = []

    async def main(loop: VirtualLoop, process: Process) -> None:
        async def work() -> None:
            for _ in range(4):
                await asyncio.sleep(1)
                done.append(loop.time())

        task = process.spawn(work())
        await asyncio.sleep(1.5)
        process.pause()
        await asyncio.sleep(8.5)
        assert done == [1.0]
        process.resume()
        await task
        assert done == [1.0, 10.0, 11.0, 12.0]

    play(main)


def test_a_clock_that_is_set_moves_those_who_sleep_on_it_and_nobody_wakes_early() -> None:
    async def main(loop: VirtualLoop, process: Process) -> None:
        clock = process.clock
        assert clock.now() == START
        when = START + timedelta(seconds=10, microseconds=1)
        sleeping = process.spawn(clock.sleep_until(when))
        await asyncio.sleep(1)
        clock.set_skew(5.0)
        await sleeping
        assert clock.now() >= when
        assert loop.time() == pytest.approx(5.000001)
        clock.set_skew(-5.0)
        assert clock.now() == START + timedelta(seconds=loop.time() - 5.0)
        await clock.sleep_until(clock.now() + timedelta(seconds=1))
        assert loop.time() == pytest.approx(6.000001)

    play(main)


def test_a_step_can_be_the_last() -> None:
    """`before_step` is called between any two awaits of anybody."""
    done: list[int] = []

    async def work() -> None:
        for number in range(100):
            done.append(number)
            await asyncio.sleep(0)

    async def main(loop: VirtualLoop, process: Process) -> None:
        process.spawn(work())

        def look() -> None:
            if len(done) == 7:
                process.crash()

        loop.before_step = look
        await asyncio.sleep(1)
        assert done == list(range(7))

    play(main)


async def test_threads_are_refused() -> None:
    loop = VirtualLoop()
    try:
        with pytest.raises(RuntimeError, match="no threads"):
            loop.run_in_executor(None, print)
        with pytest.raises(RuntimeError, match="no threads"):
            loop.call_soon_threadsafe(print)
    finally:
        loop.close()
