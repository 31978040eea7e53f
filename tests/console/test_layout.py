"""The layout of the pages, measured in a real browser: text wraps only for want of room, and words stay whole."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.async_api import Browser
from tests.console.test_in_a_browser import PAGES, world
from tests.support.browsers import opened

_LINES = """
const lines = range => {
  let count = 0, end = -Infinity;
  const boxes = [...range.getClientRects()].filter(box => box.width > 1).sort((a, b) => a.top - b.top);
  for (const box of boxes) if (box.top + 3 >= end) { count += 1; end = box.bottom; }
  return count;
};
const contents = node => { const range = document.createRange(); range.selectNodeContents(node); return range; };
"""

BROKEN_WORDS = f"""() => {{
  {_LINES}
  const found = [], walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {{
    const node = walker.currentNode, box = node.parentElement;
    if (!box.checkVisibility() || box.closest(".unseen, pre, svg")) continue;
    for (const word of node.data.matchAll(/[A-Za-z0-9]+/g)) {{
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (lines(range) > 1) found.push(word[0]);
    }}
  }}
  return found;
}}"""
"""The words that continue on another line."""

NEEDLESS_WRAPS = f"""() => {{
  {_LINES}
  const found = [], main = document.querySelector("main").clientWidth;
  const wraps = cell => !cell.querySelector("br, p, li, form, input, .unseen") && lines(contents(cell)) > 1;
  for (const table of document.querySelectorAll("main table")) {{
    const wrapped = [...table.querySelectorAll("th, td")].filter(wraps);
    if (!wrapped.length) continue;
    table.style.width = "max-content";
    const need = table.offsetWidth;
    table.style.width = "";
    const isAlone = !table.closest(".columns");
    if (need <= table.parentElement.clientWidth - 32 || (isAlone && need < main / 2)) found.push(wrapped[0].innerText);
  }}
  for (const one of document.querySelectorAll("main dd, main dt, main h3, main figcaption")) {{
    if (one.closest("table") || !one.checkVisibility() || one.querySelector("p") || lines(contents(one)) < 2) continue;
    const room = one.closest("section, main").clientWidth;
    one.style.cssText = "width: max-content; position: absolute";
    const need = one.offsetWidth;
    one.style.cssText = "";
    if (need < room / 2) found.push(one.innerText);
  }}
  return found;
}}"""
"""The texts that wrap although they would fit on one line."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_word_breaks_in_a_narrow_window(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    size = {"width": 390, "height": 800}
    async with world().served() as address, opened(browser, color_scheme=scheme, viewport=size) as tab:
        for path in PAGES:
            await tab.page.goto(address + path)
            assert await tab.page.evaluate(BROKEN_WORDS) == [], path


async def test_nothing_wraps_while_there_is_room(browser: Browser) -> None:
    size = {"width": 1280, "height": 800}
    async with world().served() as address, opened(browser, viewport=size) as tab:
        for path in PAGES:
            await tab.page.goto(address + path)
            assert await tab.page.evaluate(NEEDLESS_WRAPS) == [], path


async def test_the_measures_find_what_they_seek(browser: Browser) -> None:
    """A page on which a word breaks and a text wraps for nothing."""
    narrow = '<main><section><dl><dd style="width: 4rem; overflow-wrap: anywhere">two words unbreakable</dd></dl>'
    async with opened(browser, viewport={"width": 1280, "height": 800}) as tab:
        await tab.page.set_content(narrow)
        assert await tab.page.evaluate(BROKEN_WORDS) == ["unbreakable"]
        assert await tab.page.evaluate(NEEDLESS_WRAPS) == ["two words unbreakable"]
