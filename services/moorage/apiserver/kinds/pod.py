"""`Pod` (v1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from moorage.apiserver.kinds.kind import Kind
from moorage.apiserver.kinds.printing.columns import AGE, LABELS, Object, TableColumn, of, reference_text, text
from moorage.apiserver.kinds.printing.kubernetes import pod_phase, readiness_gates, restarts
from moorage.apiserver.kinds.printing.sections import (
    Heading,
    Pair,
    Related,
    Section,
    Values,
    evictions,
    grounds,
    pairs,
    time_and_age,
    tolerations,
)
from moorage.decide.kubernetes.object_texts import condition_status
from moorage.decide.kubernetes.unstructured import at, name_of, namespace_of

if TYPE_CHECKING:
    from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
    from moorage_schemas.resources.dedicated import DedicatedNodes


SCHEDULED: Final = "Scheduled"
"""The status of a bound pod that no deployer has reported since it was bound."""


def pod_status(found: Object) -> str:
    """Return the phase of a pod, or its reason (`Evicted`). `Scheduled` if it is bound but not reported."""
    if at(found, "metadata", "deletionTimestamp"):
        return "Terminating"
    phase = str(at(found, "status", "reason") or at(found, "status", "phase") or "Unknown")
    return SCHEDULED if phase == "Pending" and condition_status(found, "PodScheduled") == "True" else phase


def pod_ready(found: Object) -> str:
    """Return the numbers of ready and of all containers. Deployers report whole pods, so all are ready or none is."""
    statuses = at(found, "status", "containerStatuses")
    total = len(at(found, "spec", "containers") or [])
    if isinstance(statuses, Sequence) and statuses:
        return f"{sum(1 for one in statuses if one.get('ready'))}/{total or len(statuses)}"
    return f"{total if condition_status(found, 'Ready') == 'True' else 0}/{total}"


def _decision(related: Related, namespace: str, name: str, now: datetime) -> Iterator[Section]:
    found = related.get("WorkloadPlacement", namespace, name)
    if found is None:
        yield Pair("Placement", "not decided yet")
        return
    decision = found["status"]
    yield Heading("Placement")
    yield Pair("  State", f"{decision['state']} ({decision.get('reason') or 'no reason'})")
    yield Pair("  Decided", time_and_age(decision["decidedTime"], now))
    if decision.get("message"):
        yield Pair("  Message", decision["message"])
    if before := decision.get("previousTarget"):
        yield Pair("  Before on", reference_text(before))
    if decision.get("replaces"):
        yield Pair("  Replaces", decision["replaces"])
    yield from grounds(decision)


_OF_ITS_CLASS: Final = ("priority", "preemptionPolicy")
"""The fields of its spec that a pod gets from its priority class."""


class PodKind(Kind[Any]):
    """A bare pod, which no controller has created."""

    kind = "Pod"
    model_module = "pod"
    mirrorable = True
    short_names = ("po",)
    namespaced = True
    order = 30
    status_shown = True
    deleted_is_returned = True
    in_all = True
    own_subresources = ("binding", "eviction")
    container_subresources = ("attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize")
    field_selectors: ClassVar[Mapping[str, str]] = {
        "spec.hostNetwork": "false",
        "spec.nodeName": "",
        "spec.restartPolicy": "",
        "spec.schedulerName": "",
        "spec.serviceAccountName": "",
        "status.nominatedNodeName": "",
        "status.phase": "",
        "status.podIP": "",
    }
    columns = (
        TableColumn("READY", of(pod_ready)),
        TableColumn("STATUS", of(pod_status)),
        TableColumn("NODE", text("spec", "nodeName")),
        AGE,
        TableColumn("MESSAGE", text("status", "message"), wide=True),
        LABELS,
    )
    api_columns = (
        TableColumn("Ready", of(pod_ready)),
        TableColumn("Status", of(pod_phase)),
        TableColumn("Restarts", of(restarts)),
        AGE,
        TableColumn("IP", text("status", "podIP"), wide=True),
        TableColumn("Node", text("spec", "nodeName"), wide=True),
        TableColumn("Nominated Node", text("status", "nominatedNodeName"), wide=True),
        TableColumn("Readiness Gates", of(readiness_gates), wide=True),
    )

    @override
    def changed(self, wanted: dict[str, Any], shown: Mapping[str, Any]) -> dict[str, Any]:
        # Values from a pod's priority class stay if they are left out.
        spec, present = wanted.get("spec"), shown.get("spec")
        if not isinstance(spec, dict) or not isinstance(present, Mapping):
            return wanted
        kept = {one: present[one] for one in _OF_ITS_CLASS if spec.get(one) is None and present.get(one) is not None}
        return {**wanted, "spec": {**spec, **kept}} if kept else wanted

    @override
    def admitted(self, document: dict[str, Any], rules: Iterable[DedicatedNodes]) -> dict[str, Any]:
        from moorage.decide.kubernetes.pod_defaults import admit_pod

        return admit_pod(document, list(rules))

    @override
    def without_decided(self, document: dict[str, Any], stored: Mapping[str, Any]) -> dict[str, Any]:
        # Only a node that a person has named is kept, because the shown one may be placement's choice.
        spec = {key: value for key, value in (document.get("spec") or {}).items() if key != "nodeName"}
        named = (stored.get("spec") or {}).get("nodeName")
        return {**document, "spec": {**spec, **({"nodeName": named} if named else {})}}

    @override
    def describe(self, found: Object, related: Related, now: datetime) -> Iterator[Section]:
        namespace, name = namespace_of(found), name_of(found)
        yield Pair("Node", at(found, "spec", "nodeName"))
        status = pod_status(found)
        unreported = ": it is bound, and no deployer has reported it since"
        yield Pair("Status", f"{status}{unreported}" if status == SCHEDULED else status)
        yield Pair("Ready", pod_ready(found))
        owner = next(iter(at(found, "metadata", "ownerReferences") or []), None)
        yield Pair("Controlled By", reference_text(owner) if owner else "<none>: a bare pod is not replaced")
        yield Values("Node selector", pairs(at(found, "spec", "nodeSelector")))
        yield tolerations(at(found, "spec", "tolerations"))
        yield from _decision(related, namespace, name, now)
        leaving = [
            one
            for one in related.list("Eviction", namespace)
            if one["status"]["workload"].get("name") == name and one["status"]["workload"].get("kind") == "Pod"
        ]
        yield evictions(leaving, now)

    @override
    def shown(self, object_id: ObjectId, records: Records) -> Document | None:
        from moorage.apiserver.kinds.status import pods

        return pods.shown(object_id, records)


KIND = PodKind()
