"""A decision on an OCM placement, ready to be written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from moorage.decide.scheduling.ocm.decisions.pages import Layout
from moorage.decide.scheduling.ocm.decisions.result import Scheduled
from moorage_schemas.placement import PlacementCondition


@dataclass(frozen=True, slots=True)
class SelectionOutcome:
    """A decision, ready to be written."""

    layout: Layout
    selected: int
    conditions: tuple[PlacementCondition, ...]
    requeue_at: datetime | None
    grounds: Scheduled
    """The reasons. The written part is computed only when it is written."""
