"""Writes answers, each with its cause, and with its slot, which stores it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from moorage.workers.governor.wait_queue import GrantRequest
from moorage_schemas.base import Model
from moorage_schemas.budget import BudgetCounted, EvictionAnswered, EvictionSlot
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.topics import BUDGETS, EVICTION_ANSWERS, EVICTION_SLOTS, FLEET, Topic

SOURCE: Final = "moorage/governor"
"""The CloudEvents source of the governor's records."""

Write = Callable[[Topic, str, str, Model | None, Meta], None]
"""Takes topic, key, partition key, event and cause of a record, writes the record and folds it in."""


class Replies:
    """Writes the answers of one book. `begin` provides the time and the output for one run of `decide`."""

    def __init__(
        self, slots: Mapping[str, EvictionSlot], valid_until: Callable[[EvictionSlot], datetime | None]
    ) -> None:
        self.causes: dict[str, Meta] = {}
        """The causes of the requests, and of the ends of requests, that were read since `decide` last ran."""

        self._slots = slots
        self._valid_until = valid_until
        self._now = datetime.min.replace(tzinfo=UTC)
        self._write: Write = _nowhere
        self._freed: Meta | None = None

    def begin(self, now: datetime, write: Write) -> None:
        """Set the time and the output to write to."""
        self._now, self._write = now, write

    def freed_by(self, meta: Meta | None) -> None:
        """Set the latest record of the view as the cause of changes without a request."""
        self._freed = meta or self._freed

    def pause(self) -> None:
        """Stop writing, and keep the causes for the answers that are still to come."""
        self._write = _nowhere

    def end(self) -> None:
        """Stop writing, and discard the causes."""
        self._write, self._freed = _nowhere, None
        self.causes.clear()

    def record(
        self, request: GrantRequest, *, granted: bool, message: str, held_by: tuple[str, ...] = ()
    ) -> EvictionSlot:
        """Write an answer and its slot."""
        event, known = request.event, self._slots.get(request.key)
        slot = EvictionSlot(
            workload=event.workload,
            workload_uid=event.workload_uid,
            owner=event.owner,
            target=event.target,
            generation=event.generation,
            labels=event.labels if granted else {},
            zone=event.zone if granted else "",
            granted_time=self._now,
            granted=granted,
            held_by=held_by,
            revision=known.revision + 1 if known is not None else 1,
            asked=event.revision,
            reason=event.reason if granted else "",
        )
        cause = self._cause(request.key, "answer", slot.revision, request)
        self._write(EVICTION_SLOTS, request.key, FLEET, slot, cause)
        self._answer(request.key, slot, message, cause)
        return slot

    def repeat(self, request: GrantRequest) -> None:
        """Write an answer again, because it may have been lost."""
        slot = self._slots[request.key]
        message = "" if slot.granted else f"held by {', '.join(slot.held_by)}"
        self._answer(request.key, slot, message, self._cause(request.key, "again", slot.revision))

    def slot(self, key: str, slot: EvictionSlot | None, what: str = "") -> None:
        """Write the new state of a slot; None for its end."""
        what = what or ("over" if slot is not None else "end")
        self._write(EVICTION_SLOTS, key, FLEET, slot, self._cause(key, what, self._slots[key].revision))

    def count(self, key: str, event: BudgetCounted | None, step: int) -> None:
        """Write the status of a budget."""
        self._write(BUDGETS, key, FLEET, event, self._by_time("counted", key, step, self._now.isoformat()))

    def _answer(self, key: str, slot: EvictionSlot, message: str, cause: Meta) -> None:
        answer = EvictionAnswered(
            workload=slot.workload,
            target=slot.target,
            generation=slot.generation,
            revision=slot.revision,
            asked=slot.asked,
            granted=slot.granted,
            held_by=slot.held_by,
            message=message,
            answered_time=self._now,
            valid_until=self._valid_until(slot),
        )
        self._write(EVICTION_ANSWERS, key, slot.target.key, answer, cause)

    def _cause(self, key: str, what: str, revision: int, request: GrantRequest | None = None) -> Meta:
        """Return the cause of a record: the request that was just read, the latest record of the view, or the time.

        No cause is used twice for one request, because the ids of the output follow from it.
        """
        cause = self.causes.get(key)
        if cause is not None and (request is None or request.caused_by != cause.id):
            if request is not None:
                request.caused_by = cause.id
            return cause
        correlation, trace = (request.correlation, request.traceparent) if request is not None else ("", "")
        freed = self._freed
        if request is not None and freed is not None and request.caused_by != freed.id:
            request.caused_by = freed.id
            if not correlation:
                return freed._replace(correlation_id=freed.correlation)
            return freed._replace(correlation_id=correlation, traceparent=trace)
        return self._by_time(what, key, revision)._replace(correlation_id=correlation, traceparent=trace)

    def _by_time(self, *about: object) -> Meta:
        return Meta(
            id=event_id("governor", *about),
            source=SOURCE,
            type=EVICTION_SLOTS.event_type,
            time=self._now,
            subject=str(about[1]),
        )


def _nowhere(topic: Topic, key: str, _partition_key: str, _event: Model | None, _cause: Meta) -> None:
    raise AssertionError(f"{topic.short} {key} is written outside of `decide`")
