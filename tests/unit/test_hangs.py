from __future__ import annotations

import asyncio
import tempfile

from tests.support import hangs


async def test_a_task_that_waits_is_shown_by_its_line() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(waits_for_ever())
    await asyncio.sleep(0)
    with tempfile.TemporaryFile("w+") as file:
        hangs.show("test_x did not end within 900 s", file)
        file.seek(0)
        shown = file.read()
    task.cancel()
    assert shown.startswith("\ntest_x did not end within 900 s\n")
    assert "await asyncio.Event().wait()" in shown
    assert "most recent call first" in shown
