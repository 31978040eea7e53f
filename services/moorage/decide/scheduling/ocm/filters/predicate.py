"""Predicate: selects clusters by labels, claims and CEL expressions. The predicates of a placement are ORed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np
from typing_extensions import override

from moorage.decide.kubernetes.cel.expressions import Evaluation, budget_of
from moorage.decide.scheduling.ocm.columns.cel import CelColumn, UnsupportedExpressionError, scores_of
from moorage.decide.scheduling.ocm.columns.cluster_facts import ManagedClusterFacts
from moorage.decide.scheduling.ocm.columns.column import Column, Mask
from moorage.decide.scheduling.ocm.columns.labels import ClaimColumn, LabelColumn
from moorage.decide.scheduling.ocm.columns.managed_fleet import ManagedFleet
from moorage.decide.scheduling.ocm.plugin import ManagedFilter, MisconfiguredError, PlacementRequest
from moorage.decide.scheduling.ocm.selector import LabelTerms
from moorage.decide.scheduling.ocm.terms import PlacementTerms, SelectorTerms


class Predicate(ManagedFilter):
    """Rules out clusters that match none of the placement's predicates. Without predicates, all clusters pass."""

    name = "Predicate"
    order: ClassVar[int] = 1
    summary: ClassVar[str] = "cluster(s) didn't match any of the predicates"

    @override
    def problem(self, terms: PlacementTerms) -> str:
        return terms.predicate_error

    @override
    def keeps(self, terms: PlacementTerms) -> bool:
        return terms.unsupported

    @override
    def idle(self, terms: PlacementTerms, fleet: ManagedFleet) -> bool:
        return not terms.predicates

    @override
    def passed(self, request: PlacementRequest, fleet: ManagedFleet, shown: Mask) -> Mask:
        predicates = request.terms.predicates
        if not predicates:
            return shown
        passed = np.zeros_like(shown)
        try:
            for one in predicates:
                passed |= selected(one, fleet, shown & ~passed, limited=not request.terms.as_upstream)
        except UnsupportedExpressionError as error:
            raise MisconfiguredError(self.name, str(error), kept=True) from None
        return passed

    @override
    def columns(self, terms: PlacementTerms) -> tuple[Column, ...]:
        return tuple(dict.fromkeys(column for one in terms.predicates for column in selector_columns(one)))

    @override
    def reason(self, request: PlacementRequest, fleet: ManagedFleet, row: int) -> str:
        predicates, facts = request.terms.predicates, fleet.at(row)
        if not predicates:
            return ""
        within = scores_of(fleet)
        return "" if any(holds(one, facts, within) for one in predicates) else self.summary

    @override
    def details(self, request: PlacementRequest, fleet: ManagedFleet, target: str) -> Iterable[str]:
        facts, within = fleet.at(fleet.row(target)), scores_of(fleet)
        failing = [list(_failing(one, facts, within)) for one in request.terms.predicates]
        matching = next((number for number, wrong in enumerate(failing) if not wrong), None)
        if matching is not None:
            return [f"predicates[{matching}] matches"]
        return [f"predicates[{number}] fails: {', '.join(wrong)}" for number, wrong in enumerate(failing)]


def selector_columns(terms: SelectorTerms) -> tuple[Column, ...]:
    """Return the columns of a selector."""
    found: list[Column] = []
    if terms.labels.requirements:
        found.append(LabelColumn(terms.labels))
    if terms.claims.requirements:
        found.append(ClaimColumn(terms.claims))
    return (*found, *(CelColumn(one) for one in terms.expressions))


def selected(terms: SelectorTerms, fleet: ManagedFleet, shown: Mask, *, limited: bool = True) -> Mask:
    """Return the clusters in `shown` that a selector selects. CEL expressions come last, for few clusters.

    Args:
        terms: the selector.
        fleet: the fleet.
        shown: the clusters to choose from.
        limited: whether the cost of an expression for all clusters together is limited.

    Raises:
        UnsupportedExpressionError: an expression may cost too much.
    """
    passed = shown
    for column in selector_columns(terms):
        values = fleet.column(column)
        if isinstance(column, CelColumn):
            rows = np.flatnonzero(passed)
            column.fill_within(fleet, values, rows, budget_of(rows.size) if limited else None)
            passed = passed & column.true_in(values)
        else:
            passed = passed & values
    return passed


def holds(terms: SelectorTerms, facts: ManagedClusterFacts, within: Evaluation) -> bool:
    """Return whether a selector selects one cluster. `within` is the result of `scores_of`."""
    return (
        terms.labels.hold(facts.labels)
        and terms.claims.hold(facts.claims)
        and all(one.holds(facts.document, within) for one in terms.expressions)
    )


def _failing(terms: SelectorTerms, facts: ManagedClusterFacts, within: Evaluation) -> Iterator[str]:
    yield from _unmet(terms.labels, facts.labels, "label")
    yield from _unmet(terms.claims, facts.claims, "claim")
    yield from (
        f"CEL {one.text}{f' ({result.error})' if result.error else ''}"
        for one in terms.expressions
        if not (result := one.evaluate(facts.document, within)).value
    )


def _unmet(terms: LabelTerms, present: Mapping[str, str], kind: str) -> Iterator[str]:
    for requirement in terms.requirements:
        if not LabelTerms((requirement,)).hold(present):
            key, operator, values = requirement
            wanted = f" [{', '.join(sorted(values))}]" if values else ""
            has = f"it is {present[key]!r}" if key in present else f"the {kind} is missing"
            yield f"{kind} {key} {operator}{wanted} ({has})"


PLUGIN = Predicate()
