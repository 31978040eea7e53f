"""Guards of evictions: budgets and pauses."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind, OwnKind
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.kubernetes import number
from moorage.apiserver.kinds.printing.sections import Pair, Related, Section, as_declared, held_by
from moorage.decide.kubernetes.object_texts import reasons_text, schedule_text, scope_text
from moorage.decide.kubernetes.unstructured import at, namespace_of
from moorage_schemas.times import format_time

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.decide.disruption.budgets import Disruption
    from moorage_schemas.budget import BudgetCounted
    from moorage_schemas.resource import ResourceDeclared


def _scope(found: Object) -> str:
    return scope_text(found) or "<all>"


def _window(found: Object) -> str:
    number = at(found, "spec", "maxInWindow")
    return NONE if number is None else f"{number} in {at(found, 'spec', 'windowSeconds') or 3600}s"


def _schedule(found: Object) -> str:
    return schedule_text(found) or NONE


def _reasons(found: Object) -> str:
    return reasons_text(found) or "<all>"


def _allowed(found: Object) -> str:
    if at(found, "status", "active") is False:
        return "<inactive>"
    allowed = at(found, "status", "allowed")
    return "<unknown>" if allowed is None else str(allowed)


def _active(counted: BudgetCounted | None) -> Document:
    """Return the part of a status that is about a schedule. Empty for a guard without one."""
    if counted is None or counted.active is None:
        return {}
    time = {} if counted.changes_time is None else {"changesTime": format_time(counted.changes_time)}
    return {"active": counted.active, **time}


class GuardKind(OwnKind[Any]):
    """A guard of evictions in a scope."""

    model_module: ClassVar[str] = "budgets"
    in_own_all: ClassVar[bool] = True
    status_shown: ClassVar[bool] = True

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield from as_declared(found)
        yield held_by(f"{self.kind}/{at(found, 'metadata', 'name')}", related, now)


class EvictionBudgetKind(GuardKind):
    """The maximum number of evictions at a time, or in a window."""

    kind = "EvictionBudget"
    short_names = ("eb",)
    order = 180
    apply_order = 40
    columns = (
        TableColumn("PER", text("spec", "per", default="Fleet")),
        TableColumn("AT-A-TIME", text("spec", "maxConcurrent")),
        TableColumn("IN-WINDOW", of(_window)),
        TableColumn("ALLOWED", of(_allowed)),
        TableColumn("UNDER-WAY", text("status", "inProgress", default="0")),
        TableColumn("HELD", text("status", "held", default="0")),
        AGE,
        TableColumn("SCOPE", of(_scope), wide=True),
        TableColumn("PATIENCE", text("spec", "patienceSeconds"), wide=True),
        TableColumn("REASONS", of(_reasons), wide=True),
        TableColumn("SCHEDULE", of(_schedule), wide=True),
    )

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        counted = records.budgets.get(resource.key)
        if counted is None:
            return None
        return {
            **({} if counted.active is False else {"allowed": counted.allowed}),
            "inProgress": counted.in_progress,
            "inWindow": counted.in_window,
            "held": counted.held,
            **_active(counted),
            "countedTime": format_time(counted.counted_time),
        }


class EvictionPauseKind(GuardKind):
    """A pause, which holds evictions."""

    kind = "EvictionPause"
    cli_names = ("pause", "pauses")
    order = 190
    apply_order = 30
    columns = (
        TableColumn("SCOPE", of(_scope)),
        TableColumn("HELD", text("status", "held", default="0")),
        TableColumn("REASON", text("spec", "reason")),
        AGE,
        TableColumn("ACTIVE", text("status", "active", default="True"), wide=True),
        TableColumn("REASONS", of(_reasons), wide=True),
        TableColumn("SCHEDULE", of(_schedule), wide=True),
    )
    counted_status = True

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status.guards import PAUSE, PauseIndex

        held = len(records.index(PauseIndex).held.get(f"{PAUSE}{resource.name}", ()))
        return {"held": held, **_active(records.budgets.get(resource.key))}


class PodDisruptionBudgetKind(Kind[Any]):
    """The number of a workload's pods that evictions must leave."""

    group = "policy"
    kind = "PodDisruptionBudget"
    in_own_all = True
    model_module = "budgets"
    mirrorable = True
    short_names = ("pdb",)
    namespaced = True
    order = 120
    status_shown = True
    apply_order = 50
    columns = (
        TableColumn("MIN AVAILABLE", text("spec", "minAvailable", default="N/A")),
        TableColumn("MAX UNAVAILABLE", text("spec", "maxUnavailable", default="N/A")),
        TableColumn("ALLOWED DISRUPTIONS", text("status", "disruptionsAllowed", default="0")),
        AGE,
        TableColumn("EXPECTED", text("status", "expectedPods", default="0"), wide=True),
        TableColumn("HEALTHY", text("status", "currentHealthy", default="0"), wide=True),
        TableColumn("HELD", text("status", "held", default="0"), wide=True),
    )
    api_columns = (
        TableColumn("Min Available", text("spec", "minAvailable", default="N/A")),
        TableColumn("Max Unavailable", text("spec", "maxUnavailable", default="N/A")),
        number("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    )

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        status = found.get("status") or {}
        for field, words in (("minAvailable", "Min available"), ("maxUnavailable", "Max unavailable")):
            if (value := at(found, "spec", field)) is not None:
                yield Pair(words, value)
        labels = at(found, "spec", "selector", "matchLabels") or {}
        yield Pair("Selector", ",".join(f"{key}={value}" for key, value in sorted(labels.items())))
        yield Pair("Allowed", status.get("disruptionsAllowed", 0))
        yield Pair(
            "Healthy", f"{status.get('currentHealthy', 0)}, of which {status.get('desiredHealthy', 0)} must stay"
        )
        yield Pair("Expected", status.get("expectedPods", 0))
        namespace, name = namespace_of(found), at(found, "metadata", "name")
        yield held_by(f"PodDisruptionBudget/{namespace}/{name}", related, now, namespace)

    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        """Return the status of policy/v1, and `held`: the number of evictions that it holds now.

        A mirrored one with a whole status is counted in its cluster.
        """
        from moorage.decide.disruption.budgets import disruption_of, disruptions

        counted = records.budgets.get(resource.key)
        counted_there = resource.object.get("status") or {}
        if resource.mirrored is not None and "disruptionsAllowed" in counted_there:
            return {**counted_there, **({"held": counted.held} if counted is not None else {})}
        try:
            guard = disruption_of(resource.object)
            # The governor counts at most once a second. A new budget, or the first pod of one, is counted here until
            # then: that a budget cannot be computed would be missing for as long.
            if counted is None or not (counted.expected or counted.failure):
                here = _counted_here(guard, resource, records)
                counted = here if counted is None or here.expected or here.failure else counted
            expected, healthy = counted.expected, counted.healthy
            desired = disruptions(guard, pods=expected, healthy=healthy, scale=expected).desired
        except ValueError:  # it was checked when it was declared
            expected, healthy, desired = 0, 0, 0
        status = {
            "observedGeneration": resource.object["metadata"].get("generation", 1),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(0, counted.allowed) if counted is not None else 0,
            "expectedPods": expected,
        }
        if counted is None:
            return status
        return {**status, "conditions": [_disruption_allowed(counted, status)], "held": counted.held}


def _counted_here(guard: Disruption, resource: ResourceDeclared, records: Records) -> BudgetCounted:
    """Return the counts of a budget by the gateway's own records, as of when it was declared."""
    from moorage.apiserver.kinds.status.disruption import allowed_now
    from moorage.decide.disruption.budgets import NOT_SCALED
    from moorage_schemas.budget import BudgetCounted
    from moorage_schemas.times import parse_time

    found = allowed_now(guard, records)
    return BudgetCounted(
        budget=resource.key,
        generation=1,
        allowed=found.allowed,
        expected=found.expected,
        healthy=found.healthy,
        failure="" if found.scaled else NOT_SCALED,
        counted_time=parse_time(str(resource.object["metadata"].get("creationTimestamp"))),
    )


def _disruption_allowed(counted: BudgetCounted, status: Document) -> Document:
    """Return the condition `DisruptionAllowed`, as the disruption controller sets it."""
    is_allowed = status["disruptionsAllowed"] > 0
    reason = "SyncFailed" if counted.failure else "SufficientPods" if is_allowed else "InsufficientPods"
    return {
        "type": "DisruptionAllowed",
        "status": "True" if is_allowed else "False",
        "observedGeneration": status["observedGeneration"],
        "lastTransitionTime": format_time((counted.allowed_since or counted.counted_time).replace(microsecond=0)),
        "reason": reason,
        "message": counted.failure,
    }


KINDS = (EvictionBudgetKind(), EvictionPauseKind(), PodDisruptionBudgetKind())
