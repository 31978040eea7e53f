"""Each idea has one name, and each name means one idea."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

from tests.architecture.files import ROOT, files, name, tree
from tests.support.tables import table

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
    "PendingLook": "PendingCheck",
    "Round": "IngestBatch",
    "Sign": "AddOnSignal",
    "Held": "KeptCondition",
    "Settled": "ZoneDecisions",
    "OwnerBook": "TaskBook",
    "_has_lost": "_is_orphaned",
    "check_wishes": "check_taint_edits",
    "wanted_taints": "spec_taints",
}


# Public classes that share a name on purpose.
SHARED = {
    "ApiEnablement": "upstream has both: the field of a Cluster and the filter that reads it",
    "InterPodAffinity": "one plugin upstream, which filters and scores",
    "NodeAffinity": "upstream has both: the field of a Pod, and one plugin that filters and scores",
    "NodeResourcesFit": "one plugin upstream, which filters and scores",
    "PodTopologySpread": "one plugin upstream, which filters and scores",
    "TaintToleration": "one plugin upstream, which filters and scores; Karmada and OCM have filters of that name",
    "TolerationOver": "one rule for nodes and clusters; users see this name in decisions",
}

# At most this many files of the package `moorage` have one name. A name that more have needs a reason.
MOST_ALIKE = 3
ALIKE = {
    "__init__.py": "every package has one",
    "service.py": "the service of each worker; a kind of Kubernetes; the interface of services",
    "state.py": "the state of each worker's partitions",
    "taint_toleration.py": "a plugin's file has the name of the plugin upstream",
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


@table("old", sorted(OLD))
def test_old_names_do_not_come_back(old: str) -> None:
    code = files(".py", under="services")
    assert [name(path) for path in code if old in _names(path)] == [], f"say {OLD[old]}"


def test_no_public_class_has_the_name_of_another() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in (*files(".py", under="services"), *files(".py", under="schemas")):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name(path))
    twice = {one: paths for one, paths in homes.items() if len(paths) > 1}
    assert {one: paths for one, paths in twice.items() if one not in SHARED} == {}
    assert sorted(SHARED.keys() - twice.keys()) == [], "these need no exception any more"


def test_few_files_have_one_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in files(".py", under="services"):
        homes[path.name].append(name(path))
    alike = {one: paths for one, paths in homes.items() if len(paths) > MOST_ALIKE}
    assert {one: paths for one, paths in alike.items() if one not in ALIKE} == {}
    assert sorted(ALIKE.keys() - alike.keys()) == [], "these need no exception any more"


def test_the_glossary_is_in_order_and_says_each_word_once() -> None:
    rows = re.findall(r"^\| (?!term|-)([^|]+?) \|", GLOSSARY.read_text("utf-8"), flags=re.MULTILINE)
    words = [row.strip("`* ").lower() for row in rows]
    assert len(words) > 30
    assert len(words) == len(set(words))
    assert words == sorted(words)
