"""Without a control plane, or what its tests need, none is collected; the header and the end of the run say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.planes import plane
from tests.support import manifests

_HERE = Path(__file__).parent

_APPLYING = {"test_manifests.py", "test_bridge_roles.py", "test_hub_roles.py"}
"""Modules that apply the manifests, with kubectl."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [one for one in items if _HERE not in one.path.parents or _can_run(one.path.name)]


def _can_run(module: str) -> bool:
    if module in _APPLYING and not manifests.is_complete():
        return False
    return plane.scripts() is not None and plane.has(plane.PROGRAMS.get(module, "kubeplane"))
