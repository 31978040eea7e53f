"""The pods of one partition: the demands of their owners, and the last decisions."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime
from sys import intern
from typing import Final

from moorage.decide.scheduling.nodes.scheduler import Decision
from moorage.workers.placement.engine.outbox import LastDecision, supersedes
from moorage.workers.placement.engine.pod_source import PodSource
from moorage.workers.placement.pods.pod_view import PodView
from moorage_schemas.placement import PlacementState, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared

REPLACES: Final = "replaces Pod/"
"""The beginning of the text about the replaced pod. This text ends the message."""


@dataclass(slots=True, eq=False)
class PodDecision(LastDecision):
    """The last decision on a pod, without its reasons. The message is kept only while the pod waits."""

    owner: str
    owner_uid: str
    template_hash: str
    index: int
    node: str
    """The pod's node; empty when it has none."""

    previous: str
    """The previous node."""

    binding_generation: int
    grounds: tuple[tuple[str, str], ...]
    """Why it is pending: filters and their reasons, without the counts, which change often."""

    replaces: str
    why: str
    """The text about a replacement: the pod that it replaces, and why that pod had to leave."""

    report_time: datetime | None

    @property
    def placed(self) -> bool:
        """Whether it has a node."""
        return self.state is PlacementState.PLACED

    @property
    def pending(self) -> bool:
        """Whether it waits for a node."""
        return self.state is PlacementState.PENDING


def pod_decision_of(event: WorkloadPlaced) -> PodDecision:
    """Return the fields of a decision that the state keeps."""
    return PodDecision(
        workload=event.workload.key,
        uid=event.uid,
        owner=intern(event.owner.key),
        owner_uid=intern(event.owner_uid),
        template_hash=intern(event.template_hash),
        index=event.index,
        generation=event.generation,
        state=event.state,
        node=intern(event.target.name) if event.target else "",
        previous=event.previous_target.name if event.previous_target else "",
        binding_generation=event.binding_generation,
        reason=intern(event.reason),
        grounds=tuple((result.filter, result.reason) for result in event.filters),
        message=event.message if event.state is PlacementState.PENDING else "",
        replaces=event.replaces,
        why=event.message[event.message.find(REPLACES) :] if event.replaces and REPLACES in event.message else "",
        decided_time=event.decided_time,
        report_time=event.report_time,
    )


_DAEMON_SET: Final = "DaemonSet"


@dataclass(slots=True, eq=False)
class PodState:
    """The part of a partition's state that concerns pods."""

    view: PodView = field(default_factory=PodView)
    owners: dict[str, PodSource] = field(default_factory=dict)
    last: dict[str, dict[str, PodDecision]] = field(default_factory=dict)
    """The last decisions on pods, by owner, then by workload."""

    pending: dict[str, dict[str, None]] = field(default_factory=dict)
    """Owner → its waiting pods, in the order in which they began to wait."""

    daemons: dict[str, None] = field(default_factory=dict)
    stuck: dict[str, None] = field(default_factory=dict)
    """Owners with pods of an older template that stay until there is room for new ones."""

    awaiting: dict[str, None] = field(default_factory=dict)
    """Owners with a pod that may fit when another pod arrives near it, or elsewhere."""

    failed: dict[Hashable, tuple[tuple[int, int], Decision]] = field(default_factory=dict)
    """The grounds of a decision that no node fits → the view's `openings` and arrivals at that time, and the decision.
    The pod cannot fit before they grow."""

    _owner_of: dict[str, str] = field(default_factory=dict)
    _places: dict[str, dict[int, dict[str, None]]] = field(default_factory=dict)
    """DaemonSet → the index of a node → the pods for that node."""

    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        """Fold in an owner that is declared, or deleted (None)."""
        if event is None:
            self.owners.pop(key, None)
            self.daemons.pop(key, None)
            self.stuck.pop(key, None)
            self.awaiting.pop(key, None)
            return
        owner = self.owners[key] = PodSource(event)
        if owner.controller is not None and owner.controller.daemon and not owner.mirrored:
            self.daemons[key] = None
        else:
            self.daemons.pop(key, None)

    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        """Fold in a decision on a pod; None when the pod no longer exists."""
        if event is None:
            self._forget(key)
            return
        owner = event.owner.key
        if not supersedes(event, self.last.get(owner, {}).get(key)):
            return
        last = pod_decision_of(event)
        self._leave_place(owner, key)
        if event.owner.kind == _DAEMON_SET:
            self._places.setdefault(owner, {}).setdefault(last.index, {})[key] = None
        self.last.setdefault(owner, {})[key] = last
        self._owner_of[key] = owner
        if last.pending:
            self.pending.setdefault(owner, {}).setdefault(key)
        else:
            self._waits_no_more(owner, key)

    def pods_of(self, owner: str) -> dict[str, PodDecision]:
        """Return the last decisions on an owner's pods, by workload. Do not change them."""
        return self.last.get(owner, {})

    def decision(self, workload: str) -> PodDecision | None:
        """Return the last decision on a pod. None if there is none."""
        return self.last.get(self._owner_of.get(workload, ""), {}).get(workload)

    def pods_at(self, owner: str, index: int) -> list[PodDecision]:
        """Return the last decisions on a DaemonSet's pods for one node, by the index of the node."""
        mine = self.last.get(owner, {})
        return [mine[workload] for workload in self._places.get(owner, {}).get(index, ())]

    def priority(self, owner: str) -> int:
        """Return the priority of an owner's pods; 0 when it cannot be read."""
        known = self.owners.get(owner)
        if known is None or known.error:
            return 0
        return known.shape(self.view.rules, self.view.rules_version).priority

    def _forget(self, workload: str) -> None:
        owner = self._owner_of.pop(workload, None)
        if owner is None:
            return
        self._leave_place(owner, workload)
        mine = self.last[owner]
        del mine[workload]
        if not mine:
            del self.last[owner]
        self._waits_no_more(owner, workload)

    def _leave_place(self, owner: str, workload: str) -> None:
        known = self.last.get(owner, {}).get(workload)
        places = self._places.get(owner)
        if known is None or places is None:
            return
        there = places.get(known.index, {})
        there.pop(workload, None)
        if not there:
            places.pop(known.index, None)
        if not places:
            del self._places[owner]

    def _waits_no_more(self, owner: str, workload: str) -> None:
        waiting = self.pending.get(owner)
        if waiting is not None:
            waiting.pop(workload, None)
            if not waiting:
                del self.pending[owner]
