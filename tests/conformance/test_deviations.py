from __future__ import annotations

from pathlib import Path

from moorage.conformance.deviations import Deviation, as_table
from moorage.conformance.operations import OPERATIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deviations.md"


def test_the_page_shows_the_enumeration() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index("| id |") :] == as_table()


def test_ids_are_distinct_and_operations_exist() -> None:
    assert len({d.slug for d in Deviation}) == len(Deviation)
    assert all(set(d.operations) <= set(OPERATIONS) for d in Deviation)
