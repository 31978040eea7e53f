"""The browser in which the console is tested: Debian's Chromium, without a window."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = (
    "--no-sandbox",  # root has none, and every page is our own
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--disable-lcd-text",
)

_WAITS: Final = 60_000
"""Milliseconds for which a test waits until a page is as it should be. The default is too short beside other tests."""

expect.set_options(timeout=_WAITS)


@cache
def program() -> str:
    """The browser's path. Empty if there is none."""
    return next((found for name in _NAMES if (found := shutil.which(name))), "")


def told() -> str:
    """What the header of a run says of it."""
    return program() or "MISSING: THE CONSOLE'S PAGES ARE NOT TRIED IN A BROWSER (`make tools` installs it)"


@dataclass
class Tab:
    """A page in the browser, and everything in it that is wrong."""

    page: Page
    wrong: list[str] = field(default_factory=list)
    """Errors and warnings of the console, uncaught errors, refusals by the content security policy, failed requests."""

    def expect_nothing_wrong(self) -> None:
        assert self.wrong == []

    async def violations(self) -> list[str]:
        """What axe finds: each rule that is broken, with where."""
        options = {"resultTypes": ["violations"]}
        found: dict[str, Any] = (await Axe().run(self.page, options=options)).response
        return [
            f"{one['id']}: {one['help']}: {[node['target'] for node in one['nodes']][:3]}"
            for one in found["violations"]
        ]

    async def focused(self) -> str:
        """The text of what has the focus."""
        return str(await self.page.evaluate("document.activeElement.innerText || document.activeElement.id || ''"))


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """The browser, within the context."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program(), args=list(_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened(browser: Browser, *, tolerated: Sequence[str] = (), **options: Any) -> AsyncIterator[Tab]:
    """A tab of a context of its own. Nothing in it may go wrong but what contains one of the tolerated texts."""
    context: BrowserContext = await browser.new_context(**options)
    try:
        tab = Tab(await context.new_page())

        def note(what: str) -> None:
            if not any(one in what for one in tolerated):
                tab.wrong.append(what)

        page = tab.page
        page.set_default_timeout(_WAITS)
        page.on(
            "console", lambda said: note(f"{said.type}: {said.text}") if said.type in {"error", "warning"} else None
        )
        page.on("pageerror", lambda error: note(f"uncaught: {error}"))
        page.on("response", lambda got: note(f"{got.status} {got.url}") if got.status >= 400 else None)
        yield tab
        tab.expect_nothing_wrong()
    finally:
        await context.close()
