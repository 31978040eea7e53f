"""The publisher of reports."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from faststream._internal.endpoint.call_wrapper import HandlerCallWrapper
from faststream._internal.utils.functions import to_async
from faststream.kafka.publisher import DefaultPublisher

from moorage_schemas.condition import ConditionReported
from moorage_schemas.envelope import Meta, event_id, to_headers
from moorage_schemas.report_rules import check_source
from moorage_schemas.signing import SignedReport
from moorage_schemas.times import format_time
from moorage_sdk.errors import InvalidValueError, SdkError
from moorage_sdk.signing import ReportSigner


def meta_of(event: ConditionReported, source: str) -> Meta:
    """Return the attributes of a report. Its id follows from them, so a report that is sent twice counts once."""
    workload = str(event.workload or "")
    identity = event_id(source, event.target, workload, event.type, format_time(event.observed_time))
    return Meta(identity, source, event.event_type, event.observed_time, event.target.key)


class ReportPublisher:
    """Writes reports with their key, their CloudEvents attributes and, if there is a key, their signature.

    It decorates a handler that returns a report, several, or None:

        @topics.subscriber(BINDINGS)
        @topics.reports("deployer/mine")
        async def on_binding(bound: WorkloadBound | None) -> ConditionReported | None: ...

    Args:
        publisher: FastStream's publisher of the topic.
        source: the source of the reports.
        signer: signs them. None does not.

    Raises:
        InvalidValueError: the source is no name of a source.
    """

    def __init__(self, publisher: DefaultPublisher, source: str, signer: ReportSigner | None = None) -> None:
        if problem := check_source(source):
            raise InvalidValueError("source", source, problem)
        self.source = source
        self._publisher = publisher
        self._signer = signer

    async def publish(self, event: ConditionReported, meta: Meta | None = None) -> str:
        """Write a report. It is durable when this returns. Returns its id.

        Args:
            event: the report.
            meta: its attributes. They follow from the report if None.
        """
        meta = meta or meta_of(event, self.source)
        key, value, headers = self._record(event, meta)
        await self._publisher.publish(value, key=key, headers=headers)
        return meta.id

    def __call__(self, handler: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        """Decorate a handler, so that the reports that it returns are written before its record is acknowledged.

        Raises:
            SdkError: the handler has its subscriber already, which would not notice the reports.
        """
        if isinstance(handler, HandlerCallWrapper):
            raise SdkError("reports: above the subscriber: expected below it, next to the handler")
        called = to_async(handler)

        @functools.wraps(handler)
        async def answering(*given: Any, **named: Any) -> Any:
            found = await called(*given, **named)
            for one in found if isinstance(found, list | tuple) else (found,):
                if isinstance(one, ConditionReported):
                    await self.publish(one)
            return found

        return answering

    def _record(self, event: ConditionReported, meta: Meta) -> tuple[bytes, bytes, dict[str, str]]:
        key, value = event.target.key, event.model_dump_json().encode()
        headers = to_headers(meta)
        if self._signer is not None:
            headers.append(self._signer.header(SignedReport(key, meta.id, meta.source, meta.type, value)))
        return key.encode(), value, {name: text.decode() for name, text in headers}
