"""The clusters that an affinity selects. Random cases are in the conformance vectors of `ctp`."""

from __future__ import annotations

from typing import Any

from tests.support.tables import table

from moorage.decide.taints.desired.cluster_affinity import ClusterFacts, selects
from moorage_schemas.resources.policies import ClusterAffinity

ONE = ClusterFacts("c1", {"tier": "gold"}, provider="p1", region="r1", zones=("z1", "z2"))
BARE = ClusterFacts("c2", {})


def fields(*wishes: dict[str, Any]) -> dict[str, Any]:
    return {"fieldSelector": {"matchExpressions": list(wishes)}}


def wish(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@table(
    ("affinity", "one", "bare"),
    [
        (None, True, True),
        ({}, True, True),
        ({"clusterNames": []}, True, True),
        ({"clusterNames": ["c1"]}, True, False),
        ({"clusterNames": ["c1", "c2"], "exclude": ["c1"]}, False, True),
        ({"labelSelector": {}}, True, True),
        ({"labelSelector": {"matchLabels": {"tier": "gold"}}}, True, False),
        ({"labelSelector": {"matchExpressions": [wish("tier", "NotIn", "gold")]}}, False, True),
        ({"labelSelector": {"matchExpressions": [wish("tier", "Bogus")]}}, False, False),
        (fields(wish("zone", "In", "z1")), False, False),
        (fields(wish("zone", "In", "z1", "z2", "z3")), True, False),
        (fields(wish("zone", "NotIn", "z2")), False, True),
        (fields(wish("zone", "Exists")), True, False),
        (fields(wish("zone", "DoesNotExist")), False, True),
        (fields(wish("zone", "Gt", "1")), False, False),
        (fields(wish("region", "In", "r1")), True, False),
        (fields(wish("region", "NotIn", "r1")), False, True),
        (fields(wish("provider", "Exists")), True, False),
        (fields(wish("provider", "DoesNotExist")), False, True),
        (fields(wish("provider", "In")), False, False),
        (fields(wish("other", "NotIn", "x")), True, True),
        (fields(wish("other", "In", "x")), False, False),
        (fields(wish("region", "In", "r1"), wish("zone", "NotIn", "z1")), False, False),
        ({"clusterNames": ["c1"], **fields(wish("region", "NotIn", "r1"))}, False, False),
    ],
)
def test_selection(affinity: dict[str, Any] | None, one: bool, bare: bool) -> None:  # noqa: FBT001 - a table's columns
    read = None if affinity is None else ClusterAffinity.model_validate(affinity)
    assert (selects(read, ONE), selects(read, BARE)) == (one, bare)


def test_the_facts_of_an_object() -> None:
    metadata = {"name": "c1", "labels": {"tier": "gold"}}
    spec = {"provider": "p1", "region": "r1", "zone": "z9", "zones": ["z1", "z2"]}
    assert ClusterFacts.of({"metadata": metadata, "spec": spec}) == ONE
    assert ClusterFacts.of({"metadata": {"name": "c1"}, "spec": {"zone": "z9"}}) == ClusterFacts(
        "c1", {}, zones=("z9",)
    )


def test_what_is_no_cluster_has_no_facts() -> None:
    odd = {"metadata": {"name": 5, "labels": {"a": 1}}, "spec": {"zones": "z1", "region": None, "zone": 4}}
    assert ClusterFacts.of(odd) == ClusterFacts.of({}) == ClusterFacts("", {})
