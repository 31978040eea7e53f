"""Reports in a status that is written: a kubelet, or a deployer that speaks Kubernetes, writes conditions there.

The conditions of targets and pods follow from reports alone. What is written of them becomes reports of the writer, and
is shown when condition-ingest has accepted it (docs/domain.md, "Written status").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.decide.kubernetes.field_errors import quote
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.condition import HEALTHY, ConditionReported
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resources.workload_kinds import POD

_TARGETS: Final = frozenset(kind.value for kind in TargetKind)
_READY: Final = "Ready"
_PLACEMENTS: Final = "PodScheduled"
"""The condition of a pod that placement decides."""

_DERIVED: Final = frozenset({"Initialized", "ContainersReady"})
"""Conditions of a pod that follow from others."""

Conditions = dict[str, Mapping[str, Any]]


def is_reported(kind: ServedKind) -> bool:
    """Return whether what is written of a kind's conditions is a report."""
    return kind.kind == POD or kind.kind in _TARGETS


def conditions_of(document: Mapping[str, Any]) -> Conditions:
    """Return the conditions in the status of an object, by their type. One without a status does not count."""
    found = at(document, "status", "conditions")
    return {
        str(one["type"]): one
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, Mapping) and one.get("type") and one.get("status")
    }


def reports_in(
    object_id: ObjectId,
    shown: Mapping[str, Any],
    wanted: Mapping[str, Any],
    *,
    source: str,
    now: datetime,
    cluster: str = "",
) -> list[ConditionReported]:
    """Return the reports in a status that is written: conditions that differ from those that are shown.

    Kubernetes validates neither the types nor the statuses of conditions. Those that a report cannot have are left out
    (`odd_conditions`), so that they keep back no others. Texts that are too long are cut.
    """
    before = conditions_of(shown)
    changed = {name: one for name, one in conditions_of(wanted).items() if _differs(one, before.get(name))}
    workload: WorkloadRef | None = None
    if object_id.kind == POD:
        node = str(at(shown, "spec", "nodeName") or "")
        if not node:
            return []
        target = TargetRef(kind=TargetKind.NODE, name=node, cluster=cluster)
        workload = WorkloadRef(kind=POD, namespace=object_id.namespace, name=object_id.name, cluster=cluster)
        changed = {name: one for name, one in changed.items() if name != _PLACEMENTS and name not in _DERIVED}
        if _READY in changed and HEALTHY not in changed:
            changed[HEALTHY] = changed[_READY]
    else:
        target = TargetRef(kind=TargetKind(object_id.kind), name=object_id.name, cluster=cluster)
    return list(_reports(changed, target, workload, source=source, now=now))


def odd_conditions(kind: ServedKind, wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each condition in a status that cannot be reported."""
    if is_reported(kind):
        for name, one in conditions_of(wanted).items():
            if _report({"type": name, "status": one.get("status"), "target": _ANY, "observedTime": _ANY_TIME}) is None:
                why = "its type or status cannot be reported, and it was ignored"
                yield f"status.conditions: {quote(name)}: {why}"


_ANY: Final = TargetRef(kind=TargetKind.NODE, name="any")
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_LONGEST_REASON, _LONGEST_MESSAGE = 1024, 32768


def _report(fields: Mapping[str, Any]) -> ConditionReported | None:
    try:
        return ConditionReported.model_validate(fields)
    except ValidationError:
        return None


def _reports(
    changed: Conditions, target: TargetRef, workload: WorkloadRef | None, *, source: str, now: datetime
) -> Iterable[ConditionReported]:
    for name, one in changed.items():
        report = _report(
            {
                "target": target,
                "workload": workload,
                "type": name,
                "status": one.get("status"),
                "reason": (one.get("reason") or "")[:_LONGEST_REASON],
                "message": (one.get("message") or "")[:_LONGEST_MESSAGE],
                "observedTime": now,
                "source": source,
            }
        )
        if report is not None:
            yield report


def _differs(wanted: Mapping[str, Any], shown: Mapping[str, Any] | None) -> bool:
    """Return whether a condition is another one than is shown, or was observed at another time."""
    if shown is None:
        return True
    said = ("status", "reason", "message", "lastHeartbeatTime")
    return any((wanted.get(field) or "") != (shown.get(field) or "") for field in said)
