"""The OCM placements of one partition: their specs, and the last decisions on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from moorage.decide.scheduling.ocm.decisions.pages import DecisionPart
from moorage.decide.timers.deadline_index import DeadlineIndex
from moorage.workers.placement.engine.outbox import LastDecision, supersedes
from moorage.workers.placement.ocm.equivalence_classes import ClassMember, MemberPartition
from moorage.workers.placement.ocm.managed_view import ManagedView
from moorage.workers.placement.ocm.spec import (
    PLACEMENT_PREFIX,
    SelectionSpec,
    page_number,
    selection_spec_of,
)
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import DecisionGroupStatus, PlacementCondition, WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared


@dataclass(slots=True, eq=False)
class SelectionDecision(LastDecision):
    """The last decision on a placement, without its PlacementDecisions and its reasons."""

    selected: int
    groups: tuple[DecisionGroupStatus, ...]
    conditions: tuple[PlacementCondition, ...]
    requeue_at: datetime | None
    """When to decide again even if nothing has changed."""

    spec_key: str
    """The key of the spec that it was decided for."""

    @property
    def reported(self) -> tuple[object, ...]:
        """The reported values. A decision with the same values that moves no cluster is not written."""
        return (self.reason, self.message, self.selected, self.groups, self.conditions, self.requeue_at)


def selection_decision_of(event: WorkloadPlaced) -> SelectionDecision:
    """Return the fields of a decision that the state keeps."""
    return SelectionDecision(
        workload=event.workload.key,
        uid=event.uid,
        generation=event.generation,
        state=event.state,
        reason=event.reason,
        message=event.message,
        selected=event.selected,
        groups=event.decision_groups,
        conditions=event.conditions,
        requeue_at=event.decide_again,
        decided_time=event.decided_time,
        spec_key=event.template_hash,
    )


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """A PlacementDecision in its written form."""

    uid: str
    """The uid of the placement."""

    generation: int
    part: DecisionPart


@dataclass(slots=True, eq=False)
class SelectionState:
    """The part of a partition's state that concerns OCM placements."""

    view: ManagedView = field(default_factory=ManagedView)
    specs: dict[str, SelectionSpec] = field(default_factory=dict)
    """The specs of placements, by key."""

    last: dict[str, SelectionDecision] = field(default_factory=dict)
    """The last decisions, by placement."""

    pages: dict[str, dict[str, DecisionPage]] = field(default_factory=dict)
    """The PlacementDecisions, by placement, then by name."""

    members: dict[str, ClassMember] = field(default_factory=dict)
    """The members with which the view determines which changes concern a placement, by placement."""

    requeues: DeadlineIndex[str] = field(default_factory=DeadlineIndex)
    """When placements must be decided again even if nothing has changed."""

    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        """Fold in a placement that is declared, or deleted (None)."""
        known = self.specs.get(key)
        if event is None:
            self.specs.pop(key, None)
        elif known is None or known.uid != event.uid or event.version >= known.version:
            self.specs[key] = selection_spec_of(event)

    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        """Fold in a decision on a placement, or one of its pages; None when it no longer exists."""
        if event is None:
            self._forget(key)
        elif key != event.owner.key:
            clusters = self.view.shared(key, event.clusters)
            page = DecisionPage(event.uid, event.generation, DecisionPart(clusters, dict(event.labels)))
            self.pages.setdefault(event.owner.key, {})[event.workload.name] = page
        elif supersedes(event, self.last.get(key)):
            self.last[key] = selection_decision_of(event)
            if event.decide_again is not None:
                self.requeues.set(key, event.decide_again)
            else:
                self.requeues.remove(key)

    def _forget(self, key: str) -> None:
        if key.startswith(PLACEMENT_PREFIX):
            self.last.pop(key, None)
            self.requeues.remove(key)
            return
        _, namespace, name, _ = ResourceKey.parse(key)
        owner = f"{PLACEMENT_PREFIX}{namespace}/{name.rpartition('-decision-')[0]}"
        mine = self.pages.get(owner)
        if mine is not None and mine.pop(name, None) is not None and not mine:
            del self.pages[owner]

    # Updates of the view.

    def join(self, key: str, partition: MemberPartition) -> None:
        """Give the view the present spec of a placement. The view notifies `partition` of changes that concern it."""
        known, spec = self.members.get(key), self.specs.get(key)
        terms = None if spec is None or spec.paused else spec.terms
        if known is not None:
            if known.terms is terms:
                return
            self.view.leave(self.members.pop(key))
        if spec is None or terms is None:
            return
        member = ClassMember(key, spec.ref.namespace, terms, grouped=spec.groups.aspects.value, partition=partition)
        self.members[key] = member
        self.view.join(member)
        self.notify_view(key)

    def notify_view(self, owner: str) -> None:
        """Give the view the present clusters of a placement, when all of its PlacementDecisions are folded in."""
        member = self.members.get(owner)
        if member is not None:
            self.view.selects(member, tuple(one.part.clusters for one in self.pages.get(owner, {}).values()))

    # Queries.

    def before(self, owner: str) -> dict[str, DecisionPart]:
        """Return the PlacementDecisions of a placement by name, in the order of their numbers."""
        mine = self.pages.get(owner, {})
        return {name: mine[name].part for name in sorted(mine, key=page_number)}

    def decided_uid(self, owner: str) -> str | None:
        """Return the uid of the placement of this name that has decisions; None when there are none."""
        known = self.last.get(owner)
        if known is not None:
            return known.uid
        return next((page.uid for page in self.pages.get(owner, {}).values()), None)

    def generation(self, owner: str) -> int:
        """Return the last generation of the decisions of a name; 0 when there are none."""
        known = self.last.get(owner)
        of_pages = (page.generation for page in self.pages.get(owner, {}).values())
        return max(known.generation if known is not None else 0, *of_pages, 0)

    def undeclared(self) -> set[str]:
        """Return the placements that have decisions but no declaration."""
        return (self.last.keys() | self.pages.keys()) - self.specs.keys()
