"""The browser of the tests. Without one, the tests that need it are not collected; the run's end says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from tests.support import browsers


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not browsers.program():
        items[:] = [one for one in items if "browser" not in getattr(one, "fixturenames", ())]


@pytest_asyncio.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with browsers.running_browser() as found:
        yield found
