"""Tests of programs that are not on this machine are not collected; the header and the end of the run name these."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [one for one in items if not _is_of_nothing(one)]


def _is_of_nothing(item: pytest.Item) -> bool:
    """Whether a test has a parameter without values, which pytest marks."""
    marker = item.get_closest_marker("skip")
    return marker is not None and str(marker.kwargs.get("reason", "")).startswith("got empty parameter set")
