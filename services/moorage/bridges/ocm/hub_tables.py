"""The content of the topics about a hub: beside its clusters, the decisions on its placements."""

from __future__ import annotations

from typing_extensions import override

from moorage.bridges.engine.target_tables import TargetTables, Touched
from moorage.bridges.ocm.hub import CLUSTER, DECISION, PLACEMENT, SCORE
from moorage.runtime.service import Input
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.topics import PLACEMENTS, Topic


class HubTables(TargetTables):
    """The present content of the topics, about the hub.

    Args:
        touched: called for each change, with the name of a cluster, or the key of a placement or of scores.
    """

    def __init__(self, touched: Touched) -> None:
        super().__init__(CLUSTER, "", touched)
        self.placed: dict[str, WorkloadPlaced] = {}
        """The last decision, by the key of the placement."""

        self._pages: dict[str, dict[str, WorkloadPlaced]] = {}
        """The PlacementDecisions, by the key of the placement, by their own."""

        self._placements: dict[str, str] = {}
        """The key of the placement of each PlacementDecision, by its own."""

        self._fold[PLACEMENTS] = self._placed

    def is_decided(self, placement: str, uid: str) -> bool:
        """Return whether there is a decision on a placement."""
        placed = self.placed.get(placement)
        return placed is not None and placed.uid == uid

    def pages(self, placement: str, uid: str) -> list[WorkloadPlaced] | None:
        """Return the PlacementDecisions of a placement, in their order. None if it is not decided, or not all is read.

        A decision is written after its pages, in one transaction, but may be read in parts.
        """
        placed = self.placed.get(placement)
        if placed is None or placed.uid != uid:
            return None
        pages = {page.workload.name: page for page in self._pages.get(placement, {}).values()}
        named = [name for group in placed.decision_groups for name in group.decisions]
        if set(named) != pages.keys() or any(
            page.owner_uid != uid or page.generation > placed.generation for page in pages.values()
        ):
            return None
        if sum(len(page.clusters) for page in pages.values()) != placed.selected:
            return None
        return [pages[name] for name in named]

    @override
    def _wants(self, topic: Topic, kind: str, key: str) -> bool:
        return kind in {PLACEMENT, DECISION}

    @override
    def _resource(self, record: Input) -> None:
        super()._resource(record)
        if record.key.startswith(f"{SCORE}/"):
            self._touched(SCORE, record.key)

    def _placed(self, record: Input) -> None:
        event = record.event if isinstance(record.event, WorkloadPlaced) else None
        if record.key.startswith(f"{DECISION}/"):
            self._page(record.key, event)
            return
        if event is None:
            self.placed.pop(record.key, None)
        else:
            self.placed[record.key] = event
        self._touched(PLACEMENT, record.key)

    def _page(self, key: str, event: WorkloadPlaced | None) -> None:
        if event is not None:
            placement = event.owner.key
            self._placements[key] = placement
            self._pages.setdefault(placement, {})[key] = event
        elif (known := self._placements.pop(key, None)) is None:
            return
        else:
            placement = known
            del self._pages[placement][key]
            if not self._pages[placement]:
                del self._pages[placement]
        self._touched(PLACEMENT, placement)
