"""What Events are written about decisions: their reasons and messages, from the records of the decisions.

Where Kubernetes, Karmada or OCM have an event about the same thing, it has the same reason and type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from moorage.apiserver.kinds.kind import named
from moorage.apiserver.kinds.status.rollouts import DESIRED, REPLICA_SET, controller_key, made_by_deployment
from moorage_schemas.eviction import EvictionState
from moorage_schemas.placement import PlacementState
from moorage_schemas.resources.workload_kinds import BINDING_KINDS
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
    """Tells occurrences of one reason apart that are not counted together."""

    counts_all: bool = False
    """Whether its event also counts several occurrences at one time, which are then not the same one."""


def occurrences(topic: str, record: Any) -> Iterator[Occurrence]:
    """What is told of a record.

    Args:
        topic: the short name of its topic.
        record: has the fields of the topic's model (`Records`).
    """
    tell = _TOLD.get(topic)
    if tell is not None and not _is_elsewhere(record):
        yield from tell(record)


def _is_elsewhere(record: Any) -> bool:
    """Whether a record is about a workload of another cluster, which is not shown here."""
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
        holders = ", ".join(record.held_by)
        message = f"Eviction of {what} from {record.target.name} is held by {holders}"
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
    """The first pods of a deployment's template, which the replica set that keeps it says the number of."""
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
    known = _CONDITION_REASONS.get((str(target.kind), record.type))
    if known is None:
        return
    reason = known.get(str(record.status), known["False"])
    kind = WARNING if str(target.kind) != "Node" and reason != known["True"] else NORMAL
    message = f"{target.kind} {target.name} status is now: {reason}"
    time = record.status_since or record.last_transition_time
    about = About(str(target.kind), "", target.name, record.target_uid)
    yield Occurrence(about, kind, reason, message, _CONDITIONS, time)


_CONDITION_REASONS: Final[Mapping[tuple[str, str], Mapping[str, str]]] = {
    ("Node", "Ready"): {"True": "NodeReady", "False": "NodeNotReady"},
    ("Node", "MemoryPressure"): {"True": "NodeHasInsufficientMemory", "False": "NodeHasSufficientMemory"},
    ("Node", "DiskPressure"): {"True": "NodeHasDiskPressure", "False": "NodeHasNoDiskPressure"},
    ("Node", "PIDPressure"): {"True": "NodeHasInsufficientPID", "False": "NodeHasSufficientPID"},
    ("Cluster", "Ready"): {"True": "ClusterReady", "False": "ClusterNotReady"},
    ("ManagedCluster", "ManagedClusterConditionAvailable"): {
        "True": "Available",
        "False": "Unavailable",
        "Unknown": "AvailableUnknown",
    },
}
"""The reasons of events by a target's kind and the type of its condition, for each status. An unknown one counts as
false if it has no reason of its own."""

_TOLD: Final[Mapping[str, Callable[[Any], Iterator[Occurrence]]]] = {
    PLACEMENTS.short: _placed,
    EVICTIONS.short: _evicted,
    CONDITIONS.short: _changed,
    RESOURCES.short: _declared,
}

TOPICS: Final = (PLACEMENTS, EVICTIONS, CONDITIONS)
"""The topics whose records are all told of."""

DECLARED_PREFIX: Final = f"{REPLICA_SET}/"
"""How the keys of those resources begin that are told of."""
"""The topics of the decisions that events are written about."""
