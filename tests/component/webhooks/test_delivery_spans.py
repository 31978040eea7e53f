"""Each attempt to deliver an event is a span after the event's, and the request carries it on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.component.webhooks.test_sender import EVENT
from tests.support.receivers import SECRET, receiving

from moorage.runtime.process.clock import WallClock
from moorage.runtime.process.traces import FinishedSpan, use_export
from moorage.workers.webhooks.sender import Sender
from moorage_schemas.resources.webhook import WebhookSpec
from moorage_schemas.trace_context import TraceContext, parse

CONTEXT = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "01")


@dataclass
class Kept:
    """An export that keeps the spans."""

    spans: list[FinishedSpan] = field(default_factory=list)

    def is_sampled(self, trace_id: str) -> bool:  # noqa: ARG002 - it records everything
        return True

    def is_wanted(self, context: TraceContext) -> bool:
        return context.is_sampled

    def submit(self, count: int, spans: Callable[[], Iterable[FinishedSpan]]) -> None:  # noqa: ARG002 - no limit
        self.spans += spans()

    def stop(self, seconds: float) -> None: ...


@pytest.fixture
def kept() -> Iterator[Kept]:
    found = Kept()
    use_export(found)
    yield found
    use_export(None)


@asynccontextmanager
async def sender(folder: Path, url: str) -> AsyncIterator[Sender]:
    (folder / "ops").write_text(SECRET)
    spec = WebhookSpec.model_validate({"url": url, "secretFile": "ops", "allowPrivate": True})
    made = Sender(spec, str(folder), WallClock())
    try:
        yield made
    finally:
        await made.close()


async def test_an_attempt_is_a_span_that_the_receiver_continues(tmp_path: Path, kept: Kept) -> None:
    event = replace(EVENT, traceparent=str(CONTEXT))
    async with receiving() as receiver, sender(tmp_path, receiver.url) as made:
        assert (await made.send(event)).delivered
        (span,) = kept.spans
        assert (span.service, span.name, span.parent, span.kind, span.error) == (
            "webhooks",
            "deliver bindings",
            CONTEXT,
            "client",
            "",
        )
        assert parse(receiver.taken[0].headers["traceparent"]) == span.context
        assert (span.context.trace_id, span.context.span_id != CONTEXT.span_id) == (CONTEXT.trace_id, True)
        assert (await made.send(event)).delivered
        assert kept.spans[1].context != span.context, "another attempt is another span"


async def test_a_failed_attempt_has_its_reason(tmp_path: Path, kept: Kept) -> None:
    async with sender(tmp_path, "http://127.0.0.1:9/hook") as made:
        outcome = await made.send(replace(EVENT, traceparent=str(CONTEXT)))
    assert kept.spans[0].error == outcome.message != ""


async def test_without_a_context_or_a_sample_nothing_is_exported(tmp_path: Path, kept: Kept) -> None:
    unsampled = replace(EVENT, traceparent=str(CONTEXT._replace(flags="00")))
    async with receiving() as receiver, sender(tmp_path, receiver.url) as made:
        await made.send(EVENT)
        await made.send(unsampled)
        assert "traceparent" not in receiver.taken[0].headers
        assert receiver.taken[1].headers["traceparent"].endswith("-00")
    assert kept.spans == []
