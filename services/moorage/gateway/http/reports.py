"""`POST /v1/conditions`: reports of probes as CloudEvents over HTTP: binary, structured or a batch.

Errors in a report are returned at once. Reports that are written to Kafka directly are checked by condition-ingest
with the same rules. The answer 202 is sent when the report is durable in the topic.

A report may be about a workload on a target (`data.workload`). Whether the workload is bound there is not checked,
because a deployer may be ahead of what the gateway has read. The gateway reports nothing on its own and does not change
a report's source. The source of a person's report begins with `cli/`, which shows that no heartbeats follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import orjson
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from moorage.core.conditions.reports import Refusal, check_size, check_time, check_workload, unknown_target
from moorage.gateway.durable_log import Log, Write
from moorage.gateway.errors import Cause, StatusError, bad_request, field_errors, unavailable
from moorage.gateway.http import paths
from moorage.gateway.http.messages import bodies
from moorage.gateway.http.messages.negotiation import JSON, body_media
from moorage.gateway.store import Store
from moorage.kinds.status.records import ObjectId
from moorage.runtime.clock import Clock
from moorage_schemas.condition import ConditionReported
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import STRUCTURED, EnvelopeError, Meta, parse_structured
from moorage_schemas.topics import CONDITION_REPORTS

BATCH = "application/cloudevents-batch+json"
BATCH_MOST = 1000
"""The maximum number of events in a batch."""

_BINARY = "ce-"
_CODES = {RefusalReason.UNKNOWN_TARGET: 404, RefusalReason.TOO_LARGE: 413}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for a report."""

    clock_skew: timedelta = timedelta(seconds=30)
    max_bytes: int = 65_536


class Intake:
    """Accepts reports.

    Args:
        store: has the declared targets.
        log: writes the reports.
        clock: gives the present time. Reports must not be from the future.
        limits: returns the limits for a report.
    """

    def __init__(self, store: Store, log: Log, clock: Clock, limits: Callable[[], Limits]) -> None:
        self._store = store
        self._log = log
        self._clock = clock
        self._limits = limits

    async def handle(self, request: Request) -> Response:
        """Answer 202 if every report was accepted, 207 if some were, otherwise the error of the first refused one.

        Raises:
            StatusError: the request as a whole is invalid, its single event is refused, or nothing can be written
                now.
        """
        if request.method != "POST":
            raise paths.not_allowed()
        media = body_media(request, (JSON, STRUCTURED, BATCH))
        if not self._store.ready:
            raise unavailable("the gateway is not ready: it is still reading its tables")
        body = await bodies.read_body(request)
        if media == BATCH:
            return await self._batch(bodies.parse_json(body), request.headers)
        write = (
            self._structured(bodies.parse_json(body)) if media == STRUCTURED else self._binary(body, request.headers)
        )
        write = _traced(write, request.headers)
        await self._log.report([write])
        return _answer(202, {"id": write.meta.id, "outcome": "Accepted"})

    async def _batch(self, documents: Any, headers: Headers) -> Response:
        if not isinstance(documents, list):
            raise bad_request("the body of a batch must be a JSON array of CloudEvents")
        if len(documents) > BATCH_MOST:
            raise StatusError(413, f"the batch has {len(documents)} events: it must have at most {BATCH_MOST}")
        writes: list[Write] = []
        items: list[dict[str, Any]] = []
        for index, document in enumerate(documents):
            identity = document.get("id", "") if isinstance(document, dict) else ""
            item = {"index": index, "id": identity if isinstance(identity, str) else ""}
            try:
                writes.append(_traced(self._structured(document), headers))
                items.append({**item, "outcome": "Accepted"})
            except StatusError as error:
                items.append({**item, "outcome": "Refused", "status": error.document()})
        if writes:
            await self._log.report(writes)
        refused = [item["status"]["code"] for item in items if "status" in item]
        code = 202 if not refused else 207 if writes else refused[0]
        outcome = {
            "kind": "ReportOutcomeList",
            "apiVersion": "moorage.io/v1alpha1",
            "accepted": len(writes),
            "refused": len(refused),
            "items": items,
        }
        return _answer(code, outcome)

    def _structured(self, document: Any) -> Write:
        try:
            meta, data = parse_structured(document)
        except EnvelopeError as error:
            raise _invalid_envelope(error) from None
        return self._checked(meta, data, len(orjson.dumps(data)))

    def _binary(self, body: bytes, headers: Headers) -> Write:
        attributes = {
            name.removeprefix(_BINARY): unquote(value) for name, value in headers.items() if name.startswith(_BINARY)
        }
        if not attributes:
            raise bad_request(
                "the request is not a CloudEvent: it needs ce-* headers (binary mode), or the content type "
                f"{STRUCTURED} or {BATCH}"
            )
        try:
            meta, _ = parse_structured(attributes)
        except EnvelopeError as error:
            raise _invalid_envelope(error) from None
        return self._checked(meta, bodies.parse_json(body), len(body))

    def _checked(self, meta: Meta, data: Any, size: int) -> Write:
        if meta.type != CONDITION_REPORTS.event_type:
            raise _invalid_envelope(EnvelopeError("type", meta.type, f"must be {CONDITION_REPORTS.event_type}"))
        if refusal := check_size(size, self._limits().max_bytes):
            raise _refused(refusal)
        try:
            report = ConditionReported.model_validate_json(orjson.dumps(data))
        except ValidationError as error:
            found = field_errors(error)
            causes = [Cause(item.kind.value, item.body, f"data.{item.path}" if item.path else "data") for item in found]
            shown = "; ".join(f"data.{item}" if item.path else f"data: {item.body}" for item in found)
            raise StatusError(422, f"the report is invalid: {shown}", reason="Invalid", causes=causes) from None
        if refusal := check_time(report, self._clock.now(), self._limits().clock_skew) or check_workload(report):
            raise _refused(refusal)
        target = report.target
        if self._store.get(ObjectId(target.kind.value, "", target.name)) is None:
            raise _refused(unknown_target(report))
        return Write(CONDITION_REPORTS, target.key, target.key, report, meta)


def _traced(write: Write, headers: Mapping[str, str]) -> Write:
    trace = headers.get("traceparent", "")
    if write.meta.traceparent or not trace:
        return write
    return replace(write, meta=write.meta._replace(traceparent=trace))


def _refused(refusal: Refusal) -> StatusError:
    code = _CODES.get(refusal.reason, 422)
    cause = Cause("FieldValueInvalid", f"{refusal.value!r}: {refusal.rule}", refusal.field)
    return StatusError(code, refusal.message, reason=refusal.reason.value, causes=[cause])


def _invalid_envelope(error: EnvelopeError) -> StatusError:
    cause = Cause("FieldValueInvalid", f"{error.value!r}: {error.rule}", error.field)
    return StatusError(400, str(error), reason=RefusalReason.INVALID_ENVELOPE.value, causes=[cause])


def _answer(code: int, document: Mapping[str, Any]) -> Response:
    return Response(orjson.dumps(document), code, media_type=JSON)
