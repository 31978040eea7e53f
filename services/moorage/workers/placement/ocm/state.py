"""What one partition knows of OCM placements: what they ask for, and what was decided for them."""

from __future__ import annotations

import heapq
import json
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from moorage.core.scheduling.ocm.decision_groups import GroupTerms
from moorage.core.scheduling.ocm.decision_pages import DecisionPart
from moorage.core.scheduling.ocm.spec import terms_of
from moorage.core.scheduling.ocm.terms import PlacementTerms
from moorage.workers.placement.ocm.equivalence_classes import Member
from moorage.workers.placement.ocm.view import ManagedView
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.placement import DecisionGroupStatus, PlacementCondition, PlacementState, WorkloadPlaced
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.resources.managed import Placement

PLACEMENT: Final = "Placement"
PLACEMENT_DECISION: Final = "PlacementDecision"
PLACEMENT_PREFIX: Final = f"{PLACEMENT}/"
DECISION_PREFIX: Final = f"{PLACEMENT_DECISION}/"
MINE: Final = (PLACEMENT_PREFIX, DECISION_PREFIX)

_SLACK: Final = 64
"""Times to decide again that may hold no longer beside those that do."""

DISABLED_ANNOTATION: Final = "cluster.open-cluster-management.io/experimental-scheduling-disable"
"""A placement on which this is `true` keeps its decisions as they are."""


@dataclass(slots=True, eq=False)
class Asked:
    """A placement as it is declared."""

    ref: WorkloadRef
    uid: str
    version: int
    terms: PlacementTerms | None
    """None when it cannot be read; such a placement keeps what it has."""

    groups: GroupTerms
    spec_key: str
    """Of the whole spec: another one is decided on anew, also after a restart."""

    paused: bool
    """Nothing is decided: it is disabled, or about to be deleted."""


def asked_of(event: ResourceDeclared) -> Asked:
    """What the state keeps of a placement."""
    ref = WorkloadRef(kind=PLACEMENT, namespace=event.namespace, name=event.name)
    try:
        placement = Placement.model_validate(event.object)
    except ValidationError:  # the gateway lets none through that cannot be read
        return Asked(ref, event.uid, event.version, None, GroupTerms(), "", paused=True)
    metadata, spec = placement.metadata, placement.spec
    disabled = (metadata.annotations or {}).get(DISABLED_ANNOTATION) == "true"
    return Asked(
        ref=ref,
        uid=event.uid,
        version=event.version,
        terms=terms_of(spec),
        groups=GroupTerms.of(spec.decision_strategy),
        spec_key=event_id(json.dumps(event.object.get("spec"), sort_keys=True)),
        paused=disabled or metadata.deletion_timestamp is not None,
    )


@dataclass(slots=True, eq=False)
class Standing:
    """The last decision on a placement, without its PlacementDecisions and its grounds."""

    key: str
    uid: str
    generation: int
    state: PlacementState
    reason: str
    message: str
    selected: int
    groups: tuple[DecisionGroupStatus, ...]
    conditions: tuple[PlacementCondition, ...]
    decide_again: datetime | None
    decided_time: datetime
    spec_key: str
    """Of the spec that it was decided for."""

    @property
    def says(self) -> tuple[object, ...]:
        """What is told of the placement; a decision that tells the same and moves nothing is not written."""
        return (self.reason, self.message, self.selected, self.groups, self.conditions, self.decide_again)


def standing_of(event: WorkloadPlaced) -> Standing:
    """What the state keeps of a decision."""
    return Standing(
        key=event.workload.key,
        uid=event.uid,
        generation=event.generation,
        state=event.state,
        reason=event.reason,
        message=event.message,
        selected=event.selected,
        groups=event.decision_groups,
        conditions=event.conditions,
        decide_again=event.decide_again,
        decided_time=event.decided_time,
        spec_key=event.template_hash,
    )


@dataclass(frozen=True, slots=True)
class Part:
    """A PlacementDecision as it is written."""

    uid: str
    """Of the placement."""

    generation: int
    part: DecisionPart


@dataclass(frozen=True, slots=True)
class ManagedWork:
    """A placement to decide on."""

    owner: str
    cause: Meta | None
    """None when a restore, or the reconciler, led here."""

    check: bool = False
    """Only to be decided again when what is written can no longer be right."""


