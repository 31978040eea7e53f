"""The order and duplicates of reports of conditions, and the changes of conditions.

Reports of one condition of one target are ordered by the time at which the probe observed them. An older report is
ignored. Of two reports with the same time the later record wins, unless it is the same report again: one with the same
source and id. All reports of that time are kept, up to `SAME_TIME_MOST`: an uncertain sender repeats them all, and the
first one must not win by that. If the source has fallen silent since, only a report that was observed later counts: a
report that has counted before must not revive it.

The same rules apply to reports about a workload on a target, separately for each workload. There, reports that name a
binding are ordered by the generation of the binding first.

A report that changes nothing but times need not be written each time; `heartbeats.may_stay_unrecorded` has the rule.
A stored condition therefore has the times of its last report, and those of its last record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, Self

from msgspec import MsgspecError, Struct, json
from pydantic import ValidationError

from moorage_schemas.condition import ConditionChanged, ConditionReported, ConditionStatus
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.keys import binding_key
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.report_rules import Refusal
from moorage_schemas.times import format_time

CLOCKS_DIFFER = timedelta(seconds=1)
"""How far the clock that timestamps report records may be behind the gateway's clock, which timestamps declarations.

A report that is written at most this long before its target is declared still counts. Otherwise a report that was
actually written afterwards could be lost.
"""


SAME_TIME_MOST: Final = 32
"""How many reports of one condition with the same time are remembered, besides the last one. Of more, the oldest are
forgotten, and would count if they were repeated. A probe that rounds its times to seconds has few."""

_SOURCE_CHARACTERS: Final = 253

_SHORT: Final = 512
"""The number of characters of a message up to which its hash is kept."""


class KeptCondition(Struct, gc=False):
    """The stored part of a condition. Its reason and message take the most space and are not stored.

    `hear` and `heard` change it; all other fields are those of its record.
    """

    target_uid: str
    status: ConditionStatus
    source: str
    last_transition_time: datetime
    last_heartbeat_time: datetime
    generation: int
    report_id: str
    """Empty if the source has fallen silent."""

    accepted_time: datetime
    """When the last report that this process has read was accepted."""

    status_since: datetime
    words: int
    """A hash of reason and message, from `words_of`. It shows whether a report changes them."""

    recorded_time: datetime
    """When the report in the last record was accepted."""

    unrecorded: timedelta
    """For how long after `recorded_time` its source may have reported without a record, as the record states."""

    heard: bool = False
    """Whether this process has read the last report, so that `accepted_time` is exact. False after a restore."""

    earlier_reports: str = ""
    """The earlier reports with the time of the last one, as in `ConditionChanged`."""

    workload_uid: str = ""
    binding_generation: int = 0
    """The binding that a report about a workload named, as in `WorkloadConditionChanged`."""

    @classmethod
    def of(cls, event: ConditionChanged, shared: Callable[[str], str] = str) -> Self:
        """Return the stored part of a condition, as its record has it.

        Times that earlier versions did not write are taken from the report.

        Args:
            event: the condition.
            shared: returns one object for equal texts, to save memory when there are many conditions.
        """
        accepted = event.accepted_time or event.last_heartbeat_time
        return cls(
            target_uid=shared(event.target_uid),
            status=event.status,
            source=shared(event.source),
            last_transition_time=event.last_transition_time,
            last_heartbeat_time=event.last_heartbeat_time,
            generation=event.generation,
            report_id=event.report_id,
            accepted_time=accepted,
            status_since=event.status_since or event.last_heartbeat_time,
            words=words_of(event),
            recorded_time=accepted,
            unrecorded=_milliseconds(event.unrecorded_heartbeats_ms),
            earlier_reports=event.earlier_reports,
            workload_uid=getattr(event, "workload_uid", ""),
            binding_generation=getattr(event, "binding_generation", 0),
        )

    @property
    def recorded_until(self) -> datetime:
        """Until when reports of the source may have been accepted that are not in this record."""
        return self.recorded_time + self.unrecorded

    @property
    def latest(self) -> datetime:
        """When the source last reported, by this condition, but not earlier than it really was."""
        return self.accepted_time if self.heard else self.recorded_until

    def hear(self, report: ConditionReported, report_id: str, now: datetime) -> None:
        """Note a report that changes nothing but times, and is not written."""
        self.earlier_reports = _earlier(report, self)
        self.last_heartbeat_time = report.observed_time
        self.report_id = report_id
        self.accepted_time = now
        self.heard = True


def source_of(report: ConditionReported, sender: str) -> str:
    """Return the source of a report: the one that it names, else the sender, truncated to the length that is kept."""
    return report.source or sender[:_SOURCE_CHARACTERS]


def report_hash(source: str, report_id: str) -> str:
    """Return a short hash of a report's identity: its source, and the id that the source gave it."""
    return blake2b(f"{source}\0{report_id}".encode(), digest_size=8).hexdigest()


