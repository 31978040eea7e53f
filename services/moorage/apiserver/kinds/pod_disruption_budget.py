"""`PodDisruptionBudget` (policy/v1)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from typing_extensions import override

from moorage.apiserver.kinds.families.guards import BudgetIndex
from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, text
from moorage.apiserver.kinds.printing.kubernetes import number
from moorage.apiserver.kinds.printing.sections import Pair, Related, Section, held_by
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resource import ResourceDeclared
    from moorage_schemas.resources.budgets import PodDisruptionBudget


class PodDisruptionBudgetKind(Kind["PodDisruptionBudget"]):
    """The number of a workload's pods that evictions must leave."""

    group = "policy"
    kind = "PodDisruptionBudget"
    plural = "poddisruptionbudgets"
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
    indexes = (BudgetIndex,)

    @override
    def validate(self, resource: PodDisruptionBudget, gates: FeatureGates) -> list[FieldError]:
        from moorage.apiserver.rules.validation.moorage import validate_disruption_budget

        return validate_disruption_budget(resource.spec)

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
        namespace, name = str(at(found, "metadata", "namespace")), at(found, "metadata", "name")
        yield held_by(f"PodDisruptionBudget/{namespace}/{name}", related, now, namespace)

    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        """The status of policy/v1, and `held`: the number of evictions that it holds now.

        A mirrored one is counted in its cluster.
        """
        from moorage.decide.disruption.budgets import disruption_of, disruptions

        counted = records.budgets.get(resource.key)
        if resource.mirrored is not None and (said := resource.object.get("status")):
            return {**said, **({"held": counted.held} if counted is not None else {})}
        expected, healthy = (counted.expected, counted.healthy) if counted is not None else (0, 0)
        try:
            guard = disruption_of(resource.object)
            desired = disruptions(guard, pods=expected, healthy=healthy, scale=expected).desired
        except ValueError:  # it was checked when it was declared
            desired = 0
        status = {
            "observedGeneration": resource.object["metadata"].get("generation", 1),
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": max(0, counted.allowed) if counted is not None else 0,
            "expectedPods": expected,
        }
        return {**status, "held": counted.held} if counted is not None else status


KIND = PodDisruptionBudgetKind()
