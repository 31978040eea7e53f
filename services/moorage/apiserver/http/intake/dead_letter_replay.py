"""`deadletters/replay`: sends the report in a dead letter again.

Only reports are sent again. They come from outside and are not repeated. What only services write is read again by
themselves, and an event that a webhook has not taken is sent again by that webhook (`moorage webhooks replay`).

The report keeps its id, its source and its time, so that a report that has counted meanwhile does not count twice. A
header names the letter. It is checked as a report that arrives now: by its size and time, and whether its target is
declared.

A replay does not vouch for the report. While there are ProbeGrants, the record itself has to show its writer, by its
seal or its signature. The writer is judged as of the time at which the report was refused, by the present grants. So a
report that its sender was not allowed to make is refused however often it is sent again. The user who sends it again
needs a grant only if the first sender might report anything (decision 0059).
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from starlette.requests import Request

from moorage.apiserver.authorization.report_guard import ReportGuard
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.filters.access import user_of
from moorage.apiserver.http.intake.reports import Intake, refused, wait_of
from moorage.apiserver.http.messages import bodies
from moorage.apiserver.http.messages.options import write_options
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs.writing import caller
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import bad_request
from moorage.apiserver.storage.durable_log import Write
from moorage.apiserver.storage.topic_pages import RecordName
from moorage.apiserver.writing.configuration import Limits
from moorage.decide.conditions.reports import CLOCKS_DIFFER, unknown_target
from moorage.decide.kubernetes.field_errors import FieldError, invalid
from moorage.runtime.service import Input, Malformed
from moorage.runtime.wire.codec import LightRecord, decode
from moorage_schemas.condition import ConditionReported
from moorage_schemas.dead_letter import REPLAY_HEADER, DeadLettered, RefusalReason
from moorage_schemas.report_rules import Refusal, check_time, check_workload
from moorage_schemas.times import format_time, parse_time
from moorage_schemas.topics import CONDITION_REPORTS

_LONGEST_HEADER: Final = 1024
_MOST_HEADERS: Final = 64
_OWN_HEADERS: Final = ("ce_", "content-type", "traceparent")

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReplayedReport:
    """The outcome of a letter that was sent again."""

    outcome: Document
    warnings: list[str]


class DeadLetterReplay:
    """Sends letters again."""

    def __init__(self, backend: Backend, intake: Intake, guard: ReportGuard, limits: Callable[[], Limits]) -> None:
        self._backend = backend
        self._intake = intake
        self._guard = guard
        self._limits = limits

    async def send(
        self, request: Request, path: ResourcePath, name: RecordName, letter: DeadLettered
    ) -> ReplayedReport:
        """Send a letter again.

        Raises:
            StatusError: 400 if the request is wrong; 422 if the letter cannot be sent again; 403, 404 or 413 if the
                report is refused again; 503 if nothing can be written now.
        """
        options, wait = write_options(request.query_params, "CreateOptions"), wait_of(request)
        await _check_body(request, path)
        _check_letter(path, letter)
        record, report = _read(letter, self._limits().max_bytes)
        write = self._checked(request, record, report, name, letter.refused_time)
        if not options.dry_run:
            await self._backend.writer.note(path.object_id, "", "create/replay", caller(request))
        outcome = await self._intake.send_again(write, wait, dry_run=options.dry_run)
        return ReplayedReport(
            {**outcome, "id": write.meta.id, "topic": CONDITION_REPORTS.short}, self._warnings(report)
        )

    def _warnings(self, report: ConditionReported) -> list[str]:
        """Return warnings that a report may be about an earlier target of its name."""
        target = report.target
        declared = self._backend.store.get(ObjectId(target.kind.value, "", target.name, target.cluster))
        created = declared.document["metadata"].get("creationTimestamp") if declared is not None else None
        if created is None or report.observed_time >= (began := parse_time(created)) - CLOCKS_DIFFER:
            return []
        observed = format_time(report.observed_time)
        return [f"the report was observed at {observed}, before {target.key} was declared at {format_time(began)}"]

    def _checked(
        self, request: Request, record: Input, report: ConditionReported, name: RecordName, at: datetime
    ) -> Write:
        """Return the report as it is written again, if it may count now."""
        limits, target = self._limits(), report.target
        if refusal := check_time(report, self._backend.clock.now(), limits.clock_skew) or check_workload(report):
            raise refused(refusal)
        declared = self._backend.store.get(ObjectId(target.kind.value, "", target.name, target.cluster))
        if declared is None:
            raise refused(unknown_target(report))
        metadata = declared.document["metadata"]
        sealed = self._guard.check_again(
            record, report, metadata.get("labels") or {}, user_of(request), at=at, skew=limits.clock_skew
        )
        if isinstance(sealed, Refusal):
            raise refused(sealed)
        write = Write(CONDITION_REPORTS, target.key, target.key, report, record.meta)
        proofs = (*self._guard.sealed(write, sealed).items(), (REPLAY_HEADER, str(name).encode()))
        return Write(CONDITION_REPORTS, target.key, target.key, report, record.meta._replace(proofs=proofs))


async def _check_body(request: Request, path: ResourcePath) -> None:
    """Check that the body, if there is one, is an object that names nothing else than the path does."""
    body = await bodies.read_body(request)
    if not body:
        return
    document = bodies.parse_json(body)
    if not isinstance(document, dict):
        raise bad_request("the body must be an object, or empty")
    said = document.get("apiVersion", path.kind.api_version), document.get("kind", path.kind.kind)
    if said != (path.kind.api_version, path.kind.kind):
        raise bad_request(f"the path is of {path.kind.api_version}, Kind={path.kind.kind}, and the object of another")
    metadata = document.get("metadata") or {}
    if not isinstance(metadata, dict) or metadata.get("name", path.name) not in {"", path.name}:
        raise bad_request("the name of the object does not match the name in the URL")


def _check_letter(path: ResourcePath, letter: DeadLettered) -> None:
    """Check that a letter is one that can be sent again. Raises StatusError: 422 if it is not."""
    if found := next(_obstacles(letter), None):
        raise api_errors.invalid(path.kind.group, path.kind.kind, path.name, [found])


def _obstacles(letter: DeadLettered) -> Iterator[FieldError]:
    if letter.reason is RefusalReason.UNDELIVERED:
        since = format_time(letter.refused_time)
        rule = f"is sent again by its webhook: moorage webhooks replay {letter.value} --since {since}"
        yield invalid("status.reason", letter.reason.value, rule)
    if letter.topic != CONDITION_REPORTS.short:
        rule = f"must be {CONDITION_REPORTS.short}: other topics are written by services alone"
        yield invalid("status.topic", letter.topic, rule)
    if letter.truncated:
        rule = f"must be false: only a part of its {letter.original_size} bytes is kept"
        yield invalid("status.truncated", True, rule)  # noqa: FBT003 - the value of the field
    if len(letter.headers) >= _MOST_HEADERS:
        yield invalid("status.headers", len(letter.headers), f"must be fewer than {_MOST_HEADERS}: others are not kept")
    for name, value in letter.headers.items():
        if name.startswith(_OWN_HEADERS) and len(value) >= _LONGEST_HEADER:
            rule = f"must have fewer than {_LONGEST_HEADER} characters: only a part of it is kept"
            yield invalid(f"status.headers.{name}", api_errors.shorten(value), rule)


def _read(letter: DeadLettered, most: int) -> tuple[Input, ConditionReported]:
    """Read the report in a letter as condition-ingest does."""
    value = base64.b64decode(letter.original) if letter.original_encoding == "base64" else letter.original.encode()
    record = LightRecord(
        topic=letter.topic,
        partition=letter.partition,
        offset=letter.offset,
        timestamp=int(letter.refused_time.timestamp() * 1000),
        key=letter.key.encode(),
        value=value if letter.original_size else None,
        headers=tuple((name, text.encode()) for name, text in letter.headers.items()),
    )
    found = decode(CONDITION_REPORTS, record, third_party=True, max_bytes=most)
    if isinstance(found, Malformed):
        reason = RefusalReason(found.reason)
        raise refused(Refusal(reason, field=found.field, value=found.value, rule=found.rule))
    if not isinstance(found.event, ConditionReported):
        rule = "must be a report; a tombstone cannot withdraw a report"
        raise refused(Refusal(RefusalReason.INVALID_EVENT, field="value", value="", rule=rule))
    return found, found.event
