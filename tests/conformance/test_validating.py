"""Flawed objects are refused as a kube-apiserver refused them (vectors/apiserver/validating_*.jsonl.gz)."""

from __future__ import annotations

import copy
from collections import Counter

from tests.conformance import validating
from tests.support.tables import table

PAIRS = [pair for family in validating.FAMILIES for pair in validating.read(validating.recorded(family))]
KINDS = sorted({body["kind"] for body, _ in PAIRS})


@table("kind", KINDS)
def test_status_and_causes_are_those_of_a_kube_apiserver(kind: str) -> None:
    wrong = []
    for body, theirs in PAIRS:
        if body["kind"] == kind:
            before = copy.deepcopy(body)
            mine = validating.answered(body)
            assert body == before, "no argument is changed"
            if mine != theirs:
                wrong.append((body, theirs, mine))
    assert wrong == []


def test_every_kind_and_many_rules_are_recorded() -> None:
    counts = Counter(body["kind"] for body, _ in PAIRS)
    only_stored = {start["kind"] for start, _ in validating.FAMILIES["stored"].values()}
    assert min(count for kind, count in counts.items() if kind not in only_stored) >= 30, counts
    assert min(counts.values()) >= 20, counts
    assert set(counts) == {start["kind"] for table in validating.FAMILIES.values() for start, _ in table.values()}
    rules = {
        (reason, message.rpartition(": ")[2]) for _, answer in PAIRS for reason, message, _ in answer.get("causes", ())
    }
    assert len(rules) >= 80
    assert sum(answer["code"] == 201 for _, answer in PAIRS) >= 10
