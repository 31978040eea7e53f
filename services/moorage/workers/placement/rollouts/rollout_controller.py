"""The controller of rollouts over the decision groups of OCM placements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final

from typing_extensions import override

from moorage.decide.rollouts.evaluation import (
    RolloutProgress,
    RolloutState,
    evaluate_rollout,
)
from moorage.decide.rollouts.progress_report import ClusterStates, group_statuses, reason_of
from moorage.decide.rollouts.strategy import GroupKey
from moorage.decide.scheduling.ocm.decisions.pages import GROUP_INDEX_LABEL, GROUP_NAME_LABEL
from moorage.decide.timers.deadline_index import DeadlineIndex
from moorage.workers.placement.engine.outbox import LastDecision, Outbox, supersedes, timed_cause
from moorage.workers.placement.engine.placement_controller import Controller
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.ocm.selection_state import SelectionState
from moorage.workers.placement.rollouts.rollout_spec import ROLLOUT_PREFIX, DeclaredRollout
from moorage.workers.placement.rollouts.rollout_view import RolloutView
from moorage_schemas.condition import ConditionStatus
from moorage_schemas.envelope import Meta
from moorage_schemas.keys import binding_key
from moorage_schemas.placement import (
    PlacementState,
    RolledOutCluster,
    RolloutProgressed,
    WorkloadBound,
    WorkloadPlaced,
)
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Toleration
from moorage_schemas.topics import BINDINGS, PLACEMENTS

_SHOWN: Final = 10
_EVERYTHING: Final = (Toleration(operator="Exists"),)
"""The placement alone decides which clusters a rollout may be on, with the tolerations of the placement. So taints do
not evict its bindings."""

_STATES: Final = {
    ConditionStatus.TRUE: RolloutState.SUCCEEDED,
    ConditionStatus.FALSE: RolloutState.FAILED,
    ConditionStatus.UNKNOWN: RolloutState.PROGRESSING,
}


@dataclass(slots=True, eq=False)
class RolloutDecision(LastDecision):
    """The last decision on a rollout."""

    placement: WorkloadRef
    progress: RolloutProgressed
    spec_key: str
    next_time: datetime | None

    @property
    def reported(self) -> tuple[object, ...]:
        """The reported values. A decision with the same values is not written."""
        return (self.state, self.reason, self.message, self.progress, self.spec_key, self.next_time)


class RolloutController(Controller):
    """Releases the clusters of each rollout whose placement is in this partition.

    Args:
        selections: the placements of the partition, whose present decisions are read.
    """

    resources: tuple[str, ...] = ()
    decisions: tuple[str, ...] = (ROLLOUT_PREFIX,)
    at_once: ClassVar[int | None] = 200

    def __init__(self, selections: SelectionState) -> None:
        super().__init__()
        self._selections = selections
        self._view = RolloutView()
        self._last: dict[str, RolloutDecision] = {}
        self._times: DeadlineIndex[str] = DeadlineIndex()

    def attach(self, view: RolloutView) -> None:
        """Use a view, and be notified of its changes."""
        self._view = view
        view.attach(self)

    @override
    def leave(self) -> None:
        self._view.detach(self)

    # Input.

    @override
    def declare(self, key: str, event: ResourceDeclared | None) -> None:
        raise NotImplementedError("rollouts come from the view")

    @override
    def decided(self, key: str, event: WorkloadPlaced | None) -> None:
        if event is None:
            self._last.pop(key, None)
            self._times.remove(key)
        elif event.rollout is not None and supersedes(event, self._last.get(key)):
            self._last[key] = _decision_of(event, event.rollout)
            if event.decide_again is not None:
                self._times.set(key, event.decide_again)
            else:
                self._times.remove(key)

    @override
    def decision(self, workload: str) -> LastDecision | None:
        return self._last.get(workload)

    @override
    def is_new(self, event: ResourceDeclared) -> bool:
        return False

    @override
    def check_resource(self, key: str, cause: Meta) -> None:
        self.work.add_once(Work(key, cause))

    def notice(self, rollout: str, meta: Meta) -> None:
        """Note a change that concerns a rollout. Rollouts of other partitions are ignored."""
        if rollout in self._last or self._is_mine(rollout):
            self.check_resource(rollout, meta)

    def placement_changed(self, placement: str) -> None:
        """Note that the decisions on a placement of the partition have changed."""
        for key in sorted(self._view.of_placement.get(placement, ())):
            self.work.add_once(Work(key, None))

    def _is_mine(self, rollout: str) -> bool:
        declared = self._view.declared.get(rollout)
        return declared is not None and declared.placement.key in self._selections.specs

    @override
    def keys(self) -> Iterable[str]:
        mine = {key for key in self._view.declared if self._is_mine(key)}
        return sorted(mine | self._last.keys())

    # Work to do.

    @override
    def due(self) -> bool:
        return not self.begun or bool(self.work)

    @override
    def next_time(self) -> datetime | None:
        return self._times.next()

    @override
    def gather(self, now: datetime) -> None:
        if not self.begun:
            self.begun = True
            for key in self.keys():
                self.work.add_once(Work(key, None))
        for key, at in self._times.take_due(now):
            self.check_resource(key, timed_cause(key, at))

    @override
    def reconcile_one(self, outbox: Outbox, work: Work) -> None:
        key, declared, known = work.key, self._view.declared.get(work.key), self._last.get(work.key)
        if self._view.is_kept(key):
            return
        version = declared.declared_version if declared is not None else 0
        outbox.begin(work.cause, key, version, known.generation if known is not None else 0)
        if known is not None and (
            declared is None or declared.uid != known.uid or declared.placement != known.placement
        ):
            _end(outbox, known)
            known = None
        if declared is None or (declared.placement.key not in self._selections.specs and known is None):
            return
        if known is None and self._view.is_bound_for_another(key, declared.uid):
            return  # its partition ends them first, which is another change
        self._decide(outbox, declared, known, repair=work.repair)

    def _decide(
        self, outbox: Outbox, declared: DeclaredRollout, known: RolloutDecision | None, *, repair: bool
    ) -> None:
        """Write the next step of a rollout."""
        now = outbox.now
        before = {one.name: one for one in known.progress.clusters} if known is not None else {}
        generation = known.generation + 1 if known is not None else 1
        is_same = known is not None and known.progress.version == declared.version
        began = known.progress.version_generation if known is not None and is_same else generation
        groups = self._groups(declared.placement.key)
        group_of = {name: key for key, names in groups.items() for name in names}
        progress = [self._progress(declared, one, began, group_of) for one in before.values()]
        step = evaluate_rollout(declared.terms, groups, progress, now)
        # The state with which a cluster of an earlier version takes part is that of a cluster without the workload.
        released = [one.name for one in step.roll_out if one.state is RolloutState.TO_APPLY]
        after = {name: one for name, one in before.items() if name in group_of}
        after |= {name: RolledOutCluster(name=name, generation=generation, since=now) for name in released}
        present = {name for name, one in after.items() if one.generation >= began}
        states = ClusterStates.of(progress, step, present)
        statuses = group_statuses(groups, states)
        reason, message = reason_of(declared.version, statuses, states, stopped=step.breached)
        reported = RolloutProgressed(
            version=declared.version,
            version_generation=began,
            clusters=tuple(after[name] for name in sorted(after)),
            groups=statuses,
            failing=states.failing[:_SHOWN],
            stopped=step.breached,
        )
        event = WorkloadPlaced(
            workload=declared.ref,
            uid=declared.uid,
            owner=declared.placement,
            owner_uid=self._placement_uid(declared.placement.key),
            template_hash=declared.spec_key,
            generation=generation,
            state=PlacementState.PLACED if after else PlacementState.PENDING,
            reason=reason,
            message=message,
            decided_time=now,
            selected=len(after),
            rollout=reported,
            decide_again=step.next_time,
        )
        made = _decision_of(event, reported)
        if known is not None and made.reported == known.reported and not released and not repair:
            return
        for name in sorted(before.keys() - after.keys()):
            _unbind(outbox, declared.ref, name)
        for name in sorted(released):
            _bind(outbox, declared, after[name])
        for name, one in after.items() if repair else ():
            if one.generation >= began and name not in released and not self._view.is_bound(declared.ref.key, name):
                _bind(outbox, declared, one)
        if known is None or made.reported != known.reported:
            outbox.put(PLACEMENTS, declared.ref.key, declared.placement.key, event)

    def _groups(self, placement: str) -> dict[GroupKey, frozenset[str]]:
        """Return the decision groups of a placement, by the labels of its PlacementDecisions."""
        found: dict[GroupKey, set[str]] = {}
        for part in self._selections.before(placement).values():
            index, name = part.labels.get(GROUP_INDEX_LABEL, ""), part.labels.get(GROUP_NAME_LABEL, "")
            found.setdefault(GroupKey(int(index) if index.isdigit() else 0, name), set()).update(part.clusters)
        return {key: frozenset(clusters) for key, clusters in found.items()}

    def _progress(
        self, declared: DeclaredRollout, one: RolledOutCluster, began: int, group_of: dict[str, GroupKey]
    ) -> RolloutProgress:
        """Return the state of a cluster. Only what was reported of its present binding counts."""
        group = group_of.get(one.name, GroupKey())
        if one.generation < began:
            return RolloutProgress(one.name, RolloutState.TO_APPLY, group)
        found = self._view.health(declared.ref.key, one.name)
        if found is None or found.uid not in {"", declared.uid}:
            return RolloutProgress(one.name, RolloutState.PROGRESSING, group, one.since)
        is_about_it = found.generation >= one.generation if found.generation else found.reported >= one.since
        if not is_about_it:
            return RolloutProgress(one.name, RolloutState.PROGRESSING, group, one.since)
        return RolloutProgress(one.name, _STATES[found.status], group, max(one.since, found.since))

    def _placement_uid(self, placement: str) -> str:
        spec = self._selections.specs.get(placement)
        return spec.uid if spec is not None else ""


def _decision_of(event: WorkloadPlaced, progress: RolloutProgressed) -> RolloutDecision:
    return RolloutDecision(
        workload=event.workload.key,
        uid=event.uid,
        generation=event.generation,
        state=event.state,
        reason=event.reason,
        message=event.message,
        decided_time=event.decided_time,
        placement=event.owner,
        progress=progress,
        spec_key=event.template_hash,
        next_time=event.decide_again,
    )


def _target(cluster: str) -> TargetRef:
    return TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=cluster)


def _bind(outbox: Outbox, declared: DeclaredRollout, one: RolledOutCluster) -> None:
    target = _target(one.name)
    event = WorkloadBound(
        workload=declared.ref,
        uid=declared.uid,
        owner=declared.ref,
        target=target,
        generation=one.generation,
        tolerations=_EVERYTHING,
        bound_time=one.since,
        labels=dict(declared.labels),
        version=declared.version,
    )
    outbox.put(BINDINGS, binding_key(declared.ref, target), target.key, event)


def _unbind(outbox: Outbox, rollout: WorkloadRef, cluster: str) -> None:
    target = _target(cluster)
    outbox.put(BINDINGS, binding_key(rollout, target), target.key, None)


def _end(outbox: Outbox, known: RolloutDecision) -> None:
    """End the bindings of a rollout that no longer exists, and delete its record."""
    ref = WorkloadRef.parse(known.workload)
    for one in known.progress.clusters:
        _unbind(outbox, ref, one.name)
    outbox.put(PLACEMENTS, known.workload, known.placement.key, None)
