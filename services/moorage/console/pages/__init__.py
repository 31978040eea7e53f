"""All pages and actions. A page is added here, and nowhere else."""

from __future__ import annotations

from typing import Final

from moorage.console.pages import (
    clusters,
    fleet,
    letters,
    objects,
    pauses,
    simulate,
    target_actions,
    targets,
    workloads,
    zones,
)
from moorage.console.views import Action, ConsolePage

PAGES: Final[tuple[ConsolePage, ...]] = (
    *fleet.PAGES,
    *targets.PAGES,
    *workloads.PAGES,
    *zones.PAGES,
    *objects.PAGES,
    *letters.PAGES,
    *pauses.PAGES,
    *simulate.PAGES,
    *clusters.PAGES,
)

ACTIONS: Final[tuple[Action, ...]] = (*letters.ACTIONS, *pauses.ACTIONS, *simulate.ACTIONS, *target_actions.ACTIONS)
