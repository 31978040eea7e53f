"""Leaves out the tests of upgrades where the earlier version cannot be had. The summary of a run reports it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.chaos.faults import versions

_OF_VERSIONS = Path(__file__).with_name("test_upgrade.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if versions.missing():
        items[:] = [one for one in items if one.path != _OF_VERSIONS]
