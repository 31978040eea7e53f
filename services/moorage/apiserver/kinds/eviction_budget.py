"""`EvictionBudget` (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.families.guards import BudgetIndex, scope_text
from moorage.apiserver.kinds.kind import Kind, UnknownFields
from moorage.apiserver.kinds.printing.columns import AGE, NONE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.sections import Related, Section, as_declared, held_by
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.budgets import EvictionBudget


def _window(found: Object) -> str:
    number = at(found, "spec", "maxInWindow")
    return NONE if number is None else f"{number} in {at(found, 'spec', 'windowSeconds') or 3600}s"


class EvictionBudgetKind(Kind["EvictionBudget"]):
    """The maximum number of evictions at a time, or in a window."""

    group = "moorage.io"
    versions = ("v1alpha1",)
    kind = "EvictionBudget"
    plural = "evictionbudgets"
    model_module = "budgets"
    short_names = ("eb",)
    namespaced = False
    order = 180
    status_shown = True
    apply_order = 40
    unknown_fields = UnknownFields.REFUSED
    columns = (
        TableColumn("PER", text("spec", "per", default="Fleet")),
        TableColumn("AT-A-TIME", text("spec", "maxConcurrent")),
        TableColumn("IN-WINDOW", of(_window)),
        TableColumn("ALLOWED", text("status", "allowed", default="<unknown>")),
        TableColumn("UNDER-WAY", text("status", "inProgress", default="0")),
        TableColumn("HELD", text("status", "held", default="0")),
        AGE,
        TableColumn("SCOPE", of(scope_text), wide=True),
        TableColumn("PATIENCE", text("spec", "patienceSeconds"), wide=True),
    )
    indexes = (BudgetIndex,)

    @override
    def validate(self, resource: EvictionBudget, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.moorage import validate_eviction_budget

        return validate_eviction_budget(resource.spec)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        yield from as_declared(found)
        yield held_by(f"{self.kind}/{at(found, 'metadata', 'name')}", related, now)

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        from moorage_schemas.times import format_time

        counted = records.budgets.get(resource.key)
        if counted is None:
            return None
        return {
            "allowed": counted.allowed,
            "inProgress": counted.in_progress,
            "inWindow": counted.in_window,
            "held": counted.held,
            "countedTime": format_time(counted.counted_time),
        }


KIND = EvictionBudgetKind()
