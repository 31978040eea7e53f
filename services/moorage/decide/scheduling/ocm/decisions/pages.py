"""PlacementDecisions: how the clusters of an OCM placement are written to records, and the reports of a change.

A PlacementDecision contains at most 100 clusters of one decision group. A deployer that reads the records of a
placement in order sees each cluster once when it is selected (`added`), and once when it is no longer selected
(`removed`). A cluster that moves to another PlacementDecision is in neither list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from moorage.decide.scheduling.ocm.decisions.groups import SelectedGroup
from moorage.decide.scheduling.ocm.decisions.page_order import steps_between
from moorage_schemas.placement import DecisionGroupStatus
from moorage_schemas.resources.names import PLACEMENT_LABEL

MOST_CLUSTERS: Final = 100
"""The maximum number of clusters in one PlacementDecision."""

GROUP_NAME_LABEL: Final = "cluster.open-cluster-management.io/decision-group-name"
GROUP_INDEX_LABEL: Final = "cluster.open-cluster-management.io/decision-group-index"


@dataclass(frozen=True, slots=True)
class DecisionPart:
    """The content of one PlacementDecision.

    Attributes:
        clusters: the clusters sorted by name, at most `MOST_CLUSTERS`.
        labels: labels that name its placement and its decision group.
    """

    clusters: tuple[str, ...]
    labels: Mapping[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """All PlacementDecisions of a placement.

    Attributes:
        parts: the PlacementDecisions by name, in the order of their numbers.
        groups: the decision groups, for the placement's status.
    """

    parts: Mapping[str, DecisionPart]
    groups: tuple[DecisionGroupStatus, ...] = ()


def layout_of(placement: str, groups: Sequence[SelectedGroup]) -> Layout:
    """Divide decision groups into PlacementDecisions.

    They are named `<placement>-decision-<n>`, where n counts from 1 over all groups. A group without clusters has one
    PlacementDecision without clusters.

    Args:
        placement: the placement's name.
        groups: the result of `decision_groups.GroupTerms.cut`.
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
    """A record to write for one PlacementDecision.

    Attributes:
        part: its present content. None for the tombstone of one that no longer exists.
        added: clusters in it that the placement has just selected.
        removed: clusters that it listed and that the placement no longer selects.
    """

    name: str
    part: DecisionPart | None
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def records_between(before: Mapping[str, DecisionPart], after: Mapping[str, DecisionPart]) -> list[DecisionRecord]:
    """Return the records that lead from one layout to the next, in the order in which they must be written.

    An unchanged PlacementDecision gets no record. Those in the new layout come first, in the order of `steps_between`.
    So a cluster that moves is listed elsewhere before. If the placement no longer selects some clusters of a deleted
    PlacementDecision, a record without clusters first reports them as removed. The tombstone follows.

    Args:
        before: the present PlacementDecisions, by name.
        after: the new PlacementDecisions. Empty if the placement is deleted.
    """
    old = frozenset(cluster for part in before.values() for cluster in part.clusters)
    new = frozenset(cluster for part in after.values() for cluster in part.clusters)
    records = []
    clusters = [{name: part.clusters for name, part in parts.items()} for parts in (before, after)]
    moved = {name: number for number, step in enumerate(steps_between(*clusters)) for name in step}
    for name, part in sorted(after.items(), key=lambda item: moved.get(item[0], 0)):
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
