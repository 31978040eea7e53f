"""`ocm_schedule` at level controller: from sets and bindings to PlacementDecisions and conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from moorage.conformance.request_fields import (
    CONDITION,
    OBJECT,
    REQUIREMENT,
    SELECTED,
    Answer,
    RequestError,
    RequestFields,
)
from moorage.decide.kubernetes.field_errors import invalid, not_supported, required
from moorage.decide.scheduling.ocm.cluster_sets import ManagedSet, ManagedSets, UsableSets, usable_sets
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.decisions.conditions import conditions_of
from moorage.decide.scheduling.ocm.decisions.groups import GroupTerms
from moorage.decide.scheduling.ocm.decisions.pages import DecisionPart, Layout, layout_of
from moorage.decide.scheduling.ocm.decisions.result import Scheduled
from moorage.decide.scheduling.ocm.plugin import Code, Status
from moorage_schemas.placement import PlacementCondition
from moorage_schemas.resources.managed import SELECTOR_TYPES, ClusterSetSelector, ManagedClusterSetSpec, Placement
from moorage_schemas.resources.meta import LabelSelector, SelectorRequirement
from moorage_schemas.resources.names import PLACEMENT_LABEL

DISABLE: Final = "cluster.open-cluster-management.io/experimental-scheduling-disable"
"""The annotation that keeps a placement's decisions unchanged if it is `true`."""

_METADATA: Final = ("name", "namespace", "labels", "annotations", "deletionTimestamp")
_SELECTOR: Final = ("matchLabels", "matchExpressions")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def controlled(
    fields: RequestFields,
    asked: Placement,
    clusters: Mapping[str, ManagedClusterFacts],
    *,
    schedule: Callable[[frozenset[str]], Scheduled],
    show: Callable[[Scheduled], Answer],
) -> Answer:
    """Return the parts of the answer at level controller, including those that describe the schedule.

    Args:
        fields: the request.
        asked: the placement, as it is scheduled.
        clusters: all clusters of the request by name.
        schedule: schedules the placement among the clusters of these names.
        show: returns the parts of the answer that describe a schedule.
    """
    placement = fields.inner("placement", OBJECT, closed=False)
    metadata = placement.inner("metadata", _METADATA, closed=False)
    namespace, name = asked.metadata.namespace, asked.metadata.name
    sets, names = _sets(fields), _bindings(fields, namespace)
    before = _conditions(placement)
    there = _decisions(fields, namespace)
    if metadata.time("deletionTimestamp") is not None or metadata.mapping("annotations").get(DISABLE) == "true":
        return {"scheduled": False}
    usable = usable_sets(names, sets, asked.spec.cluster_sets or ())
    if wrong := _wrong_set(usable, sets):
        return {"scheduled": False, "syncError": wrong}
    eligible = frozenset(usable.eligible)
    available = frozenset(
        cluster for cluster, facts in clusters.items() if not facts.deleting and sets.of(facts.labels) & eligible
    )
    outcome = schedule(available)
    groups = GroupTerms.of(asked.spec.decision_strategy, as_upstream=fields.upstream)
    layout = layout_of(name, groups.cut(outcome.decisions, clusters.__getitem__))
    status = outcome.status
    if groups.problem and (fields.upstream or not status.is_error):
        status = Status(Code.MISCONFIGURED, "", groups.problem)
    conditions = conditions_of(
        status,
        usable,
        available=len(available),
        decisions=len(outcome.decisions),
        unscheduled=outcome.unscheduled,
        now=_EPOCH,
    )
    answer: Answer = {
        "scheduled": True,
        "available": sorted(available),
        **show(outcome),
        "placementDecisions": _shown(name, layout, there, as_upstream=fields.upstream),
        "placementStatus": {
            "numberOfSelectedClusters": len(outcome.decisions),
            "decisionGroups": _groups_shown(layout),
            "conditions": _conditions_shown({one["type"]: one for one in before}, conditions),
        },
    }
    if status.code != Code.SUCCESS:
        answer["syncError"] = status.message
    return answer


def _sets(fields: RequestFields) -> ManagedSets:
    sets = ManagedSets(as_upstream=fields.upstream)

    def read(made: RequestFields) -> None:
        name = made.inner("metadata", _METADATA, closed=False).text("name")
        selector = made.inner("spec", ("clusterSelector",), closed=False).inner(
            "clusterSelector", ("selectorType", "labelSelector")
        )
        kind = selector.text("selectorType")
        if not fields.upstream and kind and kind not in SELECTOR_TYPES:
            raise RequestError(not_supported(selector.at("selectorType"), kind, SELECTOR_TYPES))
        labels = _selector(selector.inner("labelSelector", _SELECTOR)) if selector.has("labelSelector") else None
        spec = ManagedClusterSetSpec(cluster_selector=ClusterSetSelector(selector_type=kind, label_selector=labels))
        problem = ManagedSet.of(name, spec).problem
        if problem and not fields.upstream:
            raise RequestError(invalid(selector.at("labelSelector"), selector.values.get("labelSelector"), problem))
        sets.put(name, spec)

    fields.objects("clusterSets", OBJECT, read)
    return sets


