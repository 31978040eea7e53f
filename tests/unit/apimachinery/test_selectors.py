"""Selectors by tables: they select the same as upstream, and invalid ones select nothing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tables import table

from moorage.decide.kubernetes.selectors import (
    check_requirement,
    matches_labels,
    matches_node_selector,
    matches_node_term,
)
from moorage_schemas.resources.meta import LabelSelector, SelectorRequirement
from moorage_schemas.resources.pod import NodeSelector, NodeSelectorTerm

LABELS = {"disk": "ssd", "cores": "16", "zone": "a"}


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


@table(
    ("selector", "selected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"disk": "ssd"}}, True),
        ({"matchLabels": {"disk": "ssd", "zone": "b"}}, False),
        ({"matchLabels": {"absent": ""}}, False),
        ({"matchExpressions": [requirement("zone", "In", "a", "b")]}, True),
        ({"matchExpressions": [requirement("absent", "In", "a")]}, False),
        ({"matchExpressions": [requirement("zone", "NotIn", "a")]}, False),
        ({"matchExpressions": [requirement("absent", "NotIn", "a")]}, True),
        ({"matchExpressions": [requirement("disk", "Exists")]}, True),
        ({"matchExpressions": [requirement("disk", "DoesNotExist")]}, False),
        ({"matchExpressions": [requirement("absent", "DoesNotExist")]}, True),
        ({"matchLabels": {"disk": "ssd"}, "matchExpressions": [requirement("zone", "In", "b")]}, False),
        ({"matchExpressions": [requirement("cores", "Gt", "8")]}, False),
        ({"matchExpressions": [requirement("zone", "In")]}, False),
    ],
)
def test_label_selectors(selector: dict[str, Any] | None, *, selected: bool) -> None:
    model = None if selector is None else LabelSelector.model_validate(selector)
    assert matches_labels(model, LABELS) is selected


@table(
    ("expressions", "fields", "selected"),
    [
        ([], [], False),
        ([requirement("cores", "Gt", "8")], [], True),
        ([requirement("cores", "Gt", "16")], [], False),
        ([requirement("cores", "Lt", "17")], [], True),
        ([requirement("cores", "Gt", "-5")], [], True),
        ([requirement("cores", "Lt", "+0017")], [], True),
        ([requirement("cores", "Gt", "8", "9")], [], False),
        ([requirement("cores", "Gt", "eight")], [], False),
        ([requirement("disk", "Gt", "1")], [], False),
        ([requirement("absent", "Lt", "1")], [], False),
        ([requirement("absent", "NotIn", "x")], [], True),
        ([requirement("cores", "Above", "8")], [], False),
        ([], [requirement("metadata.name", "In", "n1")], True),
        ([], [requirement("metadata.name", "In", "n2")], False),
        ([], [requirement("metadata.name", "NotIn", "n2")], True),
        ([], [requirement("metadata.name", "In", "n1", "n2")], False),
        ([], [requirement("metadata.namespace", "In", "n1")], False),
        ([], [requirement("metadata.name", "Exists")], False),
        ([requirement("zone", "In", "b")], [requirement("metadata.name", "In", "n1")], False),
    ],
)
def test_node_terms(expressions: list[dict[str, Any]], fields: list[dict[str, Any]], *, selected: bool) -> None:
    term = NodeSelectorTerm.model_validate({"matchExpressions": expressions, "matchFields": fields})
    assert matches_node_term(term, LABELS, "n1") is selected


def test_terms_are_ored_and_none_select_nothing() -> None:
    terms = [
        {},
        {"matchExpressions": [requirement("zone", "In", "b")]},
        {"matchExpressions": [requirement("disk", "Exists")]},
    ]
    assert matches_node_selector(NodeSelector.model_validate({"nodeSelectorTerms": terms}), LABELS, "n1")
    assert not matches_node_selector(NodeSelector.model_validate({"nodeSelectorTerms": terms[:2]}), LABELS, "n1")
    assert not matches_node_selector(NodeSelector(), LABELS, "n1")
    assert not matches_node_selector(NodeSelector.model_validate({"nodeSelectorTerms": terms}), None, "n1")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (requirement("a", "In"), "must be specified when `operator` is 'In' or 'NotIn'"),
        (requirement("a", "Exists", "x"), "may not be specified"),
        (requirement("a", "Gt"), "single value"),
        (requirement("a", "Gt", "9223372036854775808"), "must be an integer"),
        (requirement("a", "in", "x"), "not a valid selector operator"),
    ],
)
def test_what_is_wrong_is_said(wrong: dict[str, Any], words: str) -> None:
    assert words in check_requirement(SelectorRequirement.model_validate(wrong), node=True)


def test_gt_is_for_nodes_only() -> None:
    model = SelectorRequirement.model_validate(requirement("a", "Gt", "1"))
    assert check_requirement(model, node=True) == ""
    assert "Gt" in check_requirement(model, node=False)
