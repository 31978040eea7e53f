"""Requests to leave of the objects `EvictionRequest`: which binding each concerns, and what has become of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from typing_extensions import override

from moorage.apiserver.kinds.status.index import Groups, Index, Unsettled
from moorage.apiserver.kinds.status.records import Document, ObjectId, Records
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import LeaveKey, ResourceKey, eviction_key
from moorage_schemas.leave_request import LeaveRequested, Requester, RequesterKind
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.topics import BINDINGS, EVICTION_REQUESTS, EVICTIONS, PLACEMENTS, RESOURCES

EVICTION_REQUEST: Final = "EvictionRequest"

_PREFIX: Final = f"{EVICTION_REQUEST}/"
_AWAITING: Final = "AwaitingEviction"


class LeaveIndex(Index):
    """The objects that request that a pod leaves, their records, and the evictions of those pods."""

    topics = (RESOURCES.short, PLACEMENTS.short, BINDINGS.short, EVICTIONS.short, EVICTION_REQUESTS.short)

    def __init__(self) -> None:
        self.objects = Groups()
        """The keys of the objects, by the key of the pod."""

        self.records = Groups()
        """The keys of the requests to leave, by the key of the object."""

        self.evictions = Groups()
        """The keys of the evictions that name an object as requester, by the key of the object."""

        self.unsettled = Unsettled()
        """The keys of the objects about whose pods something has changed."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == EVICTION_REQUESTS.short:
            return self._requested(key, is_there=after is not None)
        if topic == RESOURCES.short and key.startswith(_PREFIX):
            self.objects.move(key, _pods(before), _pods(after))
            self.unsettled.add(key)
            return ()
        pod = key.partition("|")[0]
        if topic == EVICTIONS.short:
            old, new = _objects(before), _objects(after)
            if old or new:
                self.evictions.move(key, old, new)
        if not self.objects or (found := self.objects.get(pod)) is None:
            return ()
        self.unsettled.update(sorted(found))
        return [ObjectId.of(one) for one in sorted(found)]

    def _requested(self, key: str, *, is_there: bool) -> Iterable[ObjectId]:
        name = object_of(key)
        if name is None:
            return ()
        self.records.keep(name, key, there=is_there)
        self.unsettled.add(name)
        return (ObjectId.of(name),)


def object_of(key: str) -> str | None:
    """Return the key of the object that a request to leave comes from; None if it comes from a service."""
    workload, _, requester = LeaveKey.parse(key)
    kind, _, name = requester.partition("/")
    return (
        f"{_PREFIX}{ResourceKey.parse(workload).namespace}/{name}" if kind == RequesterKind.EVICTION_REQUEST else None
    )


def _objects(eviction: EvictionDecided | None) -> set[str]:
    """Return the keys of the objects that an eviction names as requesters."""
    if eviction is None or not eviction.requesters:
        return set()
    namespace = eviction.workload.namespace
    wanted = RequesterKind.EVICTION_REQUEST
    return {f"{_PREFIX}{namespace}/{one.name}" for one in eviction.requesters if one.kind is wanted}


def pod_of(document: Mapping[str, Any]) -> str | None:
    """Return the key of the pod that an object requests to leave."""
    name = at(document, "spec", "target", "pod", "name")
    return f"Pod/{at(document, 'metadata', 'namespace') or ''}/{name}" if name else None


def _pods(resource: Any) -> set[str]:
    pod = pod_of(resource.object) if resource is not None else None
    return set() if pod is None else {pod}


def binding_to_leave(document: Mapping[str, Any], records: Records) -> WorkloadBound | None:
    """Return the binding that an object requests to end; None if it is withdrawn, or the pod is not bound."""
    pod = pod_of(document)
    if pod is None or at(document, "spec", "intent") != "Eviction" or at(document, "metadata", "deletionTimestamp"):
        return None
    placed = records.placements.get(pod)
    if placed is None or placed.target is None:
        return None
    bound = records.bindings.get(f"{pod}|{placed.target.key}")
    return bound if bound is not None and bound.uid == at(document, "spec", "target", "pod", "uid") else None


def leave_of(document: Mapping[str, Any], bound: WorkloadBound) -> LeaveRequested:
    """Return the request to leave of an object."""
    created = parse_time(str(at(document, "metadata", "creationTimestamp")))
    requester = Requester(
        kind=RequesterKind.EVICTION_REQUEST,
        name=str(at(document, "metadata", "name")),
        program=str(at(document, "spec", "requester") or ""),
    )
    return LeaveRequested(
        workload=bound.workload,
        workload_uid=bound.uid,
        target=bound.target,
        generation=bound.generation,
        requester=requester,
        reason="EvictionRequested",
        requested_time=created,
    )


