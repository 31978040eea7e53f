"""The conditions of an OCM placement: PlacementSatisfied and PlacementMisconfigured.

Reasons and messages are those of OCM's scheduling controller, because programs read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from moorage.decide.scheduling.ocm.cluster_sets import UsableSets
from moorage.decide.scheduling.ocm.plugin import Code, Status
from moorage_schemas.placement import PlacementCondition

SATISFIED: Final = "PlacementSatisfied"
MISCONFIGURED: Final = "PlacementMisconfigured"

TRUE: Final = "True"
FALSE: Final = "False"


def conditions_of(
    status: Status,
    sets: UsableSets,
    *,
    available: int,
    decisions: int,
    unscheduled: int,
    before: Iterable[PlacementCondition] = (),
    now: datetime,
) -> tuple[PlacementCondition, PlacementCondition]:
    """Return both conditions, PlacementMisconfigured first.

    Args:
        status: the outcome of scheduling and grouping.
        sets: the sets that the placement may choose from.
        available: how many clusters are in those sets.
        decisions: how many clusters are selected.
        unscheduled: how many clusters are missing from the requested number.
        before: its previous conditions. A condition whose status stays the same keeps its `lastTransitionTime`.
        now: the time of a transition.
    """
    since = {condition.type: (condition.status, condition.last_transition_time) for condition in before}

    def made(kind: str, value: str, reason: str, message: str) -> PlacementCondition:
        old = since.get(kind)
        return PlacementCondition(
            type=kind,
            status=value,
            reason=reason,
            message=message,
            last_transition_time=old[1] if old is not None and old[0] == value else now,
        )

    value, reason, message = _satisfied(status, sets, available, decisions, unscheduled)
    satisfied = made(SATISFIED, value, reason, message)
    if status.code == Code.MISCONFIGURED:
        text = f"{status.plugin}:{status.message}"
        return made(MISCONFIGURED, TRUE, "Misconfigured", text), satisfied
    return made(MISCONFIGURED, FALSE, "Succeedconfigured", "Placement configurations check pass"), satisfied


def _satisfied(
    status: Status, sets: UsableSets, available: int, decisions: int, unscheduled: int
) -> tuple[str, str, str]:
    """Return status, reason and message of PlacementSatisfied, from the first reason that applies."""
    asked, eligible = ",".join(sets.asked), ",".join(sets.eligible)
    none_bound = "No valid ManagedClusterSetBindings found in placement namespace"
    reasons = (
        (not sets.bound, "NoManagedClusterSetBindings", none_bound),
        (not sets.eligible, "NoIntersection", f"None of ManagedClusterSets [{asked}] is bound to placement namespace"),
        (
            available == 0,
            "AllManagedClusterSetsEmpty",
            f"All ManagedClusterSets [{eligible}] have no member ManagedCluster",
        ),
        (status.code == Code.ERROR, "NotAllDecisionsScheduled", status.message),
        (decisions == 0, "NoManagedClusterMatched", "No ManagedCluster matches any of the cluster predicate"),
        (unscheduled != 0, "NotAllDecisionsScheduled", f"{unscheduled} cluster decisions unscheduled"),
    )
    return next(
        ((FALSE, reason, message) for applies, reason, message in reasons if applies),
        (TRUE, "AllDecisionsScheduled", "All cluster decisions scheduled"),
    )


def leading_condition(conditions: Iterable[PlacementCondition]) -> PlacementCondition | None:
    """Return the leading condition: PlacementMisconfigured if it is True, otherwise PlacementSatisfied.

    None if there are no conditions, which is the case before the first decision.
    """
    by_type = {condition.type: condition for condition in conditions}
    misconfigured = by_type.get(MISCONFIGURED)
    if misconfigured is not None and misconfigured.status == TRUE:
        return misconfigured
    return by_type.get(SATISFIED)
