"""When work has to leave a target because of requests to leave, beside the target's taints. The earliest counts.

A request counts for exactly one binding: its uid and its generation must be those of the binding. Verdicts are types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from moorage.decide.taints.eviction_verdict import EvictAt, EvictNow, Keep, Verdict
from moorage_schemas.leave_request import Requester
from moorage_schemas.taint import Taint
from moorage_schemas.times import format_time


@dataclass(frozen=True, slots=True)
class LeaveRequest:
    """The part of a request to leave on which the verdict rests."""

    uid: str
    generation: int
    requester: Requester
    message: str
    deadline: datetime | None
    """None means at once."""


@dataclass(frozen=True, slots=True)
class LeaveNow:
    """Requests demand that the work leaves at once.

    Attributes:
        requesters: the requesters that demand it, in the order of their keys.
        taints: the taints that demand the same. Empty if only requests do.
        tolerated: whether those taints are tolerated for zero seconds.
    """

    requesters: tuple[Requester, ...]
    taints: tuple[Taint, ...]
    tolerated: bool
    reason: str


@dataclass(frozen=True, slots=True)
class LeaveAt:
    """Requests demand that the work leaves at `deadline`, before any taint does.

    Attributes:
        deadline: the earliest deadline, UTC. If it has passed, the work has to leave now.
        requesters: the requesters with this deadline, in the order of their keys.
        taints: the taint whose toleration ends at the same time. Empty if there is none.
    """

    deadline: datetime
    requesters: tuple[Requester, ...]
    taints: tuple[Taint, ...]
    reason: str


Demand = Verdict | LeaveNow | LeaveAt


def counting(requests: Iterable[LeaveRequest], uid: str, generation: int) -> list[LeaveRequest]:
    """Return the requests about one binding, in the order of their requesters' keys."""
    found = [one for one in requests if one.generation == generation and one.uid == uid]
    return sorted(found, key=lambda one: one.requester.key)


def demanded(by_taints: Verdict, requests: Sequence[LeaveRequest]) -> Demand:
    """Return the earlier of the demand of a target's taints and the demands of requests.

    If both demand the same time, the result names the taints and the requesters.

    Args:
        by_taints: the verdict of the taints.
        requests: the requests about the binding (`counting`).
    """
    if not requests:
        return by_taints
    at_once = [one for one in requests if one.deadline is None]
    if at_once:
        return _now(by_taints, at_once)
    return by_taints if isinstance(by_taints, EvictNow) else _later(by_taints, requests)


def _now(by_taints: Verdict, at_once: Sequence[LeaveRequest]) -> LeaveNow:
    reason = _reason(at_once)
    if isinstance(by_taints, EvictNow):
        tolerated = bool(by_taints.tolerated)
        return LeaveNow(_requesters(at_once), by_taints.taints, tolerated, f"{by_taints.reason}; {reason}")
    return LeaveNow(_requesters(at_once), (), tolerated=False, reason=reason)


def _later(by_taints: EvictAt | Keep, requests: Sequence[LeaveRequest]) -> EvictAt | LeaveAt:
    deadline = min(one.deadline for one in requests if one.deadline is not None)
    first = [one for one in requests if one.deadline == deadline]
    reason = f"{_reason(first)}, until {format_time(deadline)}"
    if isinstance(by_taints, Keep) or deadline < by_taints.deadline:
        return LeaveAt(deadline, _requesters(first), (), reason)
    if deadline == by_taints.deadline:
        return LeaveAt(deadline, _requesters(first), (by_taints.taint,), f"{by_taints.reason}; {reason}")
    return by_taints


def deadline_of_demand(found: Demand) -> datetime | None:
    """Return the deadline of a demand. None if there is no demand, or it demands to leave at once."""
    return found.deadline if isinstance(found, EvictAt | LeaveAt) else None


def is_at_once(found: Demand) -> bool:
    """Return whether the work has to leave at once."""
    return isinstance(found, EvictNow | LeaveNow)


def taints_of(found: Demand) -> tuple[Taint, ...]:
    """Return the taints that demand an eviction."""
    match found:
        case EvictNow() | LeaveNow() | LeaveAt():
            return found.taints
        case EvictAt():
            return (found.taint,)
        case Keep():
            return ()


def requesters_of(found: Demand) -> tuple[Requester, ...]:
    """Return the requesters that demand an eviction."""
    return found.requesters if isinstance(found, LeaveNow | LeaveAt) else ()


def requested_by(requesters: Sequence[Requester]) -> str:
    """Return the reason of an eviction that requests cause: `RequestedBy` and the kind of the first requester."""
    return f"RequestedBy{requesters[0].kind.value}"


def _requesters(requests: Iterable[LeaveRequest]) -> tuple[Requester, ...]:
    return tuple(one.requester for one in requests)


def _reason(requests: Iterable[LeaveRequest]) -> str:
    return f"requested by {', '.join(map(_text, requests))}"


def _text(request: LeaveRequest) -> str:
    by = f" of {request.requester.program}" if request.requester.program else ""
    return f"{request.requester.key}{by}{f' ({request.message})' if request.message else ''}"
