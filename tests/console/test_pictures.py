"""The pictures of the console in the docs. With `--pictures` they are written anew; otherwise they are only taken."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, expect
from tests.architecture.files import ROOT
from tests.component.gateway.memory_records import START
from tests.component.gateway.test_audit_events import audited
from tests.component.gateway.test_dead_letters import letter
from tests.console.simulated import SimulatedWorld
from tests.console.world import ConsoleWorld, some_fleet
from tests.support.browsers import opened

from moorage_schemas.dead_letter import RefusalReason

IMAGES = ROOT / "docs" / "images"
SIMULATION = "/console/simulate?kind=Node&name=n1&what=taint&key=maintenance&effect=NoExecute&for=10m"


def usual() -> ConsoleWorld:
    """A small fleet with one of everything."""
    world = ConsoleWorld()
    some_fleet(world)
    return world


def disrupted() -> ConsoleWorld:
    """A fleet in which people act while a zone is in disruption."""
    world = usual()
    for number, (resource, verb, seconds) in enumerate(
        (
            ("Node//n02", "patch", -200),
            ("EvictionPause//deploy", "create", -170),
            ("EvictionPause//deploy", "delete", -60),
            ("Node//n05", "patch", -20),
        )
    ):
        world.log.audit.add(number % 3, audited(resource, verb, seconds=seconds), START + 1_000 * seconds)
    return world


def refusing() -> ConsoleWorld:
    """A fleet of which reports were refused for different reasons."""
    world = ConsoleWorld()
    minute, after = 60_000, "must not be more than 30 s after the present, 2026-01-01T11:52:00Z"
    refused = (
        (-41, "UnknownTarget", "n40", "target: invalid value 'Node/n40': must be a declared target; declare it first"),
        (-8, "FutureTime", "n07", f"observedTime: invalid value '2026-01-01T12:52:00Z': {after}"),
        (
            -3,
            "Forbidden",
            "n12",
            "type: invalid value 'Ready': must be covered by a ProbeGrant, for the source and target of this report",
        ),
    )
    for number, (minutes, reason, name, message) in enumerate(refused, 1):
        one = letter(
            RefusalReason(reason),
            identity=f"r{number}",
            name=name,
            seconds=60 * minutes,
            message=message,
            offset=number,
        )
        world.letters.add(number % 3, one, START + minutes * minute)
    return world


def asking() -> ConsoleWorld:
    """A fleet that simulates."""
    return SimulatedWorld(replicas=9)


@dataclass(frozen=True)
class Picture:
    """A picture of a page."""

    name: str
    path: str
    scheme: Literal["light", "dark"] = "light"
    height: int = 700
    world: Callable[[], ConsoleWorld] = usual
    is_live: bool = True
    """Whether the page follows what changes."""


PICTURES = (
    Picture("console-fleet.png", "/", height=920),
    Picture("console-zones.png", "/console/zones", height=450),
    Picture("console-incident.png", "/console/incidents/us.us-1", height=840, world=disrupted),
    Picture("console-evictions.png", "/console/evictions", "dark", height=560),
    Picture("console-workload.png", "/console/workloads/Pod/default/web-1", "dark", height=720),
    Picture("console-target.png", "/console/targets/Node/n05", height=720),
    Picture("console-simulation.png", SIMULATION, height=890, world=asking, is_live=False),
    Picture("console-deadletters.png", "/console/deadletters", height=540, world=refusing, is_live=False),
)


def test_the_docs_show_every_picture_of_the_console_and_no_other() -> None:
    shown = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        shown |= set(re.findall(r"\]?\((?:docs/)?images/(console-[\w-]+\.png)\)", page.read_text("utf-8")))
    assert shown == {one.name for one in PICTURES} == {path.name for path in IMAGES.glob("console-*.png")}


@pytest.mark.parametrize("picture", PICTURES, ids=lambda one: one.name)
async def test_pictures_are_taken(
    browser: Browser, picture: Picture, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    world = picture.world()
    size = {"width": 1280, "height": picture.height}
    async with world.served() as address, opened(browser, color_scheme=picture.scheme, viewport=size) as tab:
        await tab.page.goto(address + picture.path)
        await expect(tab.page.locator("#connection")).to_have_text("Live" if picture.is_live else "")
        path = (IMAGES if request.config.getoption("--pictures") else tmp_path) / picture.name
        path.parent.mkdir(exist_ok=True)
        await tab.page.screenshot(path=path, animations="disabled", caret="hide")
        assert 5_000 < path.stat().st_size < 200_000
