"""The pictures of the console in the docs. With `--pictures` they are written anew; otherwise they are only taken."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, expect
from tests.architecture.files import ROOT
from tests.console.world import ConsoleWorld, some_fleet
from tests.support.browsers import opened

IMAGES = ROOT / "docs" / "images"


@dataclass(frozen=True)
class Picture:
    """A picture of a page."""

    name: str
    path: str
    scheme: Literal["light", "dark"] = "light"
    height: int = 700


PICTURES = (
    Picture("console-fleet.png", "/", height=775),
    Picture("console-workload.png", "/console/workloads/Pod/default/web-1", "dark", height=600),
    Picture("console-target.png", "/console/targets/Node/n05", height=640),
)


def test_the_docs_show_every_picture_and_no_other() -> None:
    shown = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        shown |= set(re.findall(r"\]?\((?:docs/)?images/([\w-]+\.png)\)", page.read_text("utf-8")))
    assert shown == {one.name for one in PICTURES} == {path.name for path in IMAGES.glob("console-*.png")}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda one: one.name)
async def test_pictures_are_taken(
    browser: Browser, picture: Picture, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    world = ConsoleWorld()
    some_fleet(world)
    size = {"width": 1280, "height": picture.height}
    async with world.served() as address, opened(browser, color_scheme=picture.scheme, viewport=size) as tab:
        await tab.page.goto(address + picture.path)
        await expect(tab.page.locator("#connection")).to_have_text("Live")
        path = (IMAGES if request.config.getoption("--pictures") else tmp_path) / picture.name
        path.parent.mkdir(exist_ok=True)
        await tab.page.screenshot(path=path, animations="disabled", caret="hide")
        assert 5_000 < path.stat().st_size < 200_000
