"""The nodes on which each DaemonSet wants a pod, and the numbers of its status.

The nodes follow from the labels and taints of all nodes. They are computed when a node or a DaemonSet changes, not when
a status is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from typing_extensions import override

from moorage.apiserver.kinds.status.controllers import OwnerIndex
from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.pods import DedicatedIndex
from moorage.apiserver.kinds.status.records import ObjectId, Records
from moorage.decide.kubernetes.quantities import QuantityError
from moorage.decide.kubernetes.unstructured import at
from moorage.decide.scheduling.nodes.daemon_sets import DaemonCounts, DaemonPod, daemon_counts, wants_pod
from moorage.decide.scheduling.nodes.pod_shape import PodShape, shape_of
from moorage.decide.scheduling.nodes.workloads import (
    WorkloadError,
    controller_of,
    daemon_index,
    make_pod,
    template_hash,
    text_labels,
)
from moorage_schemas.refs import TargetKind
from moorage_schemas.resource import ResourceDeclared, resource_key
from moorage_schemas.resources.pod import PodSpec
from moorage_schemas.resources.workload_kinds import POD
from moorage_schemas.taint import Taint

_SET: Final = "DaemonSet/"
_NODE: Final = f"{TargetKind.NODE.value}//"
_TARGET: Final = f"{TargetKind.NODE.value}/"
_RULE: Final = "DedicatedNodes/"


class _Node(NamedTuple):
    """The facts of a node by which DaemonSets choose."""

    uid: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


class _DaemonSet:
    """A DaemonSet, with the nodes that it wants."""

    def __init__(self, shape: PodShape | None, only: str) -> None:
        self.shape = shape
        """The shape of its pods. None if its template cannot be read."""

        self.only = only
        self.wanted: set[int] = set()
        """The places of its pods, one for each node that it wants."""

    def look(self, name: str, node: _Node | None) -> bool:
        """Look at a node again. Return whether the DaemonSet now wants it and did not before, or the reverse."""
        index = daemon_index(name)
        wants = (
            node is not None
            and self.shape is not None
            and wants_pod(self.shape, self.only, name=name, labels=node.labels, taints=node.taints)
        )
        if wants is (index in self.wanted):
            return False
        (self.wanted.add if wants else self.wanted.discard)(index)
        return True


class DaemonIndex(Index):
    """The nodes that each DaemonSet wants."""

    topics = ("resources", "taints")

    def __init__(self) -> None:
        self._nodes: dict[str, _Node | None] = {}
        """The nodes by name. Their facts are read once there is a DaemonSet."""

        self._places: set[int] = set()
        """The places that a DaemonSet has at most, one for each node."""

        self._sets: dict[str, _DaemonSet] = {}
        """By record key."""

    @override
    def changed(self, topic: str, key: str, before: Any, after: Any, records: Records) -> Iterable[ObjectId]:
        if topic == "taints":
            return self._tainted(key.removeprefix(_TARGET), after) if key.startswith(_TARGET) else ()
        if key.startswith(_NODE):
            return self._node(key.removeprefix(_NODE), after, records)
        if key.startswith(_SET):
            self._declared(key, after, records)
        elif key.startswith(_RULE):
            for declared in self._sets:
                self._declared(declared, records.resources.get(declared), records)
            return map(ObjectId.of, self._sets)
        return ()

    def counts(self, resource: ResourceDeclared, records: Records) -> DaemonCounts | None:
        """Return the numbers of a DaemonSet's status. None if it was spread over clusters."""
        index = records.index(OwnerIndex)
        if any(not key.startswith(f"{POD}/") for key in index.made_by.get(resource.key, ())):
            return None
        present = template_hash(at(resource.object, "spec", "template") or {})
        pods = sorted(index.each(resource, records), key=lambda one: not one.scheduled)
        known = self._sets.get(resource.key)
        return daemon_counts(
            known.wanted if known is not None else (),
            self._places,
            (
                DaemonPod(one.place, bool(one.ready), bool(one.ready), one.template == present)
                for one in pods
                if one.replicas
            ),
        )

    def _tainted(self, name: str, after: Any) -> Iterable[ObjectId]:
        known = self._nodes.get(name)
        if known is None:
            return ()
        return self._keep(name, known._replace(taints=_taints(after, known.uid)))

    def _node(self, name: str, after: ResourceDeclared | None, records: Records) -> Iterable[ObjectId]:
        if after is None:
            if name not in self._nodes:
                return ()
            del self._nodes[name]
            self._places.discard(daemon_index(name))
            return self._turned(name, None)
        self._places.add(daemon_index(name))
        if not self._sets:
            self._nodes[name] = None  # read again for the next DaemonSet
            return ()
        self._nodes.setdefault(name, None)
        return self._keep(name, _facts(name, records))

    def _keep(self, name: str, facts: _Node | None) -> Iterable[ObjectId]:
        """Keep the facts of a node, and look at it again if they have changed."""
        if facts == self._nodes[name]:
            return ()
        self._nodes[name] = facts
        return self._turned(name, facts)

    def _turned(self, name: str, facts: _Node | None) -> list[ObjectId]:
        return [ObjectId.of(key) for key, one in self._sets.items() if one.look(name, facts)]

    def _declared(self, key: str, after: ResourceDeclared | None, records: Records) -> None:
        if after is None or after.mirrored is not None:
            self._sets.pop(key, None)
            return
        shape, only = _template(after, records)
        known = self._sets.get(key)
        if known is not None and known.shape == shape and known.only == only:
            return
        found = self._sets[key] = _DaemonSet(shape, only)
        for name, facts in self._nodes.items():
            read = self._nodes[name] = facts or _facts(name, records)
            found.look(name, read)


def _facts(name: str, records: Records) -> _Node | None:
    declared = records.resources.get(resource_key(TargetKind.NODE.value, "", name))
    if declared is None:
        return None
    labels = text_labels(at(declared.object, "metadata", "labels"))
    return _Node(declared.uid, labels, _taints(records.taints.get(f"{_TARGET}{name}"), declared.uid))


def _taints(tainted: Any, uid: str) -> tuple[Taint, ...]:
    """Return the taints of the node of this uid, from the record of its taints."""
    if tainted is None or tainted.target_uid not in {"", uid}:
        return ()
    return tuple(Taint(key=one.key, value=one.value, effect=one.effect) for one in tainted.taints)


def _template(declared: ResourceDeclared, records: Records) -> tuple[PodShape | None, str]:
    """Return the shape of a DaemonSet's pods and the node that its template names."""
    rules = list(records.index(DedicatedIndex).rules.values())
    try:
        pod = make_pod(controller_of(declared.object), name="pod", uid="uid", rules=rules)
        spec = PodSpec.model_validate(pod["spec"])
        return shape_of(spec), spec.node_name
    except (QuantityError, WorkloadError, ValidationError):
        return None, ""
