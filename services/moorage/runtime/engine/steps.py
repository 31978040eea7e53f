"""Writes steps: in a header of a transaction's first record, or in records of their own."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from moorage.runtime.codec import Outgoing
from moorage.runtime.engine.batch import BatchDecision
from moorage.runtime.engine.journal import STEPS_HEADER, OwnerBook, Part, fits, heading, texts
from moorage.runtime.service import source_name
from moorage.runtime.settings import Settings
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.journal import StepsTaken
from moorage_schemas.topics import JOURNAL


def with_steps(
    book: OwnerBook, decision: BatchDecision, records: list[Outgoing], parts: Sequence[Part], settings: Settings
) -> list[Outgoing]:
    """Return the records of a transaction, with the steps that a replay needs to make them again.

    Args:
        book: the book of the engine that decided.
        decision: what is written.
        records: the records that the decision is encoded to.
        parts: the steps that no owner has written.
        settings: the settings, for the topics' prefix.
    """
    if records and decision.number >= 0:
        first = records[0]
        header = heading(book, decision.number, len(records), parts)
        topic = decision.emits[0][0].topic
        size = len(first.key) + len(first.value or b"") + sum(len(name) + len(value) for name, value in first.headers)
        if not fits(header, size, topic.max_message_bytes):
            header = heading(book, decision.number, len(records), ())
            records = [*records, *_own(book, decision, parts, settings)]
        records[0] = replace(first, headers=[*first.headers, (STEPS_HEADER, header)])
        return records
    return [*records, *_own(book, decision, parts, settings)]


def _own(book: OwnerBook, decision: BatchDecision, parts: Sequence[Part], settings: Settings) -> list[Outgoing]:
    """Return steps as records of their own."""
    run, service = book.journal.run, book.service
    found = []
    for first, text in texts(parts):
        meta = Meta(
            id=event_id("steps", run, first),
            source=source_name(service),
            type=JOURNAL.event_type,
            time=decision.now,
            subject=run,
        )
        value = StepsTaken(service=service, run=run, first=first, steps=text).model_dump_json().encode()
        name = JOURNAL.name(settings.topic_prefix)
        found.append(Outgoing(name, book.partition, run.encode(), value, to_headers(meta)))
    return found
