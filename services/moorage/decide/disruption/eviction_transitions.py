"""The transitions of evictions, as one table: what is known of an eviction → the moves that follow.

The table is the whole decision. The service determines the values of its columns and takes the moves of the row. The
table is printed in docs/eviction.md. The columns are determined from left to right, and only those on which the row
depends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Final, Generic, TypeAlias, TypeVar

T = TypeVar("T")


class Occasion(StrEnum):
    """The reason to check an eviction."""

    BINDING = "binding"
    TAINTS = "taints"
    LEAVE = "request to leave"
    SWEEP = "sweep"  # the state is checked against itself: after a restart, by the reconciler, with other settings
    REPORT = "report"
    TIMER = "timer"
    ANSWER = "answer"
    DECISION = "decision"  # it has come due, and all committed records have been read


class Stage(StrEnum):
    """The state of the eviction, divided by what may follow."""

    UNBOUND = "unbound"  # no binding and no eviction, or the binding is not read yet
    NONE = "none"
    SCHEDULED = "Scheduled"
    HELD = "Held"
    ASKED = "Held with a request"
    REQUESTED = "Requested"
    OPEN_REQUEST = "open request"  # not acknowledged; the workload is mirrored, or placement has kept it
    CANCELLED = "Cancelled"
    LEFT = "Scheduled or Held without binding"
    LEFT_REQUESTED = "Requested without binding"
    LEFT_CANCELLED = "Cancelled without binding"


class Reported(StrEnum):
    """The deployer's report about the eviction, as far as it is not in its record yet."""

    NONE = "none"
    REMOVED = "removed"
    ESCALATED = "escalated"
    OUT_OF_SERVICE = "out of service"


class Urgency(StrEnum):
    """The verdict of the taints and of the requests to leave at the time of the check."""

    KEEP = "keep"
    LATER = "later"  # for a requested eviction: because of another taint or request
    AS_SCHEDULED = "as scheduled"
    GRACE = "just due"  # in a sweep of the reconciler: its timer reports it
    DUE = "due"


class OwnTimer(StrEnum):
    """The timer of an eviction that is pending, which means that it waits for its decision."""

    OTHER = "other"
    SET = "set for the deadline"  # it may have fired, and does not fire again


class Lag(StrEnum):
    """The time for which a service before this one has had records about the eviction to process."""

    NONE = "none"
    BRIEF = "below 2 s"
    LONG = "2 s"
    OTHER = "2 s by another service"  # than the one for which the eviction is held


class Guard(StrEnum):
    """The guards that may hold the eviction, and the grant."""

    FREE = "none"
    CONCERNED = "may hold"
    OPEN = "requested"
    LOST = "requested 60 s ago"
    RESTARTED = "requested before a restart"
    OUTDATED = "requested for others"  # other labels, or another zone
    PAUSED = "paused since"
    EXPIRED = "grant expired"
    GRANTED = "granted"
    DENIED = "denied"
    DENIED_AGAIN = "denied as before"
    NOT_MINE = "for another request"


class Move(StrEnum):
    """The parts of what follows. The service has one function for each."""

    PEND = "decide when everything is read"
    DROP = "do not decide"
    AWAIT = "decide at the deadline"
    WAIT = "decide again in 0.2 s"
    SCHEDULE = "write Scheduled"
    CANCEL = "write Cancelled"
    COMPLETE = "write Completed"
    END = "write Cancelled for the binding"
    FORGET = "forget it"
    HOLD = "write Held"
    HOLD_BY_ANSWER = "write Held by the guards"
    HOLD_FOR_LAG = "write Held by UpstreamLag"
    HOLD_AGAIN = "write Held for a new request"
    REQUEST = "write Requested"
    ACKNOWLEDGE = "write the acknowledgement"
    ACKNOWLEDGE_NODE = "write the acknowledgement of the taint"
    ESCALATE = "write the escalation"
    SET_TIMER = "set the timer"
    STOP_TIMER = "cancel the timer"
    DELETE_TIMER = "delete the timer"
    ASK = "request a grant"
    NOTIFY = "notify the governor"
    RELEASE = "release the grant"
    WITHDRAW = "withdraw the request"


