"""What one partition knows of OCM placements: what they ask for, and what was decided last for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from moorage.core.scheduling.ocm.decision_pages import DecisionPart
from moorage.core.timers.deadline_index import DeadlineIndex
from moorage.workers.placement.engine.last_decision import supersedes
from moorage.workers.placement.ocm.decision import DecisionPage, SelectionDecision, selection_decision_of
from moorage.workers.placement.ocm.equivalence_classes import Member, MemberPartition
from moorage.workers.placement.ocm.spec import PLACEMENT_PREFIX, SelectionSpec, selection_spec_of
from moorage.workers.placement.ocm.view import ManagedView
from moorage_schemas.keys import ResourceKey
from moorage_schemas.placement import WorkloadPlaced
from moorage_schemas.resource import ResourceDeclared


@dataclass(slots=True, eq=False)
class SelectionState:
    """One partition, as far as OCM placements are concerned."""

    view: ManagedView = field(default_factory=ManagedView)
    specs: dict[str, SelectionSpec] = field(default_factory=dict)
    """What placements ask for, by key."""

    last: dict[str, SelectionDecision] = field(default_factory=dict)
    """The last decisions, by placement."""

    pages: dict[str, dict[str, DecisionPage]] = field(default_factory=dict)
    """By placement, then by the PlacementDecision's name."""

    members: dict[str, Member] = field(default_factory=dict)
    """By placement: what of it the view needs to know, to tell which changes matter to it."""

    requeues: DeadlineIndex[str] = field(default_factory=DeadlineIndex)
    """When placements are to be decided again although nothing has changed."""

    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        """A placement is declared, or deleted (None)."""
        known = self.specs.get(key)
        if event is None:
            self.specs.pop(key, None)
        elif known is None or known.uid != event.uid or event.version >= known.version:
            self.specs[key] = selection_spec_of(event)

    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        """A decision was made on a placement, or one of its pages was written; None when it is no more."""
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

    # What the view is told.

    def join(self, key: str, partition: MemberPartition) -> None:
        """Let the view know what a placement asks for, as it is declared now; `partition` is told what matters."""
        known, spec = self.members.get(key), self.specs.get(key)
        terms = None if spec is None or spec.paused else spec.terms
        if known is not None:
            if known.terms is terms:
                return
            self.view.leave(self.members.pop(key))
        if spec is None or terms is None:
            return
        member = Member(key, spec.ref.namespace, terms, grouped=spec.groups.aspects.value, partition=partition)
        self.members[key] = member
        self.view.join(member)
        self.tell_view(key)

    def tell_view(self, owner: str) -> None:
        """Let the view know what a placement has by now: once all of its PlacementDecisions are folded in."""
        member = self.members.get(owner)
        if member is not None:
            self.view.selects(member, tuple(one.part.clusters for one in self.pages.get(owner, {}).values()))

    # Questions.

    def before(self, owner: str) -> dict[str, DecisionPart]:
        """The PlacementDecisions of a placement by name, in the order of their numbers."""
        mine = self.pages.get(owner, {})
        return {name: mine[name].part for name in sorted(mine, key=_number)}

    def decided_uid(self, owner: str) -> str | None:
        """The uid of the placement that there are decisions of under a name; None when there are none."""
        known = self.last.get(owner)
        if known is not None:
            return known.uid
        return next((page.uid for page in self.pages.get(owner, {}).values()), None)

    def generation(self, owner: str) -> int:
        """The last generation of the decisions under a name; 0 when there are none."""
        known = self.last.get(owner)
        of_pages = (page.generation for page in self.pages.get(owner, {}).values())
        return max(known.generation if known is not None else 0, *of_pages, 0)

    def undeclared(self) -> set[str]:
        """The placements that are not declared, as far as is known, and of which there are decisions."""
        return (self.last.keys() | self.pages.keys()) - self.specs.keys()


def _number(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0
