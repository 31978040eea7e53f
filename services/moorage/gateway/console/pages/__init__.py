"""All pages and actions. A page is added here, and nowhere else."""

from __future__ import annotations

from typing import Final

from moorage.gateway.console.pages import fleet, objects, targets, workloads, zones
from moorage.gateway.console.views import Action, ConsolePage

PAGES: Final[tuple[ConsolePage, ...]] = (
    *fleet.PAGES,
    *targets.PAGES,
    *workloads.PAGES,
    *zones.PAGES,
    *objects.PAGES,
)

ACTIONS: Final[tuple[Action, ...]] = ()
