"""The state of one partition: what its owners want, and what was decided for their pods."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from moorage.core.apimachinery.quantities import QuantityError
from moorage.core.scheduling.nodes.scheduler import Decision
from moorage.core.scheduling.nodes.shape import PodShape, shape_of
from moorage.core.scheduling.nodes.workloads import (
    Controller,
    WorkloadError,
    controller_of,
    make_pod,
    pod_labels,
    text_labels,
)
from moorage.workers.placement.karmada.state import ClusterState
from moorage.workers.placement.ocm.state import ManagedState
from moorage.workers.placement.view import FleetView
from moorage_schemas.envelope import Meta
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.pod import PodSpec
from moorage_schemas.resources.workloads import CONTROLLERS, POD

REPLACES = "replaces Pod/"
"""How the words begin that tell what a pod replaces; they end the message."""

_FINISHED = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True, eq=False)
class Held:
    """The last decision on a pod, without its grounds."""

    workload: str
    uid: str
    owner: str
    owner_uid: str
    template_hash: str
    index: int
    generation: int
    state: PlacementState
    node: str
    """Empty when it has none."""

    previous: str
    """The node before."""

    binding_generation: int
    reason: str
    grounds: tuple[tuple[str, str], ...]
    """Why it is pending: filters and their reasons, without the counts, which change all the time."""

    message: str
    """Kept only while it waits."""

    replaces: str
    why: str
    """What is said of a replacement: what it replaces, and why that had to go."""

    decided_time: datetime
    report_time: datetime | None

    @property
    def placed(self) -> bool:
        """Whether it has a node."""
        return self.state is PlacementState.PLACED

    @property
    def pending(self) -> bool:
        """Whether it waits for one."""
        return self.state is PlacementState.PENDING


def held_of(event: WorkloadPlaced) -> Held:
    """What the state keeps of a decision."""
    return Held(
        workload=event.workload.key,
        uid=event.uid,
        owner=event.owner.key,
        owner_uid=event.owner_uid,
        template_hash=event.template_hash,
        index=event.index,
        generation=event.generation,
        state=event.state,
        node=event.target.name if event.target else "",
        previous=event.previous_target.name if event.previous_target else "",
        binding_generation=event.binding_generation,
        reason=event.reason,
        grounds=tuple((result.filter, result.reason) for result in event.filters),
        message=event.message if event.state is PlacementState.PENDING else "",
        replaces=event.replaces,
        why=event.message[event.message.find(REPLACES) :] if event.replaces and REPLACES in event.message else "",
        decided_time=event.decided_time,
        report_time=event.report_time,
    )


class Owner:
    """A resource that is, or makes, pods."""

    def __init__(self, event: ResourceDeclared) -> None:
        self.key = event.key
        self.ref = WorkloadRef(kind=event.kind, namespace=event.namespace, name=event.name)
        self.uid = event.uid
        self.version = event.version
        self.controller: Controller | None = None
        self.error = ""
        """Why it cannot be read; such an owner keeps the pods that it has."""

        self.node_name = ""
        """The node that the person named; empty for none."""

        self._shape: tuple[int, PodShape] | None = None
        self._labels: tuple[str, dict[str, str]] = ("", {})
        self.finished = False
        try:
            if event.kind == POD:
                self._shape = (-1, self._read(event.object.get("spec") or {}))
                self._labels = ("", text_labels((event.object.get("metadata") or {}).get("labels")))
                status: Mapping[str, Any] = event.object.get("status") or {}
                self.finished = status.get("phase") in _FINISHED
            else:
                self.controller = controller_of(event.object)
                self._read_template(())
        except (QuantityError, WorkloadError, ValidationError) as error:
            self.error = str(error)

    def shape(self, rules: tuple[DedicatedNodes, ...], rules_version: int) -> PodShape:
        """The shape of its pods, under the rules for dedicated nodes for what is made from a template.

        A declared pod was admitted when it was made, so rules that came later do not touch it.
        """
        if self.controller is not None and (self._shape is None or self._shape[0] != rules_version):
            self._shape = (rules_version, self._read_template(rules))
        if self._shape is None:
            raise WorkloadError("spec", self.key, self.error or "has no pods")
        return self._shape[1]

    def labels(self, name: str, index: int, made_from: str) -> dict[str, str]:
        """The labels of one of its pods; one object for all pods that have the same."""
        if self.controller is None:
            return self._labels[1]
        if self.controller.keeps_names:
            return pod_labels(self.controller, name=name, index=index)
        if self._labels[0] != made_from:
            self._labels = (made_from, pod_labels(self.controller, name=name, made_from=made_from))
        return self._labels[1]

    def _read_template(self, rules: tuple[DedicatedNodes, ...]) -> PodShape:
        if self.controller is None:
            raise WorkloadError("kind", self.ref.kind, f"must be one of {', '.join(CONTROLLERS)}")
        pod = make_pod(self.controller, name="pod", uid="uid", rules=rules)
        return self._read(pod["spec"])

    def _read(self, spec: Mapping[str, Any]) -> PodShape:
        model = PodSpec.model_validate(spec)
        self.node_name = model.node_name
        return _shared(shape_of(model))


@lru_cache(maxsize=65_536)
def _shared(shape: PodShape) -> PodShape:
    """The same object for equal shapes."""
    return shape


@dataclass(frozen=True, slots=True)
class Work:
    """Something to look at."""

    owner: str
    workload: str
    """One pod of the owner; empty for all of it."""

    cause: Meta | None
    """None when a restore, not an event, led here."""

    gone: bool = False
    """Whether the pod's node was deleted, or made again under its name."""

    repair: bool = False
    """Whether to write again what should be there and is not."""


