"""Leaves out the tests of upgrades where the earlier version cannot be had. The summary of a run reports it."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.faults import versions


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if collection_path.name == "test_upgrade.py" and versions.missing() else None
