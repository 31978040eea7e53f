"""The files beside the pages."""

from __future__ import annotations

import hashlib
import re

import pytest
from tests.architecture.files import ROOT
from tests.console.world import ConsoleWorld

STATIC = ROOT / "services/moorage/console/static"
VENDORED = re.findall(
    r"^\| `([\w.-]+)` .*`([0-9a-f]{64})` \|$", (STATIC / "VENDORED.md").read_text("utf-8"), re.MULTILINE
)


def test_every_file_of_others_is_listed() -> None:
    assert {name for name, _ in VENDORED} == {path.name for path in STATIC.glob("*.min.js")}


@pytest.mark.parametrize(("name", "digest"), VENDORED)
def test_files_of_others_are_as_they_were_published(name: str, digest: str) -> None:
    assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest


async def test_a_browser_keeps_them_until_they_change() -> None:
    world = ConsoleWorld()
    html = (await world.page("/")).text
    addresses = re.findall(r'"(/console/static/[\w.-]+\?v=[0-9a-f]{16})"', html)
    assert len(addresses) >= 4
    for address in addresses:
        answer = await world.http.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
