"""Reconciles one OCM placement: the clusters that it selects, and its status."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from moorage.decide.scheduling.ocm.decisions.conditions import conditions_of
from moorage.decide.scheduling.ocm.decisions.pages import layout_of
from moorage.decide.scheduling.ocm.decisions.result import Scheduled
from moorage.decide.scheduling.ocm.plugin import Code, Status
from moorage.workers.placement.engine.work_queue import Work
from moorage.workers.placement.ocm.decision_writer import DecisionWriter, SelectionOutcome
from moorage.workers.placement.ocm.equivalence_classes import ClassMember
from moorage.workers.placement.ocm.selection_state import SelectionDecision
from moorage.workers.placement.ocm.spec import SelectionSpec
from moorage_schemas.envelope import Meta


def reconcile(writer: DecisionWriter, work: Work) -> Meta | None:
    """Reconcile the records of a placement with the present state.

    Returns:
        The cause of deciding on it again; None when that is not necessary.
    """
    state = writer.state
    writer.begin(work)
    spec, known = state.specs.get(work.key), state.last.get(work.key)
    uid = state.decided_uid(work.key)
    if uid is not None and (spec is None or uid != spec.uid):
        writer.end(uid)  # deleted; a placement that was created again under its name starts anew
        known = None
    member = state.members.get(work.key)
    if spec is None or spec.paused or member is None:
        return None
    had = [name for page in member.clusters for name in page]
    outcome = _decide(writer, spec, member, known, check=work.check)
    moved = writer.write(spec, known, outcome)
    return writer.again() if moved and had and _is_again_due(writer, member, had, outcome.grounds) else None


def _is_again_due(writer: DecisionWriter, member: ClassMember, had: list[str], grounds: Scheduled) -> bool:
    """Return whether a cluster was dropped that only placements that have it may keep (NoSelectIfNew).

    It was one of the selectable clusters, and no longer is. This can change the scores of others.
    """
    fleet = writer.view.fleet
    dropped = fleet.rows_of(set(had).difference(name for page in member.clusters for name in page))
    among = dropped[np.isin(dropped, grounds.rows)]
    return member.of is not None and any(not member.of.takes(row) for row in among.tolist())


def _decide(
    writer: DecisionWriter, spec: SelectionSpec, member: ClassMember, known: SelectionDecision | None, *, check: bool
) -> SelectionOutcome:
    view, terms = writer.view, member.terms
    sets = view.sets_of(member)
    decided = [name for part in member.clusters for name in part]
    if adopts := known is None and not decided:
        # Until it is decided here, the placement has the selection of another scheduler on the real hub.
        decided = list(view.found(member.key))
    now = max(writer.now, writer.at)
    scheduled = view.scheduler.schedule(
        terms, candidates=view.candidates(sets), decided=decided, usage=view.usage, now=now
    )
    decisions: tuple[str, ...] = scheduled.decisions
    again = scheduled.requeue_at
    if member.relative:  # when an unselected cluster becomes unselectable, the scores of the others change
        again = _earliest(again, member.ends(view.fleet, view.usage, scheduled.rows, now))
    is_same = check and known is not None and known.spec_key == spec.spec_key
    if (is_same or (adopts and decided)) and scheduled.may_stand(decided):
        if set(decided) != set(decisions):
            again = _again(writer, member, decided, again, now)
        decisions = tuple(decided)
    status, unscheduled = scheduled.status, scheduled.unscheduled
    if status.kept:
        decisions = scheduled.kept(decided)
        unscheduled = max(0, (terms.number or 0) - len(decisions))
    if not status.is_error and spec.groups.problem:
        status = Status(Code.MISCONFIGURED, "", spec.groups.problem)
    member.wrong = scheduled.status.is_error
    groups = spec.groups.cut(decisions, lambda name: view.fleet.at(view.fleet.row(name)))
    return SelectionOutcome(
        layout=layout_of(spec.ref.name, groups),
        selected=len(decisions),
        conditions=conditions_of(
            status,
            sets,
            available=scheduled.considered,
            decisions=len(decisions),
            unscheduled=unscheduled,
            before=known.conditions if known is not None else (),
            now=writer.at,
        ),
        requeue_at=again,
        grounds=scheduled,
    )


def _again(
    writer: DecisionWriter, member: ClassMember, decided: list[str], others: datetime | None, now: datetime
) -> datetime | None:
    """Return when to decide again on a kept selection. If scores end as well, this may be too early."""
    fleet = writer.view.fleet
    found = member.ends(fleet, writer.view.usage, fleet.rows_of(decided), now)
    scores_end = member.of is not None and member.of.scores_end
    return _earliest(found, others) if member.relative or scores_end else found


def _earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((time for time in (one, other) if time is not None), default=None)
