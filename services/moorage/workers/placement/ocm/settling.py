"""One placement at a time: which clusters it has, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from moorage.core.scheduling.ocm.decision_pages import Layout, laid_out
from moorage.core.scheduling.ocm.plugin import Code, Status
from moorage.core.scheduling.ocm.result import Scheduled
from moorage.core.scheduling.ocm.statuses import conditions_of
from moorage.workers.placement.ocm.desk import ManagedDesk
from moorage.workers.placement.ocm.equivalence_classes import Member
from moorage.workers.placement.ocm.state import Asked, ManagedWork, Standing
from moorage_schemas.placement import PlacementCondition


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision, ready to be written."""

    layout: Layout
    selected: int
    conditions: tuple[PlacementCondition, ...]
    decide_again: datetime | None
    grounds: Scheduled
    """Why; what of it is written is worked out only when it is."""


def settle(desk: ManagedDesk, work: ManagedWork) -> None:
    """Bring what is written of a placement to what the present state of everything asks for."""
    state = desk.state
    desk.begin(work)
    state.join(work.owner)
    asked, known = state.asked.get(work.owner), state.standing.get(work.owner)
    uid = state.decided_uid(work.owner)
    if uid is not None and (asked is None or uid != asked.uid):
        desk.end(uid)  # deleted; if it was made again under its name, it starts clean
        known = None
    member = state.members.get(work.owner)
    if asked is None or asked.paused or member is None:
        return
    had = [name for part in member.clusters for name in part]
    outcome = _decide(desk, asked, member, known, check=work.check)
    if desk.write(asked, known, outcome) and had:
        _look_again(desk, member, had, outcome.grounds)


def _look_again(desk: ManagedDesk, member: Member, had: list[str], grounds: Scheduled) -> None:
    """Decide once more when a cluster was dropped that only a placement which has it may have (NoSelectIfNew).

    It stood among the clusters that could be selected, and does not any more, which can change the scores of others.
    """
    fleet = desk.view.fleet
    dropped = fleet.rows_of(set(had).difference(name for part in member.clusters for name in part))
    among = dropped[np.isin(dropped, grounds.rows)]
    if member.of is not None and any(not member.of.takes(row) for row in among.tolist()):
        desk.look_again()


def _decide(desk: ManagedDesk, asked: Asked, member: Member, known: Standing | None, *, check: bool) -> Outcome:
    view, terms = desk.view, member.terms
    sets = view.sets_of(member)
    decided = [name for part in member.clusters for name in part]
    now = max(desk.now, desk.at)
    scheduled = view.scheduler.schedule(
        terms, candidates=view.candidates(sets), decided=decided, usage=view.usage, now=now
    )
    decisions: tuple[str, ...] = scheduled.decisions
    again = scheduled.decide_again
    if member.relative:  # that a cluster which is not selected cannot be any more changes the scores of the others
        again = _earliest(again, member.ends(view.fleet, view.usage, scheduled.rows, now))
    if check and known is not None and known.spec_key == asked.spec_key and scheduled.may_stand(decided):
        if set(decided) != set(decisions):
            again = _again(desk, member, decided, again, now)
        decisions = tuple(decided)
    status = scheduled.status
    if not status.is_error and asked.groups.problem:
        status = Status(Code.MISCONFIGURED, "", asked.groups.problem)
    member.wrong = scheduled.status.is_error
    groups = asked.groups.cut(decisions, lambda name: view.fleet.at(view.fleet.row(name)))
    return Outcome(
        layout=laid_out(asked.ref.name, groups),
        selected=len(decisions),
        conditions=conditions_of(
            status,
            sets,
            available=scheduled.considered,
            decisions=len(decisions),
            unscheduled=scheduled.unscheduled,
            before=known.conditions if known is not None else (),
            now=desk.at,
        ),
        decide_again=again,
        grounds=scheduled,
    )


def _again(
    desk: ManagedDesk, member: Member, decided: list[str], others: datetime | None, now: datetime
) -> datetime | None:
    """When a choice that stays is to be decided again; rather too early than too late, where scores end too."""
    fleet = desk.view.fleet
    found = member.ends(fleet, desk.view.usage, fleet.rows_of(decided), now)
    scores_end = member.of is not None and member.of.scores_end
    return _earliest(found, others) if member.relative or scores_end else found


def _earliest(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((time for time in (one, other) if time is not None), default=None)
