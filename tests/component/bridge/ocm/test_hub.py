"""What a bridge knows of a hub: decisions of placements, Leases of add-ons, and what is mirrored."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.bridges.engine.seen_state import LEASE, StateSink
from moorage.bridges.ocm.hub import ADD_ON, CLUSTER, CLUSTER_LEASE, DECISION, PLACEMENT, HubState
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE as AVAILABLE
from moorage_schemas.resources.names import PLACEMENT_LABEL

_LEASE_KEY = "Lease/c1/work"


class Hub:
    """A hub, and the keys that were touched since they were last taken."""

    def __init__(self) -> None:
        self.state = HubState(lambda kind, key: self.touched.append((kind, key)), lambda *one: one in self.decided)
        self.touched: list[tuple[str, str]] = []
        self.decided: set[tuple[str, ...]] = set()
        """The keys and uids of the placements that Moorage has decided on."""

    def taken(self) -> list[tuple[str, str]]:
        found, self.touched[:] = list(self.touched), []
        return found


@pytest.fixture
def hub() -> Hub:
    return Hub()


def _object(kind: str, name: str, namespace: str = "", version: int = 1, **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": str(version)}
    labels = parts.pop("labels", None)
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {**metadata, **({"labels": labels} if labels else {})},
        **parts,
    }


def _decision(name: str, placement: str, version: int = 1, *, owner: str = "") -> dict[str, Any]:
    found = _object(DECISION, name, "shop", version, labels={PLACEMENT_LABEL: placement})
    if owner:
        found["metadata"]["ownerReferences"] = [
            {"kind": PLACEMENT, "name": placement, "uid": owner, "controller": True}
        ]
    return found


def _of_placement(key: str, *decisions: str) -> list[tuple[str, str]]:
    """What is touched by changes of decisions of a placement."""
    return [one for name in decisions for one in ((DECISION, f"PlacementDecision/shop/{name}"), (PLACEMENT, key))]


def test_decisions_are_those_of_the_placement_that_their_label_names(hub: Hub) -> None:
    hub.state.put(DECISION, _decision("d1", "a"))
    assert hub.taken() == _of_placement("Placement/shop/a", "d1")
    hub.state.put(DECISION, _decision("d1", "b", 2))
    assert hub.taken() == [*_of_placement("Placement/shop/a", "d1"), *_of_placement("Placement/shop/b", "d1")]
    assert list(hub.state.decisions) == ["Placement/shop/b"]
    hub.state.drop(DECISION, hub.state.key_of(DECISION, _decision("d1", "b", 3)))
    assert hub.taken() == _of_placement("Placement/shop/b", "d1")
    assert not hub.state.decisions


def test_a_version_that_the_watch_brings_late_changes_nothing(hub: Hub) -> None:
    hub.state.put(DECISION, _decision("d1", "a", 10))
    hub.state.put(PLACEMENT, _object(PLACEMENT, "a", "shop", 10))
    hub.taken()
    hub.state.put(DECISION, _decision("d1", "b", 9))
    hub.state.put(PLACEMENT, _object(PLACEMENT, "a", "shop", 9))
    assert not hub.taken()
    assert list(hub.state.decisions) == ["Placement/shop/a"]
    another = _object(PLACEMENT, "a", "shop", 3)
    another["metadata"]["uid"] = "of a placement that was created again"
    hub.state.put(PLACEMENT, another)
    assert hub.taken() == [(PLACEMENT, "Placement/shop/a")]


def test_an_answer_that_the_watch_has_overtaken_changes_nothing(hub: Hub) -> None:
    available = {"type": AVAILABLE, "status": "True", "reason": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    hub.state.put(CLUSTER, _object(CLUSTER, "c1", version=10, status={"conditions": [available]}))
    hub.taken()
    hub.state.answered(CLUSTER, _object(CLUSTER, "c1", version=9))
    hub.state.put(CLUSTER, _object(CLUSTER, "c1", version=9))
    assert not hub.taken()
    assert hub.state.targets["c1"].is_judged
    hub.state.answered(CLUSTER, _object(CLUSTER, "c1", version=11))
    assert hub.taken()
    hub.state.drop(CLUSTER, hub.state.key_of(CLUSTER, _object(CLUSTER, "c1")))
    hub.state.answered(CLUSTER, _object(CLUSTER, "c1", version=12))
    assert not hub.state.targets, "it was deleted"


def test_a_list_of_decisions_tells_which_are_gone(hub: Hub) -> None:
    sink = StateSink(hub.state, DECISION)
    sink.replaced([_decision("d1", "a"), _decision("d2", "a")])
    hub.taken()
    sink.replaced([_decision("d2", "a")])
    assert list(hub.state.decisions["Placement/shop/a"]) == ["PlacementDecision/shop/d2"]


def test_a_decision_of_somebody_else_is_mirrored_until_moorage_decides(hub: Hub) -> None:
    key = "PlacementDecision/shop/d1"
    decisions = [{"clusterName": "c1", "reason": ""}]
    placement = _object(PLACEMENT, "a", "shop")
    hub.state.put(PLACEMENT, placement)
    hub.state.put(DECISION, {**_decision("d1", "a", owner="u-a"), "status": {"decisions": decisions}})
    assert key in hub.state.keys
    mirrored = hub.state.object(key)
    assert mirrored is not None
    assert mirrored["status"] == {"decisions": decisions}
    assert mirrored["metadata"]["labels"] == {PLACEMENT_LABEL: "a"}
    hub.decided.add(("Placement/shop/a", "u-a"))
    assert hub.state.object(key) is None
    assert key not in hub.state.keys


def test_of_decisions_without_a_placement_those_count_that_stay(hub: Hub) -> None:
    hub.state.put(DECISION, _decision("left", "gone", owner="u-gone"))
    hub.state.put(DECISION, _decision("by-hand", "never-there"))
    assert hub.state.keys == {"PlacementDecision/shop/by-hand"}
    hub.state.put(PLACEMENT, {**_object(PLACEMENT, "gone", "shop")})
    assert "PlacementDecision/shop/left" in hub.state.keys
    another = _object(PLACEMENT, "gone", "shop", 2)
    another["metadata"]["uid"] = "of a placement that was created again"
    hub.state.put(PLACEMENT, another)
    assert "PlacementDecision/shop/left" not in hub.state.keys


def test_the_lease_of_an_add_on_is_mirrored_unless_the_hub_says_how_the_add_on_is(hub: Hub) -> None:
    hub.state.put(LEASE, _object(LEASE, "work", "c1", spec={"renewTime": "2026-01-01T00:00:00.000000Z"}))
    hub.state.put(LEASE, _object(LEASE, "some-controller", "kube-system"))
    assert not hub.state.keys
    hub.taken()
    hub.state.put(ADD_ON, _object(ADD_ON, "work", "c1"))
    assert hub.state.keys == {"ManagedClusterAddOn/c1/work", _LEASE_KEY}
    assert (LEASE, _LEASE_KEY) in hub.taken()
    reported = {"conditions": [{"type": "Available", "status": "True"}]}
    hub.state.put(ADD_ON, _object(ADD_ON, "work", "c1", 2, status=reported))
    assert hub.state.object(_LEASE_KEY) is None
    assert (LEASE, _LEASE_KEY) in hub.taken()
    hub.state.put(ADD_ON, _object(ADD_ON, "work", "c1", 3))
    assert hub.state.object(_LEASE_KEY) is not None
    hub.taken()
    hub.state.drop(ADD_ON, hub.state.key_of(ADD_ON, _object(ADD_ON, "work", "c1", 4)))
    assert not hub.state.keys
    assert (LEASE, _LEASE_KEY) in hub.taken()


def test_the_lease_of_a_cluster_is_read_and_not_mirrored(hub: Hub) -> None:
    hub.state.put(CLUSTER, _object(CLUSTER, "c1"))
    hub.state.put(LEASE, _object(LEASE, CLUSTER_LEASE, "c1", spec={"renewTime": "t1"}))
    assert hub.state.renewals == {"c1": "t1"}
    assert hub.state.keys == {"ManagedCluster//c1"}
