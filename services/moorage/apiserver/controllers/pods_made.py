"""What Events are written about the pods that controllers make and end, in the words of Kubernetes' controllers.

A controller may have thousands of pods. So the first few events about them have one pod each, and one more counts all
that follow, as Kubernetes' recorder does. That one is told of only where it is not known yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from moorage.apiserver.controllers.decisions import NORMAL, About, Occurrence
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.kinds.status.rollouts import DEPLOYMENT, REPLICA_SET, controller_key, of_template
from moorage.apiserver.storage.store import Store
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.nodes.workloads import WorkloadError, controller_of
from moorage_schemas.placement import PlacementState
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.workload_kinds import POD, SCALED

STATEFUL_SET: Final = "StatefulSet"
_COMPONENTS: Final[Mapping[str, str]] = {
    REPLICA_SET: "replicaset-controller",
    "ReplicationController": "replication-controller",
    STATEFUL_SET: "statefulset-controller",
    "DaemonSet": "daemonset-controller",
    "Job": "job-controller",
}
"""Who tells of the pods of each kind of controller in Kubernetes."""

_CREATE: Final = "SuccessfulCreate"
_DELETE: Final = "SuccessfulDelete"
_COMBINED: Final = "(combined from similar events): "
_MOST: Final = 10  # similar events that have one pod each
_SIMILAR_FOR: Final = timedelta(minutes=10)


@dataclass(slots=True)
class _Waiting:
    """The pods of a deployment whose replica set, which Kubernetes says to make them, is not there yet."""

    deployment: str
    """The key and the uid of the deployment."""

    pods: list[tuple[str, datetime]] = field(default_factory=list)


class PodsMade:
    """Finds in records which pods controllers have made or ended.

    Args:
        store: the present objects.
        now: returns the time.
    """

    def __init__(self, store: Store, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now
        self._waiting: dict[ObjectId, _Waiting] = {}

    def placed(self, key: str, record: Any) -> Iterator[Occurrence]:
        """What a record of a placement tells that is about to be taken in.

        Args:
            key: of the placement.
            record: None if the placement is gone.
        """
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
        """What the latest record of a placement tells, if that is the first decision on a pod."""
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
        """What follows from a replica set that is there now, or from a deployment that is gone."""
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
        """What the end of a pod tells: its controller ended it if it wants fewer, or has another template."""
        owner = ObjectId.of(record.owner.key)
        if record.owner == record.workload or record.state == PlacementState.EVICTED or record.workload.cluster:
            return
        resource = self._store.tables.resources.get(owner.key)
        if resource is None or resource.uid != record.owner_uid or at(resource.object, "metadata", "deletionTimestamp"):
            return
        if any(order.uid == record.uid and not order.node for order in resource.pods):
            return  # somebody else has asked for it
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
        """The replica set of a deployment's pod. None if it is not there (yet)."""
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
    """The occurrence as the event that counts all that are like it tells of it."""
    return replace(one, message=f"{_COMBINED}{one.message}", matter="", counts_all=True)


class Similar:
    """Counts the events of one controller and one reason, and combines those that would be too many.

    Args:
        kept: the number of controllers and reasons that are remembered.
    """

    def __init__(self, kept: int = 10_000) -> None:
        self._kept = kept
        self._told: dict[tuple[str, str], tuple[int, datetime]] = {}
        """How many events have one pod each, and when the last of them was."""

    def know(self, uid: str, reason: str, time: datetime) -> None:
        """Take in an event that is there already, or is to be written."""
        if reason not in {_CREATE, _DELETE}:
            return
        known = self._told.pop((uid, reason), None)
        count = known[0] if known is not None and time - known[1] < _SIMILAR_FOR else 0
        self._told[uid, reason] = (count + 1, max(time, known[1]) if known is not None else time)
        if len(self._told) > self._kept:
            del self._told[next(iter(self._told))]

    def is_many(self, one: Occurrence) -> bool:
        """Whether there are so many events like an occurrence that it has none of its own."""
        count, last = self._told.get((one.about.uid, one.reason), (0, one.time))
        return count >= _MOST and one.time - last < _SIMILAR_FOR
