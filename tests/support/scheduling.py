"""The order and the portions in which the tests are given to the workers of pytest-xdist.

Long tests that mostly wait come first, so that they wait at the same time. Tests that only compute come last and
balance the workers. Tests of one file or class stay together, because they may share something that is expensive to
start.
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
"""Prefixes of node ids, in the order in which their tests start."""

_APART: Final = (
    "tests/chaos/faults/",
    "tests/kafka/",
    "tests/chaos/seeded/test_planted.py",
    "tests/e2e/test_cli_up.py",
)
"""Prefixes of tests that are given out one by one. Each takes seconds, and shares only the broker of the run."""

_TOGETHER: Final = (
    "tests/chaos/faults/test_cluster.py",
    "tests/chaos/faults/test_rounds.py",
    "tests/kafka/test_brokers.py",
    "tests/kafka/test_embedded.py",
    "tests/kafka/test_lost_markers.py",
)
"""Files in those folders whose tests share more."""

_MOST: Final = 8
"""The maximum number of workers. Each one collects all tests, and more would not shorten the longest of them."""


_ONE: Final = "tests/planes/"
"""The prefix of tests that one worker runs one after the other, because each starts a whole control plane."""


def workers() -> int:
    """The number of workers with `-n auto`: two for each core, because many tests mostly wait."""
    return min(_MOST, 2 * (os.cpu_count() or 1))


def rank(nodeid: str) -> int:
    """Return the rank of a test. Lower ranks start earlier."""
    return next(number for number, begin in enumerate(_FIRST) if nodeid.startswith(begin))


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives out the tests in the order of collection, one file, class or test at a time."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.config.option.loadscopereorder = False  # otherwise the file with the most tests would come first

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_ONE):
            return _ONE
        apart = nodeid.startswith(_APART) and not nodeid.startswith(_TOGETHER)
        return nodeid if apart else nodeid.rpartition("::")[0]
