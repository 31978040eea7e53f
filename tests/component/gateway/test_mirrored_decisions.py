"""PlacementDecisions that somebody else has written on a real hub: how they are recorded and shown."""

from __future__ import annotations

from typing import Any

import pytest
from tests.component.gateway.double import Fixture, Json
from tests.component.gateway.test_mirror import mirrored

from moorage_schemas.resources.names import PLACEMENT_LABEL

_KEY = "PlacementDecision/shop/p-decision-1"
_PATH = "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/shop/placementdecisions"


def _decision(decisions: Any) -> Json:
    return {
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "PlacementDecision",
        "metadata": {
            "name": "p-decision-1",
            "namespace": "shop",
            "uid": "u1",
            "resourceVersion": "7",
            "labels": {PLACEMENT_LABEL: "p"},
        },
        "status": {"decisions": decisions},
    }


async def test_a_decision_is_shown_as_the_hub_has_it() -> None:
    gateway = Fixture()
    decisions = [{"clusterName": "c1", "reason": ""}]
    assert await mirrored(gateway, _decision(decisions), source="bridge/ocm") == [(_KEY, "Written")]
    (shown,) = (await gateway.ok("GET", _PATH))["items"]
    assert shown["status"]["decisions"] == decisions
    deleted = {"kind": "PlacementDecision", "namespace": "shop", "name": "p-decision-1", "uid": "u1"}
    await mirrored(gateway, deleted=[deleted])
    assert (await gateway.ok("GET", _PATH))["items"] == []


@pytest.mark.parametrize(
    ("decisions", "field"),
    [("all", "status.decisions"), ([{"clusterName": 7}], "status.decisions[0].clusterName"), ([{}], "clusterName")],
)
async def test_one_that_cannot_be_read_is_refused_with_its_field(decisions: Any, field: str) -> None:
    gateway = Fixture()
    ((key, outcome),) = await mirrored(gateway, _decision(decisions))
    assert (key, outcome.partition(":")[0]) == (_KEY, "Refused")
    assert field in outcome


async def test_nobody_declares_one() -> None:
    gateway = Fixture()
    answer = await gateway.call("POST", _PATH, json=_decision([]))
    assert answer.status_code in {404, 405, 422}
