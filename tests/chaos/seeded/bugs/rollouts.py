"""Bugs of rollouts, which the stories of `rollout_stories` find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from moorage.decide.rollouts.evaluation import RolloutState
from moorage.workers.placement.rollouts.rollout_controller import RolloutController
from moorage_schemas.condition import ConditionStatus

controller: Any = import_module("moorage.workers.placement.rollouts.rollout_controller")

Patch = tuple[Any, str, Any]


def _soak_from_release() -> Patch:
    """The soak time counts from the release, not from the first good report."""
    progress = RolloutController._progress

    def early(self: Any, declared: Any, one: Any, began: int, group_of: Any) -> Any:
        return replace(progress(self, declared, one, began, group_of), since=one.since)

    return RolloutController, "_progress", early


def _earlier_reports_count() -> Patch:
    """A report about an earlier binding counts for the present one."""
    progress = RolloutController._progress

    def deaf(self: Any, declared: Any, one: Any, began: int, group_of: Any) -> Any:
        found = self._view.health(declared.ref.key, one.name)
        made = progress(self, declared, one, began, group_of)
        if found is not None and found.status is ConditionStatus.TRUE and one.generation >= began:
            return replace(made, state=RolloutState.SUCCEEDED, since=max(one.since, found.since))
        return made

    return RolloutController, "_progress", deaf


def _failures_pass() -> Patch:
    """A failed cluster counts as one that has succeeded."""
    return controller, "_STATES", {**controller._STATES, ConditionStatus.FALSE: RolloutState.SUCCEEDED}


def _bindings_stay() -> Patch:
    """What the placement no longer selects keeps the workload."""
    return controller, "_unbind", lambda *_given: None


def _last_page_unread() -> Patch:
    """The last group is not read, so its clusters count as no longer selected."""
    groups = RolloutController._groups

    def without(self: Any, placement: str) -> Any:
        found = groups(self, placement)
        return {key: found[key] for key in sorted(found)[:-1]} if len(found) > 2 else found

    return RolloutController, "_groups", without


BUGS: Final[dict[str, Callable[[], Patch]]] = {
    "soak-from-release": _soak_from_release,
    "earlier-reports-count": _earlier_reports_count,
    "failures-pass": _failures_pass,
    "bindings-stay": _bindings_stay,
    "last-page-unread": _last_page_unread,
}
