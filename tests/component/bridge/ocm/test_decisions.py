"""When a decision on a placement can be written to a hub, and what is written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from moorage.bridges.ocm.decision_acts import status_patch
from moorage.bridges.ocm.hub_tables import HubTables
from moorage.runtime.service import Input
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import DecisionGroupStatus, PlacementCondition, PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.topics import PLACEMENTS

_AT = datetime(2026, 1, 1, tzinfo=UTC)
_KEY = "Placement/shop/p"
_OWNER = WorkloadRef(kind="Placement", namespace="shop", name="p")


def _condition(status: str = "True") -> PlacementCondition:
    return PlacementCondition(
        type="PlacementSatisfied", status=status, reason="r", message="m", last_transition_time=_AT
    )


def _decided(*pages: tuple[str, int], generation: int = 1, uid: str = "u1") -> WorkloadPlaced:
    """A decision with pages of so many clusters."""
    count = sum(number for _, number in pages)
    group = DecisionGroupStatus(index=0, decisions=tuple(name for name, _ in pages), clusters=count)
    return WorkloadPlaced(
        workload=_OWNER,
        uid=uid,
        owner=_OWNER,
        owner_uid=uid,
        generation=generation,
        state=PlacementState.PLACED,
        decided_time=_AT,
        selected=count,
        decision_groups=(group,),
        conditions=(_condition(),),
    )


def _page(name: str, *clusters: str, generation: int = 1, uid: str = "u1") -> WorkloadPlaced:
    return WorkloadPlaced(
        workload=WorkloadRef(kind="PlacementDecision", namespace="shop", name=name),
        uid=uid,
        owner=_OWNER,
        owner_uid=uid,
        generation=generation,
        state=PlacementState.PLACED,
        decided_time=_AT,
        clusters=clusters,
    )


class Topics:
    """The tables of a bridge, and the placements that were touched."""

    def __init__(self) -> None:
        self.touched: list[str] = []
        self.tables = HubTables(lambda _kind, key: self.touched.append(key))

    def put(self, *events: WorkloadPlaced) -> None:
        for event in events:
            self._apply(event.workload.key, event)

    def remove(self, key: str) -> None:
        self._apply(key, None)

    def _apply(self, key: str, event: WorkloadPlaced | None) -> None:
        assert self.tables.wants(PLACEMENTS, key)
        meta = Meta(id="e", source="test", type=PLACEMENTS.event_type, time=_AT)
        self.tables.apply(Input(topic=PLACEMENTS, partition=0, offset=0, key=key, event=event, meta=meta))

    def pages(self, uid: str = "u1") -> list[str] | None:
        found = self.tables.pages(_KEY, uid)
        return None if found is None else [page.workload.name for page in found]


def test_pages_are_known_when_the_decision_that_names_them_is_read() -> None:
    topics = Topics()
    topics.put(_page("p-decision-1", "c1"), _page("p-decision-2", "c2"))
    assert topics.pages() is None
    topics.put(_decided(("p-decision-1", 1), ("p-decision-2", 1)))
    assert topics.pages() == ["p-decision-1", "p-decision-2"]
    assert set(topics.touched) == {_KEY}


def test_a_decision_of_which_only_a_part_is_read_is_not_written() -> None:
    topics = Topics()
    topics.put(_page("p-decision-1", "c1"), _decided(("p-decision-1", 1)))
    topics.put(_page("p-decision-1", "c1", "c2", generation=2))
    assert topics.pages() is None
    topics.put(_decided(("p-decision-1", 2), generation=2))
    assert topics.pages() == ["p-decision-1"]
    topics.put(_page("p-decision-2", "c3", generation=3))
    assert topics.pages() is None
    topics.put(_decided(("p-decision-1", 2), ("p-decision-2", 1), generation=3))
    assert topics.pages() == ["p-decision-1", "p-decision-2"]
    topics.remove("PlacementDecision/shop/p-decision-2")
    assert topics.pages() is None


def test_a_decision_on_an_earlier_placement_of_that_name_does_not_count() -> None:
    topics = Topics()
    topics.put(_page("p-decision-1", "c1"), _decided(("p-decision-1", 1)))
    assert topics.pages("u2") is None
    topics.put(_page("p-decision-1", uid="u2", generation=2), _decided(("p-decision-1", 0), uid="u2", generation=2))
    assert topics.pages("u2") == ["p-decision-1"]


def test_a_placement_that_is_gone_has_no_decision() -> None:
    topics = Topics()
    topics.put(_page("p-decision-1", "c1"), _decided(("p-decision-1", 1)))
    topics.remove("PlacementDecision/shop/p-decision-1")
    topics.remove(_KEY)
    assert topics.pages() is None
    assert not topics.tables.placed


def _placement(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "shop", "uid": "u1", "resourceVersion": "5"}, "status": status}


def test_the_status_of_a_placement_is_written_once_and_keeps_the_conditions_of_others() -> None:
    theirs = {"type": "Theirs", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "t"}
    placement, placed = _placement(conditions=[theirs]), _decided(("p-decision-1", 2))
    patch = status_patch(placement, placed)
    assert patch is not None
    assert patch["metadata"] == {"uid": "u1", "resourceVersion": "5"}
    status = patch["status"]
    assert status["numberOfSelectedClusters"] == 2
    assert [one["type"] for one in status["conditions"]] == ["Theirs", "PlacementSatisfied"]
    assert status["decisionGroups"] == [
        {"decisionGroupIndex": 0, "decisionGroupName": "", "decisions": ["p-decision-1"], "clusterCount": 2}
    ]
    assert status_patch(_placement(**status), placed) is None


def test_a_placement_that_selects_nothing_has_no_number() -> None:
    placed = _decided(("p-decision-1", 0))
    patch = status_patch(_placement(numberOfSelectedClusters=3), placed)
    assert patch is not None
    assert patch["status"].pop("numberOfSelectedClusters") is None
    assert status_patch(_placement(**patch["status"]), placed) is None
