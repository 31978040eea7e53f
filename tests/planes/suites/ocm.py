"""OCM's own integration specs of placements, on a hub."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.planes.plane import Plane, started
from tests.planes.suites import engines, programs
from tests.planes.suites.reports import UPSTREAM, Outcome

FOCUS: Final = ""

_VENDORED: Final = "vendor/open-cluster-management.io/api"
"""Where the specs look for definitions, in their working folder."""


async def run(folder: Path, engine: str, focus: str) -> dict[str, Outcome]:
    """Run the specs that match a regular expression with an engine."""
    program = programs.ocm()
    definitions = folder / _VENDORED
    definitions.parent.mkdir(parents=True, exist_ok=True)
    definitions.symlink_to(programs.ocm_definitions())
    async with started(folder / "plane") as plane, _deciding(plane, folder, engine):
        existing = {"USE_EXISTING_CLUSTER": "true", "KUBECONFIG": str(plane.kubeconfig)}
        return await engines.played(program, folder, focus, environment=existing)


@asynccontextmanager
async def _deciding(plane: Plane, folder: Path, engine: str) -> AsyncIterator[None]:
    await plane.up("ocm")
    if engine == UPSTREAM:
        yield
        return
    await plane.down("ocm-placement")
    # The specs have no controllers but those of placements. With taints, clusters that nobody reports are left out.
    async with engines.moorage(plane, folder, ("ocm",), "placements"):
        yield
