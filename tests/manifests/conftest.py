"""Without their programs, tests are not collected; the header and the end of the run say what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import manifests, promtool

_HERE = Path(__file__).parent
_OF_PROMTOOL = "test_rules.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [one for one in items if one.path.parent != _HERE or _has_its_program(one.path.name)]


def _has_its_program(file: str) -> bool:
    return bool(promtool.program()) if file == _OF_PROMTOOL else manifests.is_complete()
