"""Filters and prioritizers: docs/plugins.md agrees with the code, and only a plugin's own file names it."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tests.architecture.files import ROOT, files, name, tree
from tests.support.plugins import EXAMPLES

from moorage.decide.scheduling.framework.plugins import Plugin, Prioritizer
from moorage.decide.scheduling.karmada.plugin import ClusterFilter, ClusterPrioritizer
from moorage.decide.scheduling.nodes.plugin import NodeFilter, NodePrioritizer
from moorage.decide.scheduling.ocm.plugin import ManagedFilter, ManagedPrioritizer

PAGE = (ROOT / "docs" / "plugins.md").read_text("utf-8")
RULES = (ROOT / "docs" / "domain.md").read_text("utf-8")
KINDS: dict[type[Plugin[Any, Any]], str] = {
    NodeFilter: "Node filters",
    NodePrioritizer: "Node prioritizers",
    ClusterFilter: "Cluster filters",
    ClusterPrioritizer: "Cluster filters",
    ManagedFilter: "",
    ManagedPrioritizer: "Prioritizers",
}
"""Each kind with the section that contains the rules of its plugins: docs/domain.md, "Node filters" and others."""

ALSO_TERMS = frozenset({"AddOn", "ClusterAffinity", "PreferNoSelect", "SpreadConstraint"})
"""Names that also have another meaning: the type of a score, a part of a policy, an effect."""


def test_the_examples_of_the_page_are_the_files() -> None:
    shown = dict(re.findall(r"\]\(\.\./examples/plugins/([\w/]+\.py)\):\n\n```python\n(.*?)```", PAGE, re.DOTALL))
    assert shown == {
        path.relative_to(EXAMPLES).as_posix(): path.read_text("utf-8")
        for path in files(".py", under="examples/plugins")
    }


def test_the_page_lists_the_plugins() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| `(\w+)` \| (\d*) \| (.+) \|$", PAGE.partition("## Built-in plugins")[2], re.MULTILINE
    )
    assert rows == [
        (kind.__name__, one.name, str(one.weight) if isinstance(one, Prioritizer) else "", one.help)
        for kind in KINDS
        for one in kind.discovered()
    ]


def test_the_page_names_the_folders() -> None:
    folders = dict(re.findall(r"^\| `(\w+)` \| `([\w/]+)/` \|", PAGE, re.MULTILINE))
    assert folders == {
        kind.__name__: kind.package.removeprefix("moorage.decide.scheduling.").replace(".", "/") for kind in KINDS
    }


@pytest.mark.parametrize("kind", [kind for kind, section in KINDS.items() if section])
def test_the_rules_of_every_plugin_are_stated(kind: type[Plugin[Any, Any]]) -> None:
    section = RULES.partition(f"\n### {KINDS[kind]}\n")[2].partition("\n### ")[0]
    for one in kind.discovered():
        assert f"`{one.name}`" in section, one.name
        if isinstance(one, NodePrioritizer):
            assert f"| `{one.name}` | {one.weight} |" in section


def test_nothing_but_its_own_file_names_a_plugin() -> None:
    homes: dict[str, set[str]] = {}
    for kind in KINDS:
        for one in kind.discovered():
            file = inspect.getsourcefile(importlib.import_module(type(one).__module__))
            assert file is not None
            homes.setdefault(one.name, set()).add(name(Path(file)))
    found = {
        f"{name(path)}: {constant}"
        for path in files(".py", under="services")
        for constant in _constants(path)
        if constant in homes.keys() - ALSO_TERMS and name(path) not in homes[constant]
    }
    assert found == set()
    assert "Balance" in homes


def _constants(path: Path) -> set[str]:
    nodes = ast.walk(tree(path))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
