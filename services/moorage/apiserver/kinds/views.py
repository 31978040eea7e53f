"""Records of the services as read-only kinds (moorage.io/v1alpha1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.kind import View
from moorage.apiserver.kinds.printing.columns import Object, TableColumn, of, reference_text, since, target, text, until
from moorage.decide.kubernetes.unstructured import at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from moorage.apiserver.kinds.status.records import ObjectId
    from moorage_schemas.base import Model


class BindingKind(View):
    """The binding of a workload to a target."""

    kind = "Binding"
    plural = "bindings"
    cli_names = ("bind",)
    namespaced = True
    order = 2010
    columns = (
        TableColumn("WORKLOAD", target("status", "workload")),
        TableColumn("TARGET", target("status", "target")),
        TableColumn("AGE", since("status", "boundTime")),
        TableColumn("OWNER", target("status", "owner"), wide=True),
        TableColumn("GENERATION", text("status", "generation"), wide=True),
    )
    made_from = "bindings"

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.names import of_pair

        yield of_pair(self.kind, key)


class BudgetKind(View):
    """The present counts of a budget of evictions."""

    kind = "Budget"
    plural = "budgets"
    namespaced = False
    order = 2020
    columns = (
        TableColumn("ALLOWED", text("status", "allowed", default="0")),
        TableColumn("UNDER-WAY", text("status", "inProgress", default="0")),
        TableColumn("IN-WINDOW", text("status", "inWindow", default="0")),
        TableColumn("HELD", text("status", "held", default="0")),
        TableColumn("COUNTED", since("status", "countedTime")),
        TableColumn("EXPECTED", text("status", "expected", default="0"), wide=True),
        TableColumn("HEALTHY", text("status", "healthy", default="0"), wide=True),
        TableColumn("TOKENS", text("status", "tokens"), wide=True),
    )
    made_from = "budgets"

    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        """See `View`. A name is `poddisruptionbudget.shop.web` or `resource-eviction-rate`."""
        from moorage.apiserver.kinds.status.records import ObjectId

        if "/" not in key:
            yield ObjectId(self.kind, "", key)
            return
        kind, namespace, name, _ = ObjectId.of(key)
        yield ObjectId(self.kind, "", ".".join(filter(None, (kind.lower(), namespace, name))))


class ConditionKind(View):
    """One condition of a target."""

    kind = "Condition"
    plural = "conditions"
    cli_names = ("cond",)
    namespaced = False
    order = 2030
    columns = (
        TableColumn("TARGET", target("status", "target")),
        TableColumn("TYPE", text("status", "type")),
        TableColumn("STATUS", text("status", "status")),
        TableColumn("REASON", text("status", "reason")),
        TableColumn("SINCE", since("status", "lastTransitionTime")),
        TableColumn("HEARTBEAT", since("status", "lastHeartbeatTime")),
        TableColumn("SOURCE", text("status", "source"), wide=True),
        TableColumn("MESSAGE", text("status", "message"), wide=True),
    )
    made_from = "conditions"

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.names import about_target
        from moorage.apiserver.kinds.status.records import ObjectId
        from moorage_schemas.keys import ConditionKey

        yield ObjectId(self.kind, "", about_target(*ConditionKey.parse(key)))


class TimerKind(View):
    """A deadline that has not passed."""

    kind = "Timer"
    plural = "timers"
    namespaced = False
    order = 2060
    columns = (
        TableColumn("TARGET", target("status", "target")),
        TableColumn("OWNER", text("status", "owner")),
        TableColumn("DUE", lambda found, now: until(at(found, "status", "deadline"), now)),
        TableColumn("DEADLINE", text("status", "deadline"), wide=True),
        TableColumn("SUBJECT", text("status", "subject"), wide=True),
    )
    made_from = "timers"

    def listed(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """See `View`. The timers that are set, earliest first."""
        waiting = [item for item in items if at(item, "status", "deadline")]
        return sorted(waiting, key=lambda item: (at(item, "status", "deadline"), at(item, "metadata", "name")))

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.records import ObjectId

        yield ObjectId(self.kind, "", key.replace("/", "~"))


def _targets(found: Object) -> str:
    """The target, or the targets of a workload that can be on several."""
    several = at(found, "status", "targets") or []
    return ",".join(reference_text(one["target"]) for one in several) or reference_text(at(found, "status", "target"))


class WorkloadPlacementKind(View):
    """The decision on one workload with its grounds. A `Placement` is declared by people."""

    kind = "WorkloadPlacement"
    plural = "workloadplacements"
    short_names = ("wp", "pl")
    namespaced = True
    order = 2070
    columns = (
        TableColumn("STATE", text("status", "state")),
        TableColumn("TARGET", of(_targets)),
        TableColumn("REASON", text("status", "reason")),
        TableColumn("AGE", since("status", "decidedTime")),
        TableColumn("OWNER", target("status", "owner"), wide=True),
        TableColumn("PREVIOUS", target("status", "previousTarget"), wide=True),
        TableColumn("MESSAGE", text("status", "message"), wide=True),
    )
    made_from = "placements"

    @override
    def objects(self, key: str, record: Model) -> Iterable[ObjectId]:
        from moorage.apiserver.kinds.status.names import workload_name, workload_namespace
        from moorage.apiserver.kinds.status.records import ObjectId

        workload = ObjectId.of(key)
        if workload.kind != "PlacementDecision":  # it has a kind of its own
            yield ObjectId(self.kind, workload_namespace(workload), workload_name(workload))


KINDS = (BindingKind(), BudgetKind(), ConditionKind(), TimerKind(), WorkloadPlacementKind())
