"""PlacementDecisions: how an OCM placement's clusters are written down, and what a change of them tells.

A PlacementDecision has at most 100 clusters of one decision group. A deployer that reads a placement's records in their
order learns of each cluster once that it is selected (`added`) and once that it is no more (`removed`); a cluster
that moves to another PlacementDecision is neither.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moorage.core.scheduling.ocm.decision_groups import SelectedGroup
from moorage_schemas.placement import DecisionGroupStatus

MOST_CLUSTERS: Final = 100
"""In one PlacementDecision."""

PLACEMENT_LABEL: Final = "cluster.open-cluster-management.io/placement"
GROUP_NAME_LABEL: Final = "cluster.open-cluster-management.io/decision-group-name"
GROUP_INDEX_LABEL: Final = "cluster.open-cluster-management.io/decision-group-index"


@dataclass(frozen=True, slots=True)
class DecisionPart:
    """What one PlacementDecision says.

    Attributes:
        clusters: by name, at most `MOST_CLUSTERS`.
        labels: which placement and which decision group it belongs to.
    """

    clusters: tuple[str, ...]
    labels: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """All PlacementDecisions of a placement.

    Attributes:
        parts: by name, in the order of their numbers.
        groups: the decision groups, for the placement's status.
    """

    parts: Mapping[str, DecisionPart]
    groups: tuple[DecisionGroupStatus, ...] = ()


def layout_of(placement: str, groups: Sequence[SelectedGroup]) -> Layout:
    """Write decision groups down as PlacementDecisions.

    They are named `<placement>-decision-<n>`, n from 1 over all groups; a group without clusters has one without
    clusters.

    Args:
        placement: the placement's name.
        groups: as `grouping.GroupTerms.cut` gives them.
    """
    parts: dict[str, DecisionPart] = {}
    statuses = []
    for index, group in enumerate(groups):
        labels = {PLACEMENT_LABEL: placement, GROUP_NAME_LABEL: group.name, GROUP_INDEX_LABEL: str(index)}
        names = []
        for start in range(0, len(group.clusters) or 1, MOST_CLUSTERS):
            name = f"{placement}-decision-{len(parts) + 1}"
            parts[name] = DecisionPart(group.clusters[start : start + MOST_CLUSTERS], labels)
            names.append(name)
        statuses.append(
            DecisionGroupStatus(index=index, name=group.name, decisions=tuple(names), clusters=len(group.clusters))
        )
    return Layout(parts, tuple(statuses))


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A record that is to be written for one PlacementDecision.

    Attributes:
        name: the PlacementDecision's.
        part: what it says now; None for a tombstone, when it is no more.
        added: clusters in it that the placement has just selected.
        removed: clusters that it listed and that the placement selects no more.
    """

    name: str
    part: DecisionPart | None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def records_between(before: Mapping[str, DecisionPart], after: Mapping[str, DecisionPart]) -> list[DecisionRecord]:
    """The records that lead from one layout to the next, in the order in which they are to be written.

    What stays as it is gets no record. Those that there should be come first, by number, so that a cluster that moves
    out of one that is no more is listed elsewhere before. One that is no more first tells what the placement selects
    no more, if anything, as a record without clusters; its tombstone follows.

    Args:
        before: the PlacementDecisions that there are, by name.
        after: those that there should be; empty when the placement is deleted.
    """
    old = frozenset(cluster for part in before.values() for cluster in part.clusters)
    new = frozenset(cluster for part in after.values() for cluster in part.clusters)
    records = []
    for name, part in after.items():
        there = before.get(name)
        if there != part:
            removed = _without(there.clusters, new) if there is not None else ()
            records.append(DecisionRecord(name, part, _without(part.clusters, old), removed))
    for name in sorted(before.keys() - after.keys(), key=lambda name: (len(name), name)):
        if removed := _without(before[name].clusters, new):
            records.append(DecisionRecord(name, DecisionPart((), before[name].labels), removed=removed))
        records.append(DecisionRecord(name, None))
    return records


def _without(clusters: Sequence[str], others: Collection[str]) -> tuple[str, ...]:
    return tuple(cluster for cluster in clusters if cluster not in others)
