from __future__ import annotations

from pathlib import Path

import yaml

from moorage.conformance import deviations
from moorage.conformance.deviations import Deviation
from moorage.conformance.operations import OPERATIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "deviations.md"


def as_table() -> str:
    rows = [
        "| id | Moorage | upstream's code | reason | operations |",
        "|---|---|---|---|---|",
        *(f"| `{d.slug}` | {d.title} | {d.upstream} | {d.reason} | {where(d)} |" for d in Deviation),
    ]
    return "\n".join(rows) + "\n"


def where(deviation: Deviation) -> str:
    return ", ".join(f"`{operation}`" for operation in deviation.operations) or "not in `eval`"


def test_the_page_shows_the_enumeration() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text[text.index("| id |") :] == as_table()


def test_each_deviation_has_its_texts_and_no_other_has() -> None:
    texts = yaml.safe_load(Path(deviations.__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    assert list(texts) == [d.slug for d in Deviation]
    assert all(d.title and d.upstream and d.reason for d in Deviation)


def test_ids_are_distinct_and_operations_exist() -> None:
    assert len({d.slug for d in Deviation}) == len(Deviation)
    assert all(set(d.operations) <= set(OPERATIONS) for d in Deviation)