COLUMNS: Final[tuple[type[Enum], ...]] = (Occasion, Stage, Reported, Urgency, OwnTimer, Lag, Guard)
"""The columns, in the order in which they are determined."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One transition."""

    name: str
    """Empty if its values never come together."""

    because: str
    """Why it follows. For a held eviction, this is also the end of the record's message."""

    moves: tuple[Move, ...]
    again: bool
    """Whether the eviction is checked again at once, on the same occasion."""

    when: Mapping[type[Enum], frozenset[Enum]] = field(repr=False)
    """The values of each column for which it holds."""


def _row(name: str, when: tuple[Enum, ...], because: str, *moves: Move, again: bool = False) -> Transition:
    """Return a row. A column of which no value is given may have any."""
    given = {column: frozenset(value for value in when if isinstance(value, column)) for column in COLUMNS}
    return Transition(name, because, moves, again, {column: given[column] or frozenset(column) for column in COLUMNS})


_DEMAND: Final = (Occasion.TAINTS, Occasion.LEAVE)
_RECORD: Final = (Occasion.BINDING, *_DEMAND)
_CHECK: Final = (*_RECORD, Occasion.SWEEP)
_ELSEWHERE: Final = (*_DEMAND, Occasion.REPORT, Occasion.TIMER, Occasion.ANSWER, Occasion.DECISION)
_JUDGED: Final = (*_CHECK, Occasion.DECISION)
_REPORTED: Final = (*_JUDGED, Occasion.REPORT)

_IDLE: Final = (Stage.NONE, Stage.CANCELLED)
_NEW: Final = (*_IDLE, Stage.SCHEDULED)
_HELD: Final = (Stage.HELD, Stage.ASKED)
_STARTED: Final = (Stage.SCHEDULED, *_HELD)
_UNASKED: Final = (*_NEW, Stage.HELD)
_OPEN: Final = (*_NEW, *_HELD)
_REQUESTED: Final = (Stage.REQUESTED, Stage.OPEN_REQUEST)
_LEFT: Final = (Stage.LEFT, Stage.LEFT_REQUESTED, Stage.LEFT_CANCELLED)

_ANSWERS: Final = (Guard.DENIED, Guard.DENIED_AGAIN, Guard.NOT_MINE)
_UNANSWERED: Final = (Guard.LOST, Guard.RESTARTED)
_WAITS: Final = (Guard.OPEN, *_UNANSWERED, Guard.OUTDATED)
_GRANTS: Final = (Guard.PAUSED, Guard.EXPIRED, Guard.GRANTED)
_GUARDS: Final = (Guard.FREE, Guard.CONCERNED)

_ENDING: Final = (Occasion.BINDING, Occasion.SWEEP)
_ANSWERED: Final = (Occasion.ANSWER, Stage.ASKED)
_MIRRORED: Final = (*_CHECK, Stage.OPEN_REQUEST, Reported.NONE)
_LATER: Final = (*_JUDGED, *_OPEN, Urgency.LATER)
_STANDS: Final = (*_JUDGED, Stage.SCHEDULED, Urgency.AS_SCHEDULED)
_WAITING: Final = (Stage.ASKED, Urgency.DUE)
_DUE: Final = (Occasion.DECISION, Urgency.DUE)
_LAGS_LONG: Final = (Lag.LONG, Lag.OTHER)
_READ: Final = (*_DUE, Lag.NONE)
_ASKED: Final = (*_READ, Stage.ASKED)

_END: Final = (Move.DROP, Move.DELETE_TIMER, Move.WITHDRAW)
_SCHEDULE: Final = (Move.WITHDRAW, Move.SCHEDULE)
_CANCEL: Final = (Move.WITHDRAW, Move.CANCEL)
_ASK: Final = (Move.HOLD, Move.STOP_TIMER, Move.ASK)
_AGAIN: Final = (Move.HOLD_AGAIN, Move.ASK)
_LAG: Final = (Move.HOLD_FOR_LAG, Move.WAIT)
_REQUEST: Final = (Move.REQUEST, Move.DELETE_TIMER, Move.NOTIFY)

