"""Rollouts of a workload over the decision groups of a placement (moorage.io/v1alpha1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from moorage.apiserver.kinds.kind import OwnKind
from moorage.apiserver.kinds.printing.columns import AGE, Object, TableColumn, of, text
from moorage.apiserver.kinds.printing.sections import Pair, Related, Rows, Section, Values, time_and_age
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.times import format_time

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, Records
    from moorage.apiserver.rules.feature_gates import FeatureGates
    from moorage_schemas.placement import RolloutGroupStatus, WorkloadPlaced
    from moorage_schemas.resource import ResourceDeclared


def _part_of_all(field: str) -> Any:
    """Return a function that shows a number of clusters and their total, such as `3/10`."""

    def shown(found: Object) -> str:
        status = found.get("status") or {}
        return f"{status.get(field, 0)}/{status.get('clusters', 0)}" if status else "<unknown>"

    return of(shown)


class RolloutKind(OwnKind[Any]):
    """A rollout: the clusters of a placement get a version of a workload group by group."""

    kind = "Rollout"
    model_module = "rollouts"
    cli_names = ("ro",)
    namespaced = True
    in_own_all = True
    status_shown = True
    order = 235
    apply_order = 185
    columns = (
        TableColumn("PLACEMENT", text("spec", "placementRef", "name")),
        TableColumn("VERSION", text("spec", "version")),
        TableColumn("RELEASED", _part_of_all("released")),
        TableColumn("SUCCEEDED", _part_of_all("succeeded")),
        TableColumn("REASON", text("status", "reason", default="<unknown>")),
        AGE,
        TableColumn("STRATEGY", text("spec", "strategy", "type", default="All"), wide=True),
        TableColumn("MESSAGE", text("status", "message"), wide=True),
    )

    @override
    def warnings(self, document: Mapping[str, Any], gates: FeatureGates) -> Iterable[str]:
        from moorage.apiserver.rules.validation.rollouts import rollout_warnings

        return rollout_warnings(document.get("spec") or {})

    @override
    def status(self, resource: ResourceDeclared, records: Records) -> Document | None:
        placed = records.placements.get(resource.key)
        if placed is None or placed.uid != resource.uid or placed.rollout is None:
            return None
        return rollout_status(placed)

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        status = found.get("status") or {}
        yield Pair("Placement", at(found, "spec", "placementRef", "name"))
        yield Pair("Version", at(found, "spec", "version"))
        yield Pair("Strategy", at(found, "spec", "strategy", "type") or "All")
        if not status:
            yield Pair("Progress", "not decided yet")
            return
        yield Pair("Reason", status["reason"])
        yield Pair("Message", status["message"])
        yield Pair("Decided", time_and_age(status["decidedTime"], now))
        if again := status.get("nextTime"):
            yield Pair("Next", again)
        columns = ("clusters", "released", "succeeded", "progressing", "failed", "timedOut")
        rows = [
            [f"{one['index']}" + (f" ({one['name']})" if one.get("name") else ""), *(str(one[c]) for c in columns)]
            for one in status["groups"]
        ]
        yield Rows("Groups", ["GROUP", "CLUSTERS", "RELEASED", "SUCCEEDED", "PROGRESSING", "FAILED", "TIMED-OUT"], rows)
        yield Values("Failing", status.get("failing") or [])


def rollout_status(placed: WorkloadPlaced) -> Document:
    """Return the status of a rollout."""
    progress = placed.rollout
    if progress is None:
        return {}
    groups = [_group(one) for one in progress.groups]
    names = ("clusters", "released", "succeeded", "progressing", "failed", "timedOut")
    status: Document = {
        "version": progress.version,
        "reason": placed.reason,
        "message": placed.message,
        **{name: sum(one[name] for one in groups) for name in names},
        "stopped": progress.stopped,
        "groups": groups,
        "failing": list(progress.failing),
        "decidedTime": format_time(placed.decided_time),
    }
    if placed.decide_again is not None:
        status["nextTime"] = format_time(placed.decide_again)
    return status


def _group(one: RolloutGroupStatus) -> Document:
    found: Document = {"index": one.index, "name": one.name} if one.name else {"index": one.index}
    progressing = one.released - one.succeeded - one.failed - one.timed_out
    return {
        **found,
        "clusters": one.clusters,
        "released": one.released,
        "succeeded": one.succeeded,
        "progressing": progressing,
        "failed": one.failed,
        "timedOut": one.timed_out,
    }


KIND = RolloutKind()