def _selector(fields: RequestFields) -> LabelSelector:
    def read(requirement: RequestFields) -> SelectorRequirement:
        return SelectorRequirement(
            key=requirement.text("key"), operator=requirement.text("operator"), values=requirement.texts("values")
        )

    return LabelSelector(
        match_labels=fields.mapping("matchLabels"),
        match_expressions=fields.objects("matchExpressions", REQUIREMENT, read),
    )


def _bindings(fields: RequestFields, namespace: str) -> list[str]:
    """Return the names of the bindings in a namespace. A binding has the name of its set."""
    names = []

    def read(binding: RequestFields) -> None:
        metadata = binding.inner("metadata", _METADATA, closed=False)
        spec = binding.inner("spec", ("clusterSet",), closed=False)
        name, bound = metadata.text("name"), spec.text("clusterSet")
        if not fields.upstream and not bound:
            raise RequestError(required(spec.at("clusterSet")))
        if not fields.upstream and bound != name:
            rule = f"must be the binding's own name, {name}"
            raise RequestError(invalid(spec.at("clusterSet"), bound, rule))
        if metadata.text("namespace") == namespace:
            names.append(name)

    fields.objects("bindings", OBJECT, read)
    return names


def _conditions(placement: RequestFields) -> list[dict[str, str]]:
    def read(condition: RequestFields) -> dict[str, str]:
        condition.time("lastTransitionTime")
        return {name: condition.text(name) for name in ("type", "status", "reason", "message")}

    return placement.inner("status", ("conditions",), closed=False).objects("conditions", CONDITION, read)


@dataclass(frozen=True, slots=True)
class _Stored:
    """A PlacementDecision of the request. `reasons` states whether a cluster in it has a reason; new ones never do."""

    part: DecisionPart
    reasons: bool


def _decisions(fields: RequestFields, namespace: str) -> dict[str, _Stored]:
    """Return the PlacementDecisions of a namespace by name."""
    found: dict[str, _Stored] = {}

    def named(decision: RequestFields) -> tuple[str, str]:
        return decision.text("clusterName"), decision.text("reason")

    def read(stored: RequestFields) -> None:
        metadata = stored.inner("metadata", _METADATA, closed=False)
        clusters = stored.inner("status", ("decisions",), closed=False).objects("decisions", SELECTED, named)
        if metadata.text("namespace") == namespace:
            part = DecisionPart(tuple(name for name, _ in clusters), metadata.mapping("labels"))
            found[metadata.text("name")] = _Stored(part, any(reason for _, reason in clusters))

    fields.objects("decisions", OBJECT, read)
    return found


def _wrong_set(usable: UsableSets, sets: ManagedSets) -> str:
    """Return why the clusters of a set cannot be determined, in upstream's words. Empty if they can.

    As documented, such sets are refused earlier.
    """
    found = ((name, sets.get(name)) for name in usable.eligible)
    return next(
        (
            f"failed to get clusterset: {name}, clusters, Error: {made.problem}"
            for name, made in found
            if made is not None and made.problem
        ),
        "",
    )


def _shown(placement: str, layout: Layout, there: Mapping[str, _Stored], *, as_upstream: bool) -> list[Answer]:
    shown = []
    for name, part in layout.parts.items():
        labels = part.labels
        stored = there.get(name) if as_upstream else None
        if stored is not None and (stored.part.clusters != part.clusters or stored.reasons):
            # If the clusters change, upstream updates the labels only the next time.
            labels = stored.part.labels
        if labels.get(PLACEMENT_LABEL) == placement:
            shown.append({"name": name, "labels": dict(labels), "clusters": list(part.clusters)})
    return sorted(shown, key=lambda one: str(one["name"]))


def _groups_shown(layout: Layout) -> list[Answer]:
    return [
        {
            "decisionGroupIndex": group.index,
            "decisionGroupName": group.name,
            "decisions": list(group.decisions),
            "clusterCount": group.clusters,
        }
        for group in layout.groups
    ]


def _conditions_shown(
    before: Mapping[str, dict[str, str]], conditions: tuple[PlacementCondition, ...]
) -> list[dict[str, str]]:
    made = {
        one.type: {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
        for one in conditions
    }
    return sorted({**before, **made}.values(), key=lambda one: one["type"])