TABLE: Final = (
    # bindings
    _row("ended", (*_ENDING, Stage.LEFT), "the binding has ended first", *_END, Move.END, again=True),
    _row("completed", (*_ENDING, Stage.LEFT_REQUESTED), "the binding has ended", *_END, Move.COMPLETE, again=True),
    _row("forgotten", (*_ENDING, Stage.LEFT_CANCELLED), "the binding has ended", *_END, Move.FORGET, again=True),
    _row("left", (*_ELSEWHERE, *_LEFT), "the record of its binding, or a sweep, ends it"),
    _row("unbound", (Occasion.BINDING, Stage.UNBOUND), "nothing is bound", Move.DROP),
    _row("unknown", (Occasion.SWEEP, *_ELSEWHERE, Stage.UNBOUND), "its binding is unknown"),
    # reports
    _row("removed", (*_REPORTED, *_REQUESTED, Reported.REMOVED), "its deployer has removed it", Move.ACKNOWLEDGE),
    _row("off", (*_REPORTED, *_REQUESTED, Reported.OUT_OF_SERVICE), "nothing runs on the node", Move.ACKNOWLEDGE_NODE),
    _row("failed", (*_REPORTED, *_REQUESTED, Reported.ESCALATED), "it is still there", Move.ESCALATE, again=True),
    _row("reported", (Occasion.DECISION, Occasion.REPORT, *_REQUESTED, Reported.NONE), "there is no new report"),
    _row("reported-early", (Occasion.REPORT, *_OPEN), "reports count once it is requested"),
    # timers and answers
    _row("fired", (Occasion.TIMER, *_OPEN, *_REQUESTED), "its timer has fired", Move.PEND),
    _row("granted", (*_ANSWERED, Guard.GRANTED), "the governor grants it", Move.PEND),
    _row("denied", (*_ANSWERED, Guard.DENIED), "other guards hold it", Move.HOLD_BY_ANSWER),
    _row("denied-again", (*_ANSWERED, Guard.DENIED_AGAIN), "the same guards hold it"),
    _row("not-mine", (*_ANSWERED, Guard.NOT_MINE), "the answer is for another request"),
    _row("late-answer", (Occasion.ANSWER, *_UNASKED, *_REQUESTED), "it waits for no grant"),
    _row("", (*_ANSWERED, *_GUARDS, *_WAITS, *_GRANTS[:2]), "an answer grants or denies"),
    # requested evictions
    _row("final", (*_CHECK, Stage.REQUESTED, Reported.NONE), "a request is final"),
    _row("demanded", (*_MIRRORED, Urgency.DUE), "it is still demanded"),
    _row("withdrawn", (*_MIRRORED, Urgency.KEEP), "a late removal would be wrong", Move.RELEASE, *_CANCEL),
    _row("postponed", (*_MIRRORED, Urgency.LATER), "something else demands it later", Move.RELEASE, *_SCHEDULE),
    _row("", (*_MIRRORED, Urgency.AS_SCHEDULED, Urgency.GRACE), "a requested eviction is not scheduled"),
    # evictions that are not due
    _row("kept", (*_JUDGED, *_IDLE, Urgency.KEEP), "nothing demands it", Move.DROP),
    _row("cancelled", (*_JUDGED, *_STARTED, Urgency.KEEP), "nothing demands it", Move.DROP, *_CANCEL, Move.STOP_TIMER),
    _row("scheduled", (*_LATER, OwnTimer.OTHER), "it comes due later", Move.DROP, *_SCHEDULE),
    _row("scheduled-early", (*_LATER, OwnTimer.SET), "its timer may have fired before", *_SCHEDULE, Move.AWAIT),
    _row("untimed", (*_STANDS, OwnTimer.OTHER), "its timer may be lost", Move.DROP, Move.SET_TIMER),
    _row("early", (*_STANDS, OwnTimer.SET), "its timer may have fired by a clock that is ahead", Move.AWAIT),
    _row("", (*_JUDGED, *_IDLE, *_HELD, Urgency.AS_SCHEDULED), "only a scheduled one has a deadline to keep"),
    _row("just-due", (Occasion.SWEEP, *_OPEN, Urgency.GRACE), "its timer reports it"),
    _row("", (*_RECORD, Occasion.DECISION, *_OPEN, Urgency.GRACE), "only sweeps wait for timers"),
    # evictions that have come due
    _row("due", (*_CHECK, *_UNASKED, Urgency.DUE), "it has come due", Move.PEND),
    _row("asked-for-others", (*_CHECK, *_WAITING, Guard.OUTDATED), "its labels or zone have changed", Move.PEND),
    _row("unanswered", (Occasion.SWEEP, *_WAITING, *_UNANSWERED), "the answer may be lost", Move.PEND),
    _row("asked", (*_RECORD, *_WAITING, *_UNANSWERED), "a sweep repeats the request"),
    _row("waiting", (*_CHECK, *_WAITING, Guard.OPEN), "it waits for the answer"),
    _row("", (*_CHECK, *_WAITING, *_GUARDS, *_GRANTS, *_ANSWERS), "only an answer ends the wait"),
    _row("lagging", (*_DUE, *_OPEN, Lag.BRIEF), "a service may still change it", Move.WAIT),
    _row("held-for-lag", (*_DUE, *_NEW, *_LAGS_LONG), "a service may still change it", *_LAG),
    _row("held-for-other", (*_DUE, *_HELD, Lag.OTHER), "another service may still change it", *_LAG),
    _row("lagging-held", (*_DUE, *_HELD, Lag.LONG), "it is held already", Move.WAIT),
    _row("free", (*_READ, *_UNASKED, Guard.FREE), "no guard may hold it", *_REQUEST, again=True),
    _row("asks", (*_READ, *_UNASKED, Guard.CONCERNED), "waits for a grant", *_ASK),
    _row("", (*_READ, *_UNASKED, *_WAITS, *_GRANTS, *_ANSWERS), "only a request has an answer"),
    _row("paused", (*_ASKED, Guard.PAUSED), "declared after the eviction was granted; waits for a new grant", *_AGAIN),
    _row("restarted", (*_ASKED, Guard.RESTARTED), "waits for a new grant after a restart", *_AGAIN),
    _row("outdated", (*_ASKED, Guard.OUTDATED), "its labels or its zone have changed; waits for a new grant", *_AGAIN),
    _row("expired", (*_ASKED, Guard.EXPIRED), "the grant has expired; waits for a new one", *_AGAIN),
    _row("repeated", (*_ASKED, Guard.OPEN, Guard.LOST), "the answer may be lost", Move.ASK),
    _row("used", (*_ASKED, Guard.GRANTED), "the governor has granted it", *_REQUEST, again=True),
    _row("", (*_ASKED, *_GUARDS, *_ANSWERS), "answers come before decisions"),
)
"""All transitions. For each combination of values there is exactly one row."""

