"""CEL expressions are true for the clusters for which OCM's environment takes them for true."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.conformance import expressions

from moorage.conformance.operations import evaluate

MADE_BY_HAND = json.loads((Path(__file__).parent / "vectors" / "cel.json").read_text("utf-8"))
RECORDED = expressions.recorded()


def _selected(expression: str) -> Any:
    """The outcome of a placement with an expression, at OCM's scheduler."""
    selector = {"celSelector": {"celExpressions": [expression]}}
    answer = evaluate(
        {
            "op": "ocm_schedule",
            "now": "2026-01-01T00:00:00Z",
            "level": "scheduler",
            "clusters": MADE_BY_HAND["clusters"],
            "scores": MADE_BY_HAND["scores"],
            "placement": {
                "metadata": {"name": "p", "namespace": "ns"},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "predicates": [{"requiredClusterSelector": selector}],
                },
            },
        },
        as_upstream=True,
    )
    return "compile" if answer["status"]["code"] == "Misconfigured" else sorted(answer["decisions"])


def test_placements_select_the_clusters_that_upstream_selects() -> None:
    wrong = [
        (text, expected, found)
        for text, expected in MADE_BY_HAND["cases"]
        if (found := _selected(text)) != (expected if expected == "compile" else sorted(expected))
    ]
    assert wrong == []
    assert len(MADE_BY_HAND["cases"]) == 64


def test_recorded_expressions_have_upstreams_outcome() -> None:
    wrong = []
    for one in RECORDED:
        found = json.loads(json.dumps(expressions.outcome(evaluate(one, as_upstream=True))))
        if found != one["outcome"]:
            wrong.append((one["expression"], one["outcome"], found))
    assert wrong == []


def test_the_recorded_expressions_have_every_outcome() -> None:
    kinds: Counter[str] = Counter()
    for one in RECORDED:
        outcome = one["outcome"]
        kinds["compile" if outcome == "compile" else "yes" if outcome[0] else "error" if outcome[1] else "no"] += 1
    assert len(RECORDED) == 400
    assert min(kinds[kind] for kind in ("compile", "yes", "error", "no")) >= 30, kinds


def test_what_only_moorage_refuses_is_told_apart() -> None:
    for text, as_upstream in (("google.protobuf.Duration{seconds: 1} == duration('1s')", False), ("1 == 'a'", True)):
        answer = evaluate({"op": "cel", "expression": text, "clusters": []}, as_upstream=True)
        assert (answer["asUpstream"], "compile" in answer) == (as_upstream, True)


def test_scores_and_wrong_requests() -> None:
    cluster = {"metadata": {"name": "a"}}
    text = "managedCluster.scores('load').exists(s, s.name == 'cpu' && s.value > 50)"
    request = {"op": "cel", "expression": text, "clusters": [cluster], "scores": {"a": {"load": {"cpu": 60}}}}
    assert evaluate(request, as_upstream=True) == {"yes": ["a"], "errs": {}}
    assert evaluate({**request, "scores": {}}, as_upstream=True)["yes"] == []
    assert evaluate({**request, "scores": {"a": 1}}, as_upstream=True)["error"].startswith("scores: Invalid value")
    assert evaluate({**request, "clusters": [1]}, as_upstream=True)["error"].startswith("clusters[0]: Invalid value")
