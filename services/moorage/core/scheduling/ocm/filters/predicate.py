"""Predicate: labels, claims and CEL expressions; a placement's predicates are ORed."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from moorage.core.scheduling.ocm.cel_column import TRUE, UNKNOWN, CelColumn, scores_of
from moorage.core.scheduling.ocm.columns import Column, Mask
from moorage.core.scheduling.ocm.fleet import ManagedFleet
from moorage.core.scheduling.ocm.label_columns import ClaimColumn, LabelColumn
from moorage.core.scheduling.ocm.plugin import ManagedFilter, MisconfiguredError, Request
from moorage.core.scheduling.ocm.terms import PREDICATE, PlacementTerms, SelectorTerms


class Predicate(ManagedFilter):
    """A cluster passes when one of the predicates holds, or when there is none."""

    name: ClassVar[str] = PREDICATE
    order: ClassVar[int] = 1
    summary: ClassVar[str] = "cluster(s) didn't match any of the predicates"

    def apply(self, request: Request, fleet: ManagedFleet, shown: Mask) -> Mask:
        """Those of which a predicate holds."""
        terms = request.terms
        if terms.predicate_error:
            raise MisconfiguredError(self.name, terms.predicate_error)
        if not terms.predicates:
            return shown
        passed = np.zeros_like(shown)
        for one in terms.predicates:
            passed |= selected(one, fleet, shown & ~passed)
        return passed

    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        """Those of all selectors."""
        return tuple(dict.fromkeys(column for one in terms.predicates for column in selector_columns(one)))

    def reason(self, request: Request, fleet: ManagedFleet, row: int) -> str:
        """That no predicate holds, if so."""
        predicates = request.terms.predicates
        if not predicates or any(holds(one, fleet, row) for one in predicates):
            return ""
        return self.summary


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


def holds(terms: SelectorTerms, fleet: ManagedFleet, row: int) -> bool:
    """Whether a selector selects one cluster."""
    facts = fleet.at(row)
    if not (terms.labels.hold(facts.labels) and terms.claims.hold(facts.claims)):
        return False
    within = scores_of(fleet) if terms.expressions else None
    return all(one.holds(facts.document, within) for one in terms.expressions)


PLUGIN = Predicate()