@dataclass(slots=True, eq=False)
class ManagedState:
    """One partition, as far as OCM placements are concerned."""

    view: ManagedView = field(default_factory=ManagedView)
    asked: dict[str, Asked] = field(default_factory=dict)
    standing: dict[str, Standing] = field(default_factory=dict)
    parts: dict[str, dict[str, Part]] = field(default_factory=dict)
    """By placement, then by the PlacementDecision's name."""

    members: dict[str, Member] = field(default_factory=dict)
    """By placement: what of it the view needs to know, to tell which changes matter to it."""

    work: deque[ManagedWork] = field(default_factory=deque)
    begun: bool = False
    """Whether everything was looked at since the restore."""

    _waiting: dict[str, ManagedWork] = field(default_factory=dict)
    """What of `work` is still to be done, by placement; one that comes again on the list is decided once."""

    _ends: list[tuple[datetime, str]] = field(default_factory=list)
    """A heap of the times at which placements are to be decided again; entries that hold no longer are skipped."""

    # What is declared and decided.

    def fold(self, key: str, event: ResourceDeclared | None) -> None:
        """A placement is declared, or deleted (None)."""
        known = self.asked.get(key)
        if event is None:
            self.asked.pop(key, None)
        elif known is None or known.uid != event.uid or event.version >= known.version:
            self.asked[key] = asked_of(event)

    def is_new(self, event: ResourceDeclared) -> bool:
        """Whether a declared placement is not known yet."""
        known = self.asked.get(event.key)
        return known is None or known.uid != event.uid

    def put_decided(self, event: WorkloadPlaced) -> None:
        """A decision was made: on a placement, or a part of one."""
        key, owner = event.workload.key, event.owner.key
        if key != owner:
            clusters = self.view.shared(key, event.clusters)
            part = Part(event.uid, event.generation, DecisionPart(clusters, dict(event.labels)))
            self.parts.setdefault(owner, {})[event.workload.name] = part
            return
        known = self.standing.get(key)
        if known is not None and known.uid == event.uid and event.generation < known.generation:
            return
        self.standing[key] = standing_of(event)
        if event.decide_again is not None:
            heapq.heappush(self._ends, (event.decide_again, key))
            if len(self._ends) > 2 * len(self.standing) + _SLACK:
                ends = ((one.decide_again, one.key) for one in self.standing.values())
                self._ends = [(end, owner) for end, owner in ends if end is not None]
                heapq.heapify(self._ends)

    def drop_decided(self, key: str) -> None:
        """A PlacementDecision, or a placement's own record, is no more."""
        if key.startswith(PLACEMENT_PREFIX):
            self.standing.pop(key, None)
            return
        _, namespace, name = key.split("/")
        owner = f"{PLACEMENT_PREFIX}{namespace}/{name.rpartition('-decision-')[0]}"
        mine = self.parts.get(owner)
        if mine is not None and mine.pop(name, None) is not None and not mine:
            del self.parts[owner]

    def tell_view(self, owner: str) -> None:
        """Let the view know what a placement has by now: once all of its PlacementDecisions are folded in."""
        member = self.members.get(owner)
        if member is not None:
            self.view.selects(member, tuple(one.part.clusters for one in self.parts.get(owner, {}).values()))

    def before(self, owner: str) -> dict[str, DecisionPart]:
        """The PlacementDecisions of a placement by name, in the order of their numbers."""
        mine = self.parts.get(owner, {})
        return {name: mine[name].part for name in sorted(mine, key=_number)}

    def decided_uid(self, owner: str) -> str | None:
        """The uid of the placement that there are decisions of under a name; None when there are none."""
        known = self.standing.get(owner)
        if known is not None:
            return known.uid
        return next((part.uid for part in self.parts.get(owner, {}).values()), None)

    def generation(self, owner: str) -> int:
        """The last generation of the decisions under a name; 0 when there are none."""
        known = self.standing.get(owner)
        of_parts = (part.generation for part in self.parts.get(owner, {}).values())
        return max(known.generation if known is not None else 0, *of_parts, 0)

    # What there is to do.

    def look_at(self, owner: str, cause: Meta | None, *, check: bool = False) -> None:
        """Put a placement on the list of work, once; its first cause counts."""
        known = self._waiting.get(owner)
        if known is None:
            work = self._waiting[owner] = ManagedWork(owner, cause, check)
            self.work.append(work)
        elif known.check and not check:
            # It keeps its place, for the list holds names only as far as they are still to be done.
            self._waiting[owner] = ManagedWork(owner, cause)

    def take(self) -> ManagedWork:
        """The next placement to decide on."""
        return self._waiting.pop(self.work.popleft().owner)

    def due(self) -> bool:
        """Whether there is something to do, whatever the time."""
        return not self.begun or bool(self.work)

    def next_end(self) -> datetime | None:
        """When the next placement is to be decided again; None when none is."""
        ends = self._ends
        while ends and not self._holds(*ends[0]):
            heapq.heappop(ends)
        return ends[0][0] if ends else None

    def _holds(self, until: datetime, owner: str) -> bool:
        known = self.standing.get(owner)
        return known is not None and known.decide_again == until

    def gather(self, now: datetime) -> None:
        """Put what has become due on the list of work."""
        if not self.begun:
            self.begun = True
            for key in sorted(self.asked):
                self.join(key)
                self.look_at(key, None, check=True)
        while (end := self.next_end()) is not None and end <= now:
            _, owner = heapq.heappop(self._ends)
            told = event_id("moorage/placement", owner, end.isoformat())
            self.look_at(owner, Meta(told, "moorage/placement", WorkloadPlaced.event_type, time=end))

    def repair(self) -> None:
        """Put everything on the list of work, to be put right where need be."""
        for key in sorted([*self.asked, *self.unasked()]):
            self.look_at(key, None, check=True)

    def unasked(self) -> set[str]:
        """The placements that are not there, as far as is known, and of which there are decisions."""
        return (self.standing.keys() | self.parts.keys()) - self.asked.keys()

    # What the view is told.

    def join(self, key: str) -> None:
        """Let the view know what a placement asks for, as it is declared now."""
        known, asked = self.members.get(key), self.asked.get(key)
        terms = None if asked is None or asked.paused else asked.terms
        if known is not None:
            if known.terms is terms:
                return
            self.view.leave(self.members.pop(key))
        if asked is None or terms is None:
            return
        member = Member(key, asked.ref.namespace, terms, grouped=asked.groups.aspects.value, partition=self)
        self.members[key] = member
        self.view.join(member)
        self.tell_view(key)

    def notice(self, member: Member, meta: Meta) -> None:
        """See `classes.Partition`."""
        self.look_at(member.key, meta)

    def leave(self) -> None:
        """The partition is taken away."""
        for member in self.members.values():
            self.view.leave(member)
        self.members.clear()
        self.view.drop(self)


def _number(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else 0
