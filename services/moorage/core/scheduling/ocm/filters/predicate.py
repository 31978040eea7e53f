"""Predicate: selects clusters by labels, claims and CEL expressions. The predicates of a placement are ORed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import cel
import numpy as np

from moorage.core.scheduling.ocm.columns.cel import TRUE, UNKNOWN, CelColumn, scores_of
from moorage.core.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.core.scheduling.ocm.columns.column import Column, Mask
from moorage.core.scheduling.ocm.columns.fleet import ManagedFleet
from moorage.core.scheduling.ocm.columns.labels import ClaimColumn, LabelColumn
from moorage.core.scheduling.ocm.plugin import ManagedFilter, PlacementRequest
from moorage.core.scheduling.ocm.selector import LabelTerms
from moorage.core.scheduling.ocm.terms import PlacementTerms, SelectorTerms


class Predicate(ManagedFilter):
    """Rules out clusters that match none of the placement's predicates. Without predicates, all clusters pass."""

    name = "Predicate"
    order: ClassVar[int] = 1
    summary: ClassVar[str] = "cluster(s) didn't match any of the predicates"

    def problem(self, terms: PlacementTerms) -> str:
        """The error in the predicates, if they are invalid."""
        return terms.predicate_error

    def idle(self, terms: PlacementTerms, fleet: ManagedFleet) -> bool:
        """Whether there are no predicates."""
        return not terms.predicates

    def passed(self, request: PlacementRequest, fleet: ManagedFleet, shown: Mask) -> Mask:
        """The clusters that match a predicate."""
        predicates = request.terms.predicates
        if not predicates:
            return shown
        passed = np.zeros_like(shown)
        for one in predicates:
            passed |= selected(one, fleet, shown & ~passed)
        return passed

    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """The columns of all selectors."""
        return tuple(dict.fromkeys(column for one in terms.predicates for column in selector_columns(one)))

    def reason(self, request: PlacementRequest, fleet: ManagedFleet, row: int) -> str:
        """The reason, if the cluster matches no predicate."""
        predicates, facts = request.terms.predicates, fleet.at(row)
        if not predicates:
            return ""
        within = scores_of(fleet)
        return "" if any(holds(one, facts, within) for one in predicates) else self.summary

    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        """The predicate that matches or, if none does, what fails in each."""
        facts, within = fleet.at(fleet.row(target)), scores_of(fleet)
        failing = [list(_failing(one, facts, within)) for one in request.terms.predicates]
        matching = next((number for number, wrong in enumerate(failing) if not wrong), None)
        if matching is not None:
            return [f"predicates[{matching}] matches"]
        return [f"predicates[{number}] fails: {', '.join(wrong)}" for number, wrong in enumerate(failing)]


def selector_columns(terms: SelectorTerms) -> tuple[Column, ...]:
    """The columns of a selector."""
    found: list[Column] = []
    if terms.labels.requirements:
        found.append(LabelColumn(terms.labels))
    if terms.claims.requirements:
        found.append(ClaimColumn(terms.claims))
    return (*found, *(CelColumn(one) for one in terms.expressions))


def selected(terms: SelectorTerms, fleet: ManagedFleet, shown: Mask) -> Mask:
    """The clusters in `shown` that a selector selects. CEL expressions are evaluated last, for as few as possible."""
    passed = shown
    for column in selector_columns(terms):
        values = fleet.column(column)
        if column.lazy:
            missing = np.flatnonzero(passed & (values == UNKNOWN))
            if missing.size:
                column.fill(fleet, values, missing)
            passed = passed & (values == TRUE)
        else:
            passed = passed & values
    return passed


def holds(terms: SelectorTerms, facts: ManagedClusterFacts, within: cel.Context) -> bool:
    """Whether a selector selects one cluster. `within` is the result of `scores_of`."""
    return (
        terms.labels.hold(facts.labels)
        and terms.claims.hold(facts.claims)
        and all(one.holds(facts.document, within) for one in terms.expressions)
    )


def _failing(terms: SelectorTerms, facts: ManagedClusterFacts, within: cel.Context) -> Iterator[str]:
    yield from _unmet(terms.labels, facts.labels, "label")
    yield from _unmet(terms.claims, facts.claims, "claim")
    yield from (f"CEL {one.text}" for one in terms.expressions if not one.holds(facts.document, within))


def _unmet(terms: LabelTerms, present: Mapping[str, str], kind: str) -> Iterator[str]:
    for requirement in terms.requirements:
        if not LabelTerms((requirement,)).hold(present):
            key, operator, values = requirement
            asked = f" [{', '.join(sorted(values))}]" if values else ""
            has = f"it is {present[key]!r}" if key in present else f"the {kind} is missing"
            yield f"{kind} {key} {operator}{asked} ({has})"


PLUGIN = Predicate()
