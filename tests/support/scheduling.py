"""In which order and portions the tests are given to the workers of pytest-xdist.

Long tests that mostly wait come first, so that they wait side by side; what only computes comes last and evens out the
ends. Tests of one file, or of one class of it, stay together, for they may share something that is costly to start.
"""

from __future__ import annotations

import os
from typing import Any, Final

from xdist.scheduler import LoadScopeScheduling

_FIRST: Final = (
    "tests/chaos/seeded/test_seeds.py",
    "tests/chaos/faults/test_rounds.py",
    "tests/chaos/faults/",
    "tests/kafka/test_storm.py",
    "tests/e2e/",
    "tests/kafka/",
    "tests/chaos/",
    "tests/scenario/",
    "tests/",
)
"""Beginnings of node ids, in the order in which their tests are begun."""

_APART: Final = (
    "tests/chaos/faults/",
    "tests/kafka/",
    "tests/chaos/seeded/test_planted.py",
    "tests/e2e/test_cli_up.py",
)
"""Where each test is given out by itself: it takes seconds, and shares no more than the broker of the run."""

_TOGETHER: Final = (
    "tests/chaos/faults/test_cluster.py",
    "tests/chaos/faults/test_rounds.py",
    "tests/kafka/test_brokers.py",
    "tests/kafka/test_embedded.py",
    "tests/kafka/test_lost_markers.py",
)
"""Files in those rooms whose tests share more."""

_MOST: Final = 8
"""Workers; each collects all tests, and the longest of them would take as long with more."""


def workers() -> int:
    """How many workers there are where nobody says (`-n auto`): two for each core, for many tests mostly wait."""
    return min(_MOST, 2 * (os.cpu_count() or 1))


def rank(nodeid: str) -> int:
    """Return how early a test is begun; the smaller the earlier."""
    return next(number for number, begin in enumerate(_FIRST) if nodeid.startswith(begin))


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives out the tests in the order in which they were collected, a file, a class or a test at a time."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.config.option.loadscopereorder = False  # else the file with most tests would come first

    def _split_scope(self, nodeid: str) -> str:
        apart = nodeid.startswith(_APART) and not nodeid.startswith(_TOGETHER)
        return nodeid if apart else nodeid.rpartition("::")[0]
