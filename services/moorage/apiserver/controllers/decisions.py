"""Events about decisions, and about the pods that controllers make: reasons and messages, from the records.

Where Kubernetes, Karmada or OCM have an event about the same thing, it has the same reason and type.

A controller may have thousands of pods. So the first few events about them have one pod each, and one more counts all
that follow, as Kubernetes' recorder does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from moorage.apiserver.kinds.kind import named
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.kinds.status.rollouts import (
    DEPLOYMENT,
    DESIRED,
    REPLICA_SET,
    controller_key,
    made_by_deployment,
    of_template,
)
from moorage.apiserver.storage.store import Store
from moorage.decide.kubernetes.condition_reasons import CONDITION_REASONS
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.nodes.workloads import WorkloadError, controller_of
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import BINDING_KINDS, POD, SCALED
from moorage_schemas.times import parse_time
from moorage_schemas.topics import CONDITIONS, EVICTIONS, PLACEMENTS, RESOURCES

NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_POD: Final = "Pod"
_DECISION: Final = "PlacementDecision"
_PLACEMENT: Final = "moorage-placement"
_EVICTION: Final = "moorage-eviction"
_CONDITIONS: Final = "moorage-conditions"
_DEPLOYMENTS: Final = "deployment-controller"


@dataclass(frozen=True, slots=True)
class About:
    """The object that an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def reference(self) -> dict[str, str]:
        """The object as an event names it."""
        definition = named(self.kind)
        found = {"kind": self.kind, "namespace": self.namespace, "name": self.name, "uid": self.uid}
        found["apiVersion"] = definition.api_versions[0] if definition is not None else ""
        return {field: value for field, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that happened once. Events count those that have the same object, reason and matter."""

    about: About
    type: str
    reason: str
    message: str
    component: str
    time: datetime
    matter: str = ""
    """Distinguishes occurrences of one reason that are not counted together."""

    counts_all: bool = False
    """Whether its event also counts several occurrences at one time, which are then not the same one."""


def occurrences(topic: str, record: Any) -> Iterator[Occurrence]:
    """Yield the occurrences in a record."""
    tell = _TOLD.get(topic)
    if tell is not None and not _is_elsewhere(record):
        yield from tell(record)


def _is_elsewhere(record: Any) -> bool:
    """Return whether a record is about a workload of another cluster, which is not shown here."""
    workload = getattr(record, "workload", None)
    return workload is not None and bool(workload.cluster)


def _placed(record: Any) -> Iterator[Occurrence]:
    workload = record.workload
    about = About(workload.kind, workload.namespace, workload.name, record.uid)
    time = record.decided_time
    if workload.kind == _POD:
        name = f"{workload.namespace}/{workload.name}"
        if record.state == PlacementState.PLACED and record.target is not None and record.reason != "NodeNameSet":
            message = f"Successfully assigned {name} to {record.target.name}"
            yield Occurrence(about, NORMAL, "Scheduled", message, _PLACEMENT, time)
        elif record.state == PlacementState.PENDING and record.message:
            yield Occurrence(about, WARNING, "FailedScheduling", record.message, _PLACEMENT, time)
    elif workload.kind in BINDING_KINDS:
        if record.state == PlacementState.PLACED:
            targets = ", ".join(f"{one.target.name}:{one.replicas}" for one in record.targets)
            message = f"Scheduled to {targets or 'no cluster'}"
            yield Occurrence(about, NORMAL, "ScheduleBindingSucceed", message, _PLACEMENT, time)
        elif record.state == PlacementState.PENDING and record.message:
            yield Occurrence(about, WARNING, "ScheduleBindingFailed", record.message, _PLACEMENT, time)
    elif workload.kind == _DECISION:
        owner = record.owner
        placement = About(owner.kind, owner.namespace, owner.name, record.owner_uid)
        reason, word = ("DecisionCreate", "created") if record.generation == 1 else ("DecisionUpdate", "updated")
        message = f"Decision {workload.name} was {word}"
        yield Occurrence(placement, NORMAL, reason, message, _PLACEMENT, time, matter=workload.name)


def _evicted(record: Any) -> Iterator[Occurrence]:
    workload = record.workload
    about = About(workload.kind, workload.namespace, workload.name, record.workload_uid)
    name = f"{workload.namespace}/{workload.name}" if workload.namespace else workload.name
    what, time = f"{workload.kind} {name}", record.decided_time
    state = record.state
    if state == EvictionState.REQUESTED and record.acknowledged is not None:
        message = f"{record.acknowledged.source} has acknowledged the eviction from {record.target.name}"
        yield Occurrence(about, NORMAL, "EvictionAcknowledged", message, _EVICTION, time)
    elif (said := record.escalation) is not None:
        why = f"{said.reason}: {said.message}" if said.message else said.reason
        message = f"Eviction of {what} from {record.target.name} was not carried out by {said.source}: {why}"
        yield Occurrence(about, WARNING, "EvictionEscalated", message, _EVICTION, time)
    elif state == EvictionState.HELD:
        why = f"is held by {', '.join(record.held_by)}" if record.held_by else "waits for the governor"
        message = f"Eviction of {what} from {record.target.name} {why}"
        yield Occurrence(about, WARNING, "EvictionHeld", message, _EVICTION, time)
    elif workload.kind != _POD:
        if state == EvictionState.REQUESTED:
            message = f"Evicted from cluster {record.target.name}"
            yield Occurrence(about, NORMAL, "EvictWorkloadFromClusterSucceed", message, _EVICTION, time)
    elif state in {EvictionState.SCHEDULED, EvictionState.REQUESTED}:
        message = f"Marking for deletion {what}"
        yield Occurrence(about, NORMAL, _TAINT_EVICTION, message, _EVICTION, time, matter="marking")
    elif state == EvictionState.CANCELLED:
        message = f"Cancelling deletion of {what}"
        yield Occurrence(about, NORMAL, _TAINT_EVICTION, message, _EVICTION, time, matter="cancelling")


def _declared(record: Any) -> Iterator[Occurrence]:
    """Yield the first pods of a deployment's template. Its replica set has their number."""
    document = record.object
    if document["kind"] != REPLICA_SET or not made_by_deployment(document):
        return
    metadata = document["metadata"]
    wanted = (metadata.get("annotations") or {}).get(DESIRED)
    time = parse_time(metadata["creationTimestamp"]) if metadata.get("creationTimestamp") else None
    if wanted is None or wanted == "0" or time is None:
        return
    key, uid = controller_key(document)
    kind, namespace, name = key.split("/")
    message = f"Scaled up replica set {metadata['name']} from 0 to {wanted}"
    about = About(kind, namespace, name, uid)
    yield Occurrence(about, NORMAL, "ScalingReplicaSet", message, _DEPLOYMENTS, time, matter=str(metadata["name"]))


_TAINT_EVICTION: Final = "TaintManagerEviction"


def _changed(record: Any) -> Iterator[Occurrence]:
    target = record.target
    known = CONDITION_REASONS.get((str(target.kind), record.type))
    if known is None:
        return
    reason = known.get(str(record.status), known["False"])
    is_unknown = record.status == ConditionStatus.UNKNOWN
    is_warning = reason != known["True"] if str(target.kind) != "Node" else is_unknown and "Unknown" in known
    message = f"{target.kind} {target.name} status is now: {reason}"
    if is_unknown and record.message:
        message += f": {record.message}"  # names the source that is silent
    time = record.status_since or record.last_transition_time
    about = About(str(target.kind), "", target.name, record.target_uid)
    yield Occurrence(about, WARNING if is_warning else NORMAL, reason, message, _CONDITIONS, time)


_TOLD: Final[Mapping[str, Callable[[Any], Iterator[Occurrence]]]] = {
    PLACEMENTS.short: _placed,
    EVICTIONS.short: _evicted,
    CONDITIONS.short: _changed,
    RESOURCES.short: _declared,
}

TOPICS: Final = (PLACEMENTS, EVICTIONS, CONDITIONS)
"""The topics of which all records have events."""

DECLARED_PREFIX: Final = f"{REPLICA_SET}/"
"""The prefix of the keys of resources that have events."""


STATEFUL_SET: Final = "StatefulSet"
_COMPONENTS: Final[Mapping[str, str]] = {
    REPLICA_SET: "replicaset-controller",
    "ReplicationController": "replication-controller",
    STATEFUL_SET: "statefulset-controller",
    "DaemonSet": "daemonset-controller",
    "Job": "job-controller",
}
"""The component that reports the pods of each kind of controller in Kubernetes."""

_CREATE: Final = "SuccessfulCreate"
_DELETE: Final = "SuccessfulDelete"
_COMBINED: Final = "(combined from similar events): "
_MOST: Final = 10  # similar events that have one pod each
_SIMILAR_FOR: Final = timedelta(minutes=10)


@dataclass(slots=True)
class _Waiting:
    """The pods of a deployment whose replica set, which makes them in Kubernetes, does not exist yet."""

    deployment: str
    """The key and the uid of the deployment."""

    pods: list[tuple[str, datetime]] = field(default_factory=list)


class PodsMade:
    """Finds in records which pods controllers have made or ended."""

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._waiting: dict[ObjectId, _Waiting] = {}

    def placed(self, key: str, record: Any) -> Iterator[Occurrence]:
        """Yield the occurrences in a record of a placement before the record is applied."""
        if not key.startswith(f"{POD}/"):
            return
        # The first decision on a pod has the generation 1, except where a pod takes the name of another one over.
        if record is not None and record.generation > 1 and record.owner.kind != STATEFUL_SET:
            return
        placements = self._store.tables.placements
        before = placements.get(key) if key in placements else None
        if before is not None and (record is None or record.uid != before.uid):
            yield from self._ended(before, self._now() if record is None else record.decided_time)
        if record is not None and (before is None or record.uid != before.uid):
            yield from self._made(record)

    def present(self, record: Any) -> Iterator[Occurrence]:
        """Yield the occurrences in the latest record of a placement, if that is the first decision on a pod."""
        if record.workload.kind == POD and (record.generation == 1 or record.replaces == record.workload.key):
            yield from self._made(record)

    def _made(self, record: Any) -> Iterator[Occurrence]:
        if record.owner == record.workload or record.state == PlacementState.EVICTED or record.workload.cluster:
            return
        owner, pod, time = ObjectId.of(record.owner.key), record.workload.name, record.decided_time
        if owner.kind != DEPLOYMENT:
            yield from _told(_about(owner, record.owner_uid), _CREATE, pod, time)
            return
        keeper = of_template(owner, record.template_hash)
        if (about := self._replica_set(keeper, owner, record.owner_uid)) is not None:
            yield from _told(about, _CREATE, pod, time)
        else:
            waiting = self._waiting.setdefault(keeper, _Waiting(f"{owner.key}/{record.owner_uid}"))
            waiting.pods.append((pod, time))

    def declared(self, key: str, resource: ResourceDeclared | None) -> Iterator[Occurrence]:
        """Yield the occurrences that waited for a replica set, and forget those of a deleted deployment."""
        if resource is None:
            if key.startswith(f"{DEPLOYMENT}/"):
                left = [one for one, found in self._waiting.items() if found.deployment.startswith(f"{key}/")]
                for one in left:
                    del self._waiting[one]
            return
        waiting = self._waiting.get(ObjectId.of(key))
        if waiting is not None and waiting.deployment == "/".join(controller_key(resource.object)):
            del self._waiting[ObjectId.of(key)]
            for pod, time in waiting.pods:
                yield from _told(_about(ObjectId.of(key), resource.uid), _CREATE, pod, time)

    def _ended(self, record: Any, time: datetime) -> Iterator[Occurrence]:
        """Yield the end of a pod that its controller wanted: it needs fewer, or has another template."""
        owner = ObjectId.of(record.owner.key)
        if record.owner == record.workload or record.state == PlacementState.EVICTED or record.workload.cluster:
            return
        resource = self._store.tables.resources.get(owner.key)
        if resource is None or resource.uid != record.owner_uid or at(resource.object, "metadata", "deletionTimestamp"):
            return
        if any(order.uid == record.uid and not order.node for order in resource.pods):
            return  # another client has deleted it
        try:
            wanted = controller_of(resource.object)
        except WorkloadError:
            return
        is_one_of_many = owner.kind in SCALED or owner.kind == "Job"
        is_too_many = is_one_of_many and record.index >= wanted.replicas
        if not is_too_many and not (wanted.rolls and record.template_hash != wanted.template_hash):
            return
        if owner.kind == DEPLOYMENT:
            about = self._replica_set(of_template(owner, record.template_hash), owner, record.owner_uid)
        else:
            about = _about(owner, record.owner_uid)
        if about is not None:
            yield from _told(about, _DELETE, record.workload.name, time)

    def _replica_set(self, keeper: ObjectId, owner: ObjectId, uid: str) -> About | None:
        """Return the replica set of a deployment's pod. None if it does not exist (yet)."""
        kept = self._store.tables.resources.get(keeper.key)
        is_own = kept is not None and controller_key(kept.object) == (owner.key, uid)
        return _about(keeper, kept.uid) if kept is not None and is_own else None


def _about(controller: ObjectId, uid: str) -> About:
    return About(controller.kind, controller.namespace, controller.name, uid)


def _told(about: About, reason: str, pod: str, time: datetime) -> Iterator[Occurrence]:
    component = _COMPONENTS.get(about.kind)
    if component is None:
        return
    if about.kind == STATEFUL_SET:
        verb = "Create" if reason == _CREATE else "Delete"
        message = f"{verb} Pod {pod} in StatefulSet {about.name} successful"
    else:
        message = f"{'Created' if reason == _CREATE else 'Deleted'} pod: {pod}"
    yield Occurrence(about, NORMAL, reason, message, component, time, matter=pod)


def combined(one: Occurrence) -> Occurrence:
    """Return the occurrence as the event of all similar ones shows it."""
    return replace(one, message=f"{_COMBINED}{one.message}", matter="", counts_all=True)


class Similar:
    """Counts the events of one controller and one reason, and combines those that would be too many."""

    def __init__(self, kept: int = 10_000) -> None:
        self._kept = kept
        self._told: dict[tuple[str, str], tuple[int, datetime]] = {}
        """How many events have one pod each, and when the last of them was."""

    def know(self, uid: str, reason: str, time: datetime) -> None:
        """Count an event that exists already, or is about to be written."""
        if reason not in {_CREATE, _DELETE}:
            return
        known = self._told.pop((uid, reason), None)
        count = known[0] if known is not None and time - known[1] < _SIMILAR_FOR else 0
        self._told[uid, reason] = (count + 1, max(time, known[1]) if known is not None else time)
        if len(self._told) > self._kept:
            del self._told[next(iter(self._told))]

    def is_many(self, one: Occurrence) -> bool:
        """Return whether there are so many events like an occurrence that it has none of its own."""
        count, last = self._told.get((one.about.uid, one.reason), (0, one.time))
        return count >= _MOST and one.time - last < _SIMILAR_FOR