def status_of(document: Mapping[str, Any], records: Records) -> Document:
    """Return the status of an object: Kubernetes' conditions `TargetEvicted` and `Failed`, from the eviction."""
    generation = int(at(document, "metadata", "generation") or 1)
    evicted, failed = _conditions(document, records)
    since = _since(document, records)
    return {
        "observedGeneration": generation,
        "conditions": [
            {
                "type": kind,
                "status": status,
                "observedGeneration": generation,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
            for kind, (status, reason, message) in (("TargetEvicted", evicted), ("Failed", failed))
        ],
    }


_Condition = tuple[str, str, str]


def _conditions(document: Mapping[str, Any], records: Records) -> tuple[_Condition, _Condition]:
    """Return status, reason and message of both conditions."""
    eviction = eviction_of(document, records)
    if eviction is not None and _is_done(eviction):
        message = "The pod has left its node."
        return ("True", "PodDeleted", message), ("False", "Succeeded", message)
    if at(document, "spec", "intent") == "Withdrawn" and not _goes_on(eviction):
        message = "Every requester has withdrawn."
        return ("False", "EvictionFailed", message), ("True", "CanceledDueToNoRequesters", message)
    if eviction is None and not _exists(document, records):
        message = f"Pod {at(document, 'spec', 'target', 'pod', 'name')} was not found."
        return ("False", "EvictionFailed", message), ("True", "EvictionInvalid", message)
    message = _progress(eviction) if eviction is not None else "The pod waits for its eviction."
    return ("False", _AWAITING, message), ("False", _AWAITING, message)


def eviction_of(document: Mapping[str, Any], records: Records) -> EvictionDecided | None:
    """Return the latest eviction of the pod that an object names, by its uid; None if there is none.

    It is that of the present binding, or one that names the object as requester.
    """
    pod, uid = pod_of(document), at(document, "spec", "target", "pod", "uid")
    found = list(_evictions(document, pod, records)) if pod is not None else []
    return max((one for one in found if one.workload_uid == uid), key=lambda one: one.generation, default=None)


def _evictions(document: Mapping[str, Any], pod: str, records: Records) -> Iterator[EvictionDecided]:
    name = f"{_PREFIX}{at(document, 'metadata', 'namespace') or ''}/{at(document, 'metadata', 'name')}"
    keys = {key for key in records.index(LeaveIndex).evictions.get(name, ()) if key.startswith(f"{pod}|")}
    placed = records.placements.get(pod)
    if placed is not None and placed.target is not None and placed.binding_generation:
        keys.add(eviction_key(pod, placed.target.key, placed.binding_generation))
    for key in sorted(keys):
        if (eviction := records.evictions.get(key)) is not None:
            yield eviction


def _is_done(eviction: EvictionDecided) -> bool:
    return eviction.state == EvictionState.COMPLETED or eviction.reason == "BindingEnded"


def _goes_on(eviction: EvictionDecided | None) -> bool:
    """Return whether an eviction goes on, because of others or because a request is final."""
    return eviction is not None and eviction.state not in {EvictionState.CANCELLED, EvictionState.COMPLETED}


def _exists(document: Mapping[str, Any], records: Records) -> bool:
    pod, uid = pod_of(document), at(document, "spec", "target", "pod", "uid")
    placed = records.placements.get(pod) if pod is not None else None
    declared = records.resources.get(pod) if pod is not None else None
    return (placed is not None and placed.uid == uid) or (declared is not None and declared.uid == uid)


def _progress(eviction: EvictionDecided) -> str:
    if eviction.state == EvictionState.HELD:
        return f"Held by {', '.join(eviction.held_by)}." if eviction.held_by else "Waits for the governor."
    if eviction.state == EvictionState.SCHEDULED and eviction.deadline is not None:
        return f"Scheduled for {format_time(eviction.deadline)}."
    if (escalation := eviction.escalation) is not None:
        return f"Requested; {escalation.source} reports {escalation.reason}: {escalation.message}"
    if eviction.deployer and eviction.acknowledged is None:
        return f"Requested; waits for {eviction.deployer}."
    return f"{eviction.state}."


def _since(document: Mapping[str, Any], records: Records) -> str:
    eviction = eviction_of(document, records)
    if eviction is None:
        return str(at(document, "metadata", "creationTimestamp"))
    return format_time(eviction.decided_time.replace(microsecond=0))
