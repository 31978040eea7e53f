"""Predicate: labels, claims and CEL expressions; a placement's predicates are ORed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import cel
import numpy as np

from moorage.core.scheduling.ocm.cel_column import TRUE, UNKNOWN, CelColumn, scores_of
from moorage.core.scheduling.ocm.columns import Column, Mask
from moorage.core.scheduling.ocm.facts import ManagedClusterFacts
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.label_columns import ClaimColumn, LabelColumn
from moorage.core.scheduling.ocm.plugin import ManagedFilter, PlacementRequest
from moorage.core.scheduling.ocm.selector import LabelTerms
from moorage.core.scheduling.ocm.terms import PlacementTerms, SelectorTerms


class Predicate(ManagedFilter):
    """Rules out clusters for which none of the placement's predicates holds; without predicates all pass."""

    name = "Predicate"
    order: ClassVar[int] = 1
    summary: ClassVar[str] = "cluster(s) didn't match any of the predicates"

    def problem(self, terms: PlacementTerms) -> str:
        """That the predicates cannot be read, if so."""
        return terms.predicate_error

    def passed(self, request: PlacementRequest, fleet: ManagedFleet, shown: Mask) -> Mask:
        """Those of which a predicate holds."""
        predicates = request.terms.predicates
        if not predicates:
            return shown
        passed = np.zeros_like(shown)
        for one in predicates:
            passed |= selected(one, fleet, shown & ~passed)
        return passed

    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """Those of all selectors."""
        return tuple(dict.fromkeys(column for one in terms.predicates for column in selector_columns(one)))

    def reason(self, request: PlacementRequest, fleet: ManagedFleet, row: int) -> str:
        """That no predicate holds, if so."""
        predicates, facts = request.terms.predicates, fleet.at(row)
        if not predicates:
            return ""
        within = scores_of(fleet)
        return "" if any(holds(one, facts, within) for one in predicates) else self.summary

    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        """The predicate that holds, or what of each fails."""
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
    """Those of the shown clusters that a selector selects; expressions are asked last, and of no more than need be."""
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
    """Whether a selector selects one cluster; `within` is from `scores_of`."""
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
            has = f"it is {present[key]!r}" if key in present else f"the {kind} is not there"
            yield f"{kind} {key} {operator}{asked} ({has})"


PLUGIN = Predicate()
