"""All pages and actions. A page is added here, and nowhere else."""

from __future__ import annotations

from typing import Final

from moorage.console.pages import (
    audit,
    fleet,
    history,
    incidents,
    letters,
    objects,
    pauses,
    simulate,
    targets,
    workloads,
)
from moorage.console.views import Action, ConsolePage

PAGES: Final[tuple[ConsolePage, ...]] = (
    *fleet.PAGES,
    *targets.PAGES,
    *workloads.PAGES,
    *objects.PAGES,
    *history.PAGES,
    *incidents.PAGES,
    *audit.PAGES,
    *letters.PAGES,
    *pauses.PAGES,
    *simulate.PAGES,
)

ACTIONS: Final[tuple[Action, ...]] = (*letters.ACTIONS, *pauses.ACTIONS, *simulate.ACTIONS, *targets.ACTIONS)
