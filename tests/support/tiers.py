"""The two tiers of the suite. `make test` runs what a change can break in ten minutes, `make test-all` the rest.

Each file belongs to one tier, so that the other tier does not even import it. Two files of the simulation belong to
both, each tier with another part of the seeds and of the planted bugs.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, Literal, TypeVar

Tier = Literal["test", "rest"]

ROOT: Final = Path(__file__).parents[2]

ROOMS: Final = (
    "tests/architecture/",
    "tests/chaos/seeded/",
    "tests/component/",
    "tests/conformance/",
    "tests/console/",
    "tests/e2e/test_pages.py",
    "tests/kafka/test_contract.py",
    "tests/kafka/test_embedded.py",
    "tests/kafka/test_owner_exactly_once.py",
    "tests/kafka/test_owner_hostile.py",
    "tests/kafka/test_owner_life.py",
    "tests/kafka/test_owner_rebalance.py",
    "tests/kafka/test_owner_records.py",
    "tests/kafka/test_owner_tables.py",
    "tests/scenario/",
    "tests/unit/",
)
"""Prefixes of the files of `make test`."""

REST: Final = (
    "tests/console/test_actions_in_a_browser.py",
    "tests/console/test_in_a_browser.py",
    "tests/console/test_layout.py",
    "tests/console/test_pictures.py",
)
"""Files in those rooms that belong to `make test-all`, because they need a program that has to be installed first."""

BOTH: Final = ("tests/chaos/seeded/test_planted.py", "tests/chaos/seeded/test_seeds.py")
"""Files of both tiers, which run another part of their cases in each."""

_BUGS_AT_A_TIME: Final = 12

Name = TypeVar("Name")


def tier_of(path: str) -> Tier:
    """Return the tier of a test file, by its path from the root of the checkout."""
    return "test" if path.startswith(ROOMS) and path not in REST else "rest"


def is_in(path: Path, tier: str | None) -> bool:
    """Return whether a path is collected for a tier. Folders are, and everything is without a tier."""
    if tier is None or path.suffix != ".py" or not path.name.startswith("test_"):
        return True
    name = path.relative_to(ROOT).as_posix()
    return name in BOTH or tier_of(name) == tier


def turn(names: list[Name], tier: str | None) -> list[Name]:
    """Return the part of a list that has its turn in a tier.

    `make test` takes a few that the hash of the commit chooses, so that all take their turn. `make test-all` takes the
    others. Without a tier it is the whole list.
    """
    if tier is None:
        return names
    start = int(head()[:12] or "0", 16) % len(names)
    chosen = {(start + number) % len(names) for number in range(_BUGS_AT_A_TIME)}
    return [name for number, name in enumerate(names) if (number in chosen) is (tier == "test")]


def head() -> str:
    """Return the hash of the commit that is checked out; empty without Git."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