@dataclass(slots=True, eq=False)
class State:
    """One partition."""

    partition: int
    view: FleetView = field(default_factory=FleetView)
    owners: dict[str, Owner] = field(default_factory=dict)
    held: dict[str, dict[str, Held]] = field(default_factory=dict)
    """By owner, then by workload."""

    pending: dict[str, dict[str, None]] = field(default_factory=dict)
    """Owner → its pods that wait, in the order in which they began to."""

    daemons: dict[str, None] = field(default_factory=dict)
    stuck: dict[str, None] = field(default_factory=dict)
    """Owners whose pods of an older template wait for room for the new ones."""

    work: deque[Work] = field(default_factory=deque)
    begun: bool = False
    """Whether everything was looked at since the restore."""

    openings: int = 0
    """The view's `openings` when what waits was last tried."""

    changes: int = 0
    failed: dict[str, tuple[int, Decision]] = field(default_factory=dict)
    """Shape → the view's `openings` at which it fitted nowhere, and why; it fits no better until the next one."""

    clusters: ClusterState = field(default_factory=ClusterState)
    """What is placed on clusters instead of making pods."""

    managed: ManagedState = field(default_factory=ManagedState)
    """OCM placements."""

    _owner_of: dict[str, str] = field(default_factory=dict)

    def put_owner(self, event: ResourceDeclared) -> None:
        """An owner is declared."""
        owner = self.owners[event.key] = Owner(event)
        if owner.controller is not None and owner.controller.daemon:
            self.daemons[event.key] = None

    def drop_owner(self, key: str) -> None:
        """An owner is deleted."""
        self.owners.pop(key, None)
        self.daemons.pop(key, None)
        self.stuck.pop(key, None)

    def put_held(self, event: WorkloadPlaced) -> None:
        """A decision was made."""
        held = held_of(event)
        known = self.held.get(held.owner, {}).get(held.workload)
        if known is not None and known.uid == held.uid and held.generation < known.generation:
            return
        self.held.setdefault(held.owner, {})[held.workload] = held
        self._owner_of[held.workload] = held.owner
        if held.pending:
            self.pending.setdefault(held.owner, {}).setdefault(held.workload)
        else:
            self._waits_no_more(held.owner, held.workload)

    def drop_held(self, workload: str) -> None:
        """A pod is no more."""
        owner = self._owner_of.pop(workload, None)
        if owner is None:
            return
        mine = self.held[owner]
        del mine[workload]
        if not mine:
            del self.held[owner]
        self._waits_no_more(owner, workload)

    def notice(self, owner: str, workload: str, meta: Meta, *, gone: bool) -> None:
        """See `view.Listener`."""
        if workload in self.held.get(owner, ()):
            self.work.append(Work(owner, workload, meta, gone=gone))

    def due(self) -> bool:
        """Whether there is something to do, on nodes or on clusters."""
        view = self.view
        if self.clusters.due() or self.managed.due():
            return True
        waiting = bool(self.pending or self.stuck) and self.openings != view.openings
        return not self.begun or bool(self.work) or waiting or (bool(self.daemons) and self.changes != view.changes)

    def _waits_no_more(self, owner: str, workload: str) -> None:
        waiting = self.pending.get(owner)
        if waiting is not None:
            waiting.pop(workload, None)
            if not waiting:
                del self.pending[owner]