def _earlier(report: ConditionReported, known: KeptCondition) -> str:
    """Return `earlier_reports` after a report that counts."""
    if report.observed_time != known.last_heartbeat_time:
        return ""  # nearly always
    kept = [*known.earlier_reports.split(), report_hash(known.source, known.report_id)]
    return " ".join(kept[-SAME_TIME_MOST:])


def words_of(event: ConditionReported | ConditionChanged) -> int:
    """Return a hash of the reason and the message of a report or a condition, the same in every process."""
    message = event.message
    return _repeated(event.reason, message) if len(message) <= _SHORT else _hash(event.reason, message)


def _hash(reason: str, message: str) -> int:
    return int.from_bytes(blake2b(f"{reason}\0{message}".encode(), digest_size=8).digest())


_repeated = lru_cache(maxsize=4096)(_hash)
"""The hashes of words that probes repeat about all targets. Long ones would take too much memory."""


@lru_cache(maxsize=64)
def _milliseconds(number: int) -> timedelta:
    # There are few different values, and one object for each saves memory when there are many conditions.
    return timedelta(milliseconds=number)


@lru_cache(maxsize=64)
def _whole_milliseconds(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class Stale:
    """The report is older than the last condition, or not newer although its source has fallen silent since."""

    latest: datetime
    """The observation time of the last report that counted."""

    silent: bool = False
    """Whether the source of that report has fallen silent since."""

    @property
    def why(self) -> str:
        """Why the report is ignored."""
        if self.silent:
            return (
                f"not newer than {format_time(self.latest)}, when the condition was last observed before its source "
                "fell silent"
            )
        return f"older than {format_time(self.latest)}, when the condition was last observed"


@dataclass(frozen=True, slots=True)
class Superseded:
    """The report is about an earlier generation of the workload's binding than the last condition."""

    generation: int
    """The generation of the last condition."""

    @property
    def why(self) -> str:
        """Why the report is ignored."""
        return f"about an earlier binding than generation {self.generation}, which was reported last"


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The report has already counted."""

    report_id: str

    @property
    def why(self) -> str:
        """Why the report is ignored."""
        return f"a report of this source with the id {self.report_id!r} has already counted"


def check_key(key: str, target: str) -> Refusal | None:
    """Check that a record's key is empty or the key of the target that the report is about."""
    if not key or key == target:
        return None
    return Refusal(RefusalReason.WRONG_KEY, field="key", value=key, rule=f"must be empty or the target's key, {target}")


def unknown_target(report: ConditionReported) -> Refusal:
    """Return the refusal of a report about a target that is not declared."""
    return Refusal(
        RefusalReason.UNKNOWN_TARGET,
        field="target",
        value=report.target.key,
        rule="must be a declared target; declare it first",
    )


def earlier_target(report: ConditionReported, written: datetime | None, began: datetime | None) -> Refusal | None:
    """Check that a report is not about an earlier target of the same name.

    Args:
        report: the report.
        written: Kafka's timestamp of its record. The observation time is not used, because it may be arbitrarily early.
        began: when the present target was first declared, truncated to the second.
    """
    if written is None or began is None or written >= began - CLOCKS_DIFFER:
        return None
    return Refusal(
        RefusalReason.UNKNOWN_TARGET,
        field="target",
        value=report.target.key,
        rule=f"must be declared before the report is written, at {format_time(written)}; "
        f"the target that has the name now was declared at {format_time(began)}",
    )


def reported_binding(target: str, value: bytes) -> str | None:
    """Return the workload and the target of a report about a workload, as `BindingKey`; None for any other report.

    This reads no more of the report than it needs, and checks nothing.

    Args:
        target: the key of its record.
        value: its value.
    """
    if not _NAMES_WORKLOAD.search(value):
        return None
    try:
        workload = json.decode(value, type=_AboutWorkload).workload
        return None if workload is None else binding_key(WorkloadRef.model_validate(workload), target)
    except (MsgspecError, ValidationError, UnicodeDecodeError):
        return None


def reported_status(target: str, value: bytes) -> tuple[tuple[str, str], str] | None:
    """Return the condition that a report is about, and the status that it reports; None if it cannot be read.

    A report with the status of the one before it does not change the condition's status.

    Args:
        target: the key of its record.
        value: its value.
    """
    try:
        found = json.decode(value, type=_Status)
    except (MsgspecError, UnicodeDecodeError):
        return None
    return (target, found.type), found.status


class _AboutWorkload(Struct):
    workload: dict[str, str] | None = None


class _Status(Struct):
    type: str
    status: str


_NAMES_WORKLOAD: Final = re.compile(rb'"workload"\s*:\s*\{')


def check_order(
    report: ConditionReported, *, report_id: str, source: str, target_uid: str, known: KeptCondition | None
) -> Stale | Superseded | Duplicate | None:
    """Decide whether a report is older than the last condition, or has already counted. None if it counts.

    Reports that name a binding of the same workload are ordered by its generation first. A deployer that was slow to
    remove the work of an earlier binding must not change the status of the present one.

    Args:
        report: a report that passed every check.
        report_id: the id under which the probe sent it.
        source: the source of the report.
        target_uid: the uid of the target as declared now.
        known: the present condition. It does not matter if it belongs to an earlier target of the same name.
    """
    if known is None or known.target_uid != target_uid:
        return None
    names_both = report.binding_generation and known.binding_generation and report.workload_uid == known.workload_uid
    if names_both and report.binding_generation != known.binding_generation:
        is_earlier = report.binding_generation < known.binding_generation
        return Superseded(known.binding_generation) if is_earlier else None
    return _check_time_order(report, report_id, source, known)


def _check_time_order(
    report: ConditionReported, report_id: str, source: str, known: KeptCondition
) -> Stale | Duplicate | None:
    if report.observed_time > known.last_heartbeat_time:
        return None
    if report.observed_time < known.last_heartbeat_time:
        return Stale(known.last_heartbeat_time)
    if not known.report_id:
        return Stale(known.last_heartbeat_time, silent=True)
    if (known.report_id, known.source) == (report_id, source):
        return Duplicate(report_id)
    if known.earlier_reports and report_hash(source, report_id) in known.earlier_reports.split():
        return Duplicate(report_id)
    return None


def accept(
    report: ConditionReported,
    *,
    report_id: str,
    source: str,
    target_uid: str,
    known: KeptCondition | None,
    now: datetime,
    unrecorded: timedelta,
) -> dict[str, Any]:
    """Return the fields of the condition that results from a report that counts, in the order of the model.

    Args:
        report: a report that `check_order` has let pass.
        report_id: the id under which the probe sent it.
        source: the source of the report.
        target_uid: the uid of the target as declared now.
        known: the present condition of the target, or of the workload that the report names. If it belongs to an
            earlier target of the same name, only its generation is used and increased.
        now: when the report is accepted.
        unrecorded: for how long after this record reports of the source that change nothing may stay unrecorded.
    """
    same = known is not None and known.target_uid == target_uid
    unchanged = known if known is not None and same and known.status is report.status else None
    if unchanged is not None and report.workload_uid and unchanged.workload_uid:
        binding = (unchanged.workload_uid, unchanged.binding_generation)
        unchanged = unchanged if binding == (report.workload_uid, report.binding_generation) else None
    # Thousands of reports a second pass here, and all of these values come from validated events.
    values: dict[str, Any] = {
        "target": report.target,
        "target_uid": target_uid,
        "type": report.type,
        "status": report.status,
        "reason": report.reason,
        "message": report.message,
        "source": source,
        "last_transition_time": report.observed_time if unchanged is None else unchanged.last_transition_time,
        "last_heartbeat_time": report.observed_time,
        "generation": (known.generation if known is not None else 0) + 1,
        "report_id": report_id,
        "earlier_reports": _earlier(report, known) if known is not None and same else "",
        "accepted_time": now,
        "status_since": now if unchanged is None else unchanged.status_since,
        "unrecorded_heartbeats_ms": _whole_milliseconds(unrecorded),
    }
    if report.workload is not None:
        values["workload"] = report.workload
        values["workload_uid"] = report.workload_uid
        values["binding_generation"] = report.binding_generation
    return values


def newer_condition(event: ConditionChanged, known: ConditionChanged | KeptCondition | None) -> bool:
    """Return whether a condition supersedes the last one."""
    return known is None or known.target_uid != event.target_uid or event.generation > known.generation
