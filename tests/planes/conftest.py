"""Without a control plane no scenario is collected; the header and the end of the run say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.planes import plane

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [one for one in items if _HERE not in one.path.parents or _can_run(one.path.name)]


def _can_run(module: str) -> bool:
    return plane.scripts() is not None and plane.has(plane.PROGRAMS[module])
