"""Each idea has one name, and each name means one idea."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from tests.architecture.files import ROOT, files, name, tree

GLOSSARY = ROOT / "docs" / "glossary.md"

# Words that are no longer used, each with its replacement. A capitalized word is the name of a class.
OLD = {
    "Desk": "Outbox, and a writer for each controller",
    "Booking": "Reservation",
    "Lane": "WaitQueue",
    "Ask": "EvictionRequest",
    "Want": "DesiredTaints",
    "WantedTaint": "DesiredTaint",
    "Voice": "SourceStatus",
    "Standing": "LastDecision",
    "Switches": "FeatureGates",
    "PartitionOwner": "PartitionTask",
    "PlacementClass": "EquivalenceClass",
    "decide_taints": "reconcile_taints",
    "Decider": "NodeScheduler",
    "ClusterDecider": "ClusterScheduler",
    "Reckoned": "Reason",
    "laid_out": "layout_of",
}


@cache
def _names(path: Path) -> set[str]:
    """Every name that a module defines or uses."""
    found: set[str] = set()
    for node in ast.walk(tree(path)):
        match node:
            case ast.Name(id=one) | ast.Attribute(attr=one) | ast.alias(name=one):
                found.update(one.split("."))
            case ast.ClassDef(name=one) | ast.FunctionDef(name=one) | ast.AsyncFunctionDef(name=one):
                found.add(one)
            case _:
                pass
    return found


@pytest.mark.parametrize("old", sorted(OLD))
def test_old_names_do_not_come_back(old: str) -> None:
    code = files(".py", under="services")
    assert [name(path) for path in code if old in _names(path)] == [], f"say {OLD[old]}"


def test_the_glossary_is_in_order_and_says_each_word_once() -> None:
    rows = re.findall(r"^\| (?!term|-)([^|]+?) \|", GLOSSARY.read_text("utf-8"), flags=re.MULTILINE)
    words = [row.strip("`* ").lower() for row in rows]
    assert len(words) > 30
    assert len(words) == len(set(words))
    assert words == sorted(words)