Columns: TypeAlias = Mapping[type[Enum], Callable[[T], Enum]]
"""The functions that determine the values of the columns after the first, for an eviction in some form."""

_Tree: TypeAlias = Transition | tuple[Callable[[T], Enum], Mapping[Enum, "_Tree[T]"]]


class TransitionTable(Generic[T]):
    """The table with the functions that determine its columns, as a decision tree."""

    def __init__(self, columns: Columns[T]) -> None:
        self._columns = columns
        self._trees = {
            one: self._tree([row for row in TABLE if one in row.when[Occasion]], *COLUMNS[1:]) for one in Occasion
        }

    def _tree(self, rows: Sequence[Transition], *columns: type[Enum]) -> _Tree[T]:
        """Return the tree of some rows. It leaves out the columns on which none of them depends."""
        if not columns:
            (row,) = rows
            return row
        column, *rest = columns
        if all(row.when[column] == frozenset(column) for row in rows):
            return self._tree(rows, *rest)
        branches = {value: self._tree([row for row in rows if value in row.when[column]], *rest) for value in column}
        return self._columns[column], branches

    def row(self, occasion: Occasion, about: T) -> Transition:
        """Return the row for an eviction. Only the columns that matter are determined."""
        node = self._trees[occasion]
        while not isinstance(node, Transition):
            determine, branches = node
            node = branches[determine(about)]
        return node
