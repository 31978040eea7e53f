"""Screenshots of the incident in a real browser: the console, Prometheus, the trace, and outputs of commands."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlencode

from PIL import Image
from playwright.async_api import Browser, expect
from rich.ansi import AnsiDecoder
from rich.console import Console
from tests.console.test_layout import BROKEN_WORDS, NEEDLESS_WRAPS
from tests.support.browsers import Tab, opened
from tests.support.incident.story import ALERTS

Scheme = Literal["light", "dark"]

WIDE, NARROW, COLUMNS = 1280, 390, 140
LOOKS: Final[Mapping[str, tuple[Scheme, int]]] = {
    "light": ("light", WIDE),
    "dark": ("dark", WIDE),
    "phone": ("light", NARROW),
}
"""Color scheme and width of the window, by the end of the name of a screenshot."""

_TOO_WIDE: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass(frozen=True, slots=True)
class ConsoleShot:
    """A page of the console, and the texts that it must show."""

    name: str
    path: str
    texts: tuple[str, ...]
    """Regular expressions."""


async def console_page(
    browser: Browser, server: str, shot: ConsoleShot, folder: Path, looks: Iterable[str]
) -> list[str]:
    """Write screenshots of a page in some looks, and return what is wrong with it.

    Its texts must be there. Words may not break, and nothing may wrap while there is room. Nothing may fail in it, and
    axe finds no fault of accessibility in light and dark.
    """
    wrong: list[str] = []
    for look in looks:
        scheme, width = LOOKS[look]
        where = f"console {shot.path} ({look})"
        try:
            async with opened(browser, color_scheme=scheme, viewport={"width": width, "height": 800}) as tab:
                await tab.page.goto(server + shot.path)
                await expect(tab.page.locator("main")).to_be_visible()
                text = " ".join((await tab.page.locator("body").inner_text()).split())
                wrong += [f"{where}: no text matches {one!r}" for one in shot.texts if not re.search(one, text)]
                wrong += await _faults_of_layout(tab, where, width)
                await tab.page.screenshot(
                    path=folder / f"{shot.name}-{look}.png", full_page=True, animations="disabled", caret="hide"
                )
        except AssertionError as error:  # the context ends with an error if something went wrong in the page
            wrong.append(f"{where}: {error}")
    return wrong


async def _faults_of_layout(tab: Tab, where: str, width: int) -> list[str]:
    found = [f"{where}: the word {one!r} breaks" for one in await tab.page.evaluate(BROKEN_WORDS)]
    if width == WIDE:
        found += [f"{where}: {one!r} wraps while there is room" for one in await tab.page.evaluate(NEEDLESS_WRAPS)]
        found += [f"{where}: {one}" for one in await tab.violations()]
    if (excess := await tab.page.evaluate(_TOO_WIDE)) > 0:
        found.append(f"{where}: {excess} pixels wider than the window")
    return found


async def other_page(browser: Browser, address: str, file: Path, *, width: int = WIDE, height: int = 800) -> None:
    """Write a screenshot of a page of another program, when everything in it is loaded."""
    page = await browser.new_page(viewport={"width": width, "height": height})
    try:
        await page.goto(address, wait_until="networkidle")
        await page.evaluate(_TO_THE_TOP)
        await page.screenshot(path=file, full_page=True, animations="disabled")
    finally:
        await page.close()


async def alerts_page(browser: Browser, address: str, folder: Path) -> None:
    """Write screenshots of Prometheus' page of alerts: those that fire, and with their annotations."""
    page = await browser.new_page(viewport={"width": WIDE, "height": 400})
    try:
        await page.goto(f"{address}/alerts", wait_until="networkidle")
        if "/classic" in address:
            await page.get_by_text(re.compile(r"^\s*Inactive")).click()
        await page.screenshot(path=folder / "alerts.png", full_page=True, animations="disabled")
        if "/classic" in address:
            await page.get_by_text("Show annotations").click()
            for name in sorted({one.name for one in ALERTS}):
                await page.get_by_text(name, exact=True).first.click()
            await page.evaluate(_TO_THE_TOP)
            await page.screenshot(path=folder / "alerts-details.png", full_page=True, animations="disabled")
    finally:
        await page.close()


_TO_THE_TOP: Final = "scrollTo(0, 0)"  # else a fixed bar is in the middle of a picture of the whole page


def graph_path(expressions: Sequence[str], seconds: float) -> str:
    """Return the path of Prometheus' page that draws expressions over the last seconds."""
    query: dict[str, str] = {}
    for number, expr in enumerate(expressions):
        query |= {f"g{number}.expr": expr, f"g{number}.tab": "0", f"g{number}.range_input": f"{round(seconds)}s"}
    return f"/graph?{urlencode(query)}"


async def terminal(browser: Browser, command: str, output: str, file: Path) -> None:
    """Write a screenshot of a command and its output, in the colors of the output."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    for line in AnsiDecoder().decode(output):
        console.print(line, overflow="fold")
    body = console.export_html(inline_styles=True, code_format="{code}")
    page = await browser.new_page(viewport={"width": WIDE, "height": 200})
    try:
        await page.set_content(_TERMINAL.format(command=html.escape(command), body=body))
        await page.locator("body").screenshot(path=file)
    finally:
        await page.close()


def small(source: Path, file: Path) -> None:
    """Write a picture for the docs: the top of a screenshot, with fewer colors."""
    with Image.open(source) as image:
        top = image.convert("RGB").crop((0, 0, image.width, min(image.height, LARGEST_HEIGHT)))
        top.quantize(_COLORS, dither=Image.Dither.NONE).save(file, optimize=True)


LARGEST_HEIGHT: Final = 1000
_COLORS: Final = 64

_TERMINAL: Final = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; padding: 16px; width: max-content; background: #fff; color: #1f2328;
  font: 13px/1.45 "DejaVu Sans Mono", monospace }}
pre {{ margin: 0; font: inherit }} b {{ color: #57606a }}
</style><body><pre><b>$ {command}</b>
{body}</pre></body>"""
