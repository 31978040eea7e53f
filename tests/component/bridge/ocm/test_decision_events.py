"""What a bridge tells of placements on a hub."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from tests.component.bridge.cluster import client_of
from tests.support.kube_api import serve_kube_api
from tests.support.virtual_time import virtual_time

from moorage.bridges.engine.acts import Contention
from moorage.bridges.ocm.decision_acts import DecisionActs
from moorage.bridges.ocm.hub import DECISION, PLACEMENT, HubState
from moorage.bridges.ocm.hub_tables import HubTables
from moorage.runtime.service import Input
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import DecisionGroupStatus, PlacementState, TargetScore, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resources.names import PLACEMENT_LABEL
from moorage_schemas.topics import PLACEMENTS

_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
_KEY: Final = "Placement/shop/p"
_OWNER: Final = WorkloadRef.parse(_KEY)


class _Hub:
    """A hub with one placement, and a bridge that writes decisions there."""

    def __init__(self, api: Any) -> None:
        self.told: list[tuple[str, str, str]] = []
        self.api = api
        self.tables = HubTables(lambda _kind, _key: None)
        self.state = HubState(lambda _kind, _key: None, self.tables.is_decided)
        found = api.store.create(PLACEMENT, {"metadata": {"name": "p", "namespace": "shop"}, "spec": {}})
        self.uid = str(found["metadata"]["uid"])
        self.state.put(PLACEMENT, found)
        contention = Contention("placements", lambda _key, _seconds: None, lambda _key: None)
        self.acts = DecisionActs(client_of(api), self.tables, self.state, contention=contention, tell=self._tell)
        self.generation = 0
        self.names: set[str] = set()
        """Of the present PlacementDecisions."""

    async def decide(self, **pages: tuple[str, ...]) -> list[tuple[str, str, str]]:
        """Decide, and let the bridge write it. Return what it tells."""
        self.generation += 1
        names = {f"p-decision-{number}": clusters for number, clusters in enumerate(pages.values(), start=1)}
        for name, clusters in names.items():
            self._fold(self._event(DECISION, name, clusters=clusters, labels={PLACEMENT_LABEL: "p"}))
        for name in self.names - names.keys():
            self._fold(None, f"{DECISION}/shop/{name}")
        self.names = set(names)
        chosen = [one for clusters in names.values() for one in clusters]
        group = DecisionGroupStatus(index=0, decisions=tuple(names), clusters=len(chosen))
        scores = tuple(TargetScore(target=one, total=100 - number) for number, one in enumerate(chosen))
        self._fold(self._event(PLACEMENT, "p", selected=len(chosen), decision_groups=(group,), scores=scores))
        self.told.clear()
        await self.acts.place(_KEY)
        return sorted(self.told)

    def _event(self, kind: str, name: str, **fields: Any) -> WorkloadPlaced:
        return WorkloadPlaced(
            workload=WorkloadRef(kind=kind, namespace="shop", name=name),
            uid=self.uid,
            owner=_OWNER,
            owner_uid=self.uid,
            generation=self.generation,
            state=PlacementState.PLACED,
            decided_time=_AT,
            **fields,
        )

    def _fold(self, event: WorkloadPlaced | None, key: str = "") -> None:
        meta = Meta(id="e", source="test", type=PLACEMENTS.event_type, time=_AT)
        key = event.workload.key if event is not None else key
        self.tables.apply(Input(topic=PLACEMENTS, partition=0, offset=0, key=key, event=event, meta=meta))

    def _tell(self, event: dict[str, Any]) -> None:
        assert event["involvedObject"]["uid"] == self.uid
        self.told.append((event["type"], event["reason"], event["message"]))


@virtual_time
async def test_decisions_are_told_with_the_reasons_of_ocm() -> None:
    async with serve_kube_api() as api:
        hub = _Hub(api)
        assert await hub.decide(a=("c1", "c2"), b=("c3",)) == [
            ("Normal", "DecisionCreate", "Decision p-decision-1 was created"),
            ("Normal", "DecisionCreate", "Decision p-decision-2 was created"),
            ("Normal", "ScoreUpdate", "c1:100 c2:99 c3:98"),
        ]
        assert await hub.decide(a=("c1", "c2"), b=("c3",)) == [], "nothing has changed"
        assert await hub.decide(a=("c1", "c4")) == [
            ("Normal", "DecisionDelete", "Decision p-decision-2 was deleted"),
            ("Normal", "DecisionUpdate", "Decision p-decision-1 was updated"),
            ("Normal", "ScoreUpdate", "c1:100 c4:99"),
        ]
