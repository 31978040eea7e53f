"""`POST /v1/conditions`: reports of probes as CloudEvents over HTTP: binary, structured or a batch.

Errors in a report are returned at once. Reports that are written to Kafka directly are checked by condition-ingest
with the same rules. The answer 202 is sent when the report is durable in the topic. Its outcome is `Accepted`, for
condition-ingest has yet to decide whether it counts.

A report that cannot count by what this gateway shows is not written. Its outcome is `Ignored`, with the reason. This is
never wrong, for the time of the last report only increases. But a gateway may lack records: it may have read
less, not each heartbeat is recorded, and only the leading gateway has the conditions of workloads.

With `waitSeconds` the answer is sent when the report is decided on, or after that time. The outcome is `Counted`,
`Unchanged` if the report repeats what is known, `Ignored`, or `Refused`; and still `Accepted` when it is not known.

ProbeGrants determine the permitted reports of a user, and their number (docs/authentication.md, "Probes"). Each written
report has the gateway's seal, because condition-ingest cannot identify its sender.

A report may be about a workload on a target (`data.workload`). Whether the workload is bound there is not checked,
because a deployer may be ahead of what the gateway has read. The gateway reports nothing on its own and does not change
a report's source. The source of a person's report begins with `cli/`, which shows that no heartbeats follow.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import orjson
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.authorization.report_guard import ReportGuard
from moorage.apiserver.http import paths
from moorage.apiserver.http.filters.access import user_of
from moorage.apiserver.http.messages import bodies
from moorage.apiserver.http.messages.negotiation import JSON, body_media
from moorage.apiserver.http.paths import cluster_of
from moorage.apiserver.kinds.status.clusters import local_key
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import Cause, StatusError, bad_request, field_errors, unavailable
from moorage.apiserver.storage.cluster_store import ClusterStore
from moorage.apiserver.storage.durable_log import Decided, Log, RefusedLater, ReportCounted, ReportOutcomes, Write
from moorage.apiserver.storage.store import FleetObjects, Store
from moorage.apiserver.writing.configuration import Limits
from moorage.decide.conditions.grants import ReportClaim
from moorage.decide.conditions.report_limits import Excess
from moorage.decide.conditions.reports import KeptCondition, check_order, source_of, unknown_target, words_of
from moorage.decide.disruption.object_names import about_target
from moorage.decide.kubernetes.attributes import User
from moorage.runtime.process.clock import Clock
from moorage_schemas.condition import ConditionChanged, ConditionReported
from moorage_schemas.dead_letter import RefusalReason
from moorage_schemas.envelope import STRUCTURED, EnvelopeError, Meta, parse_structured
from moorage_schemas.keys import workload_condition_key
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.report_rules import Refusal, check_size, check_time, check_workload
from moorage_schemas.topics import CONDITION_REPORTS

BATCH = "application/cloudevents-batch+json"
BATCH_MOST = 1000
"""The maximum number of events in a batch."""

LONGEST_WAIT = 30.0
"""The longest time in seconds for which a caller may wait for an outcome."""

_SHOWN_WITHIN = 2.0  # seconds in which a gateway shows what was decided, if it is not far behind
_IGNORED_LATER = "older than a later report of the condition, of which the time alone is not recorded"
_BINARY = "ce-"
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_CODES = {
    RefusalReason.UNKNOWN_TARGET: 404,
    RefusalReason.TOO_LARGE: 413,
    RefusalReason.FORBIDDEN: 403,
    RefusalReason.TOO_MANY_REQUESTS: 429,
}


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome of one report."""

    name: str
    why: str = ""
    error: StatusError | None = None

    def shown(self) -> dict[str, Any]:
        """Return the outcome as a caller gets it."""
        found: dict[str, Any] = {"outcome": self.name}
        if self.why:
            found["message"] = self.why
        if self.error is not None:
            found["status"] = self.error.document()
        return found


_ACCEPTED = _Outcome("Accepted")


@dataclass(frozen=True, slots=True)
class _Sender:
    """The sender of reports, and the cluster to whose API it sends them. Empty for that of the home fleet."""

    user: User
    cluster: str


class Intake:
    """Accepts reports. Without `outcomes`, callers cannot wait for what becomes of reports."""

    def __init__(
        self,
        store: Store,
        log: Log,
        clock: Clock,
        limits: Callable[[], Limits],
        *,
        guard: ReportGuard,
        outcomes: ReportOutcomes | None = None,
    ) -> None:
        self._store = store
        self._log = log
        self._clock = clock
        self._limits = limits
        self._guard = guard
        self._outcomes = outcomes

    async def handle(self, request: Request) -> Response:
        """Answer 202 if every report was accepted, 207 if some were, otherwise the error of the first refused one.

        A single report that is ignored, or whose outcome is known, is answered with 200.

        Raises:
            StatusError: the request as a whole is invalid, its single event is refused, or nothing can be written
                now.
        """
        paths.check_method(request, "POST")
        media = body_media(request, (JSON, STRUCTURED, BATCH))
        wait = wait_of(request)
        if not self._store.ready:
            raise unavailable("the gateway is not ready: it is still reading its tables")
        body = await bodies.read_body(request)
        sender = _Sender(user_of(request), cluster_of(request))
        if media == BATCH:
            return await self._batch(bodies.parse_json(body), request.headers, sender, wait)
        write = (
            self._structured(bodies.parse_json(body), sender)
            if media == STRUCTURED
            else self._binary(body, request.headers, sender)
        )
        (outcome,) = await self._written([_traced(write, request.headers)], wait)
        if outcome.error is not None:
            raise outcome.error
        code = 202 if outcome is _ACCEPTED else 200
        return _answer(code, {"id": write.meta.id, **outcome.shown()})

    async def _batch(self, documents: Any, headers: Headers, sender: _Sender, wait: float) -> Response:
        if not isinstance(documents, list):
            raise bad_request("the body of a batch must be a JSON array of CloudEvents")
        if len(documents) > BATCH_MOST:
            raise StatusError(413, f"the batch has {len(documents)} events: it must have at most {BATCH_MOST}")
        checked: list[Write | _Outcome] = []
        for document in documents:
            try:
                checked.append(_traced(self._structured(document, sender), headers))
            except StatusError as error:
                checked.append(_Outcome("Refused", error=error))
        written = iter(await self._written([one for one in checked if isinstance(one, Write)], wait))
        outcomes = [one if isinstance(one, _Outcome) else next(written) for one in checked]
        items: list[dict[str, Any]] = []
        for index, (document, outcome) in enumerate(zip(documents, outcomes, strict=True)):
            identity = document.get("id", "") if isinstance(document, dict) else ""
            item = {"index": index, "id": identity if isinstance(identity, str) else ""}
            items.append({**item, **outcome.shown()})
        refused = [outcome.error.code for outcome in outcomes if outcome.error is not None]
        ignored = sum(1 for outcome in outcomes if outcome.name == "Ignored")
        code = 202 if not refused else 207 if len(refused) < len(outcomes) else refused[0]
        answer = {
            "kind": "ReportOutcomeList",
            "apiVersion": "moorage.io/v1alpha1",
            "accepted": len(outcomes) - len(refused) - ignored,
            "ignored": ignored,
            "refused": len(refused),
            "items": items,
        }
        again = max((outcome.error.retry_after for outcome in outcomes if outcome.error is not None), default=0)
        return _answer(code, answer, {"retry-after": str(again)} if again else {})

    async def _written(self, writes: Sequence[Write], wait: float) -> list[_Outcome]:
        """Write the reports that may count, and return what became of each."""
        outcomes = [self._ignored(write, self._known(write)) or _ACCEPTED for write in writes]
        places = [place for place, outcome in enumerate(outcomes) if outcome is _ACCEPTED]
        kept = [writes[place] for place in places]
        if not kept:
            return outcomes
        if not wait or self._outcomes is None:
            await self._log.report(kept)
            return outcomes
        async with self._outcomes.follow(kept) as following:
            offsets = await self._log.report(kept)
            if following is not None:
                for place, decided in zip(places, await following.decided(offsets, wait), strict=True):
                    outcomes[place] = await self._decided(writes[place], decided)
        return outcomes

    async def _decided(self, write: Write, decided: Decided | None) -> _Outcome:
        """Return the outcome of a report that was written."""
        if decided is None:
            return _ACCEPTED
        if isinstance(decided, ReportCounted):
            return _Outcome("Counted")
        if isinstance(decided, RefusedLater):
            letter = decided.letter
            refusal = Refusal(letter.reason, field=letter.field, value=letter.value, rule=letter.rule)
            return _Outcome("Refused", error=refused(refusal))
        if decided.condition is not None:
            return self._unrecorded(write, KeptCondition.of(decided.condition))
        # The condition before may have been decided a moment ago, and not be shown here yet.
        outcome = self._unrecorded(write, self._known(write))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SHOWN_WITHIN):
                while outcome.why == _IGNORED_LATER:
                    await self._store.history.wait()
                    outcome = self._unrecorded(write, self._known(write))
        return outcome

    def _unrecorded(self, write: Write, known: KeptCondition | None) -> _Outcome:
        """Return the outcome of a report about which nothing was written."""
        if (stale := self._ignored(write, known)) is not None:
            return stale
        report, source = _said(write)
        if known is not None and (known.status, known.source, known.words) == (report.status, source, words_of(report)):
            return _Outcome("Unchanged", "it repeats what is known")
        # A report that counts and changes more than times is always recorded.
        return _Outcome("Ignored", _IGNORED_LATER)

    def _ignored(self, write: Write, known: KeptCondition | None) -> _Outcome | None:
        """Return why a report cannot count. None if it may, as far as this gateway has read."""
        report, source = _said(write)
        uid = known.target_uid if known is not None else ""
        wrong = check_order(report, report_id=write.meta.id, source=source, target_uid=uid, known=known)
        return None if wrong is None else _Outcome("Ignored", wrong.why)

    def _known(self, write: Write) -> KeptCondition | None:
        """Return the condition that a report is about, of the present target. None if this gateway does not have it."""
        report, _ = _said(write)
        target = report.target
        found: Any = None
        fleet: FleetObjects = ClusterStore(self._store, target.cluster) if target.cluster else self._store
        if report.workload is not None:
            workload, place = (local_key(one.key, target.cluster) for one in (report.workload, target))
            key = workload_condition_key(workload, place, report.type)
            found = fleet.tables.workload_conditions.one(workload, key)
        elif (shown := fleet.get(ObjectId("Condition", "", about_target(target.key, report.type)))) is not None:
            found = ConditionChanged.model_validate(shown.document["status"], extra="ignore")
        declared = fleet.get(ObjectId(target.kind.value, "", target.name))
        if found is None or declared is None or declared.document["metadata"].get("uid") != found.target_uid:
            return None
        return KeptCondition.of(found)

    async def send_again(self, write: Write, wait: float, *, dry_run: bool) -> dict[str, Any]:
        """Write a report that was refused before and is checked now. Returns what became of it. `wait` is in seconds.

        Raises:
            StatusError: it is refused again, or nothing can be written now.
        """
        if dry_run:
            return (self._ignored(write, self._known(write)) or _ACCEPTED).shown()
        (outcome,) = await self._written([write], wait)
        if outcome.error is not None:
            raise outcome.error
        return outcome.shown()

    def _structured(self, document: Any, sender: _Sender) -> Write:
        try:
            meta, data = parse_structured(document)
        except EnvelopeError as error:
            raise _invalid_envelope(error) from None
        return self._checked(meta, data, len(orjson.dumps(data)), sender)

    def _binary(self, body: bytes, headers: Headers, sender: _Sender) -> Write:
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
        return self._checked(meta, bodies.parse_json(body), len(body), sender)

    def _checked(self, meta: Meta, data: Any, size: int, sender: _Sender) -> Write:
        if meta.type != CONDITION_REPORTS.event_type:
            raise _invalid_envelope(EnvelopeError("type", meta.type, f"must be {CONDITION_REPORTS.event_type}"))
        if refusal := check_size(size, self._limits().max_bytes):
            raise refused(refusal)
        try:
            report = ConditionReported.model_validate_json(orjson.dumps(data))
        except ValidationError as error:
            found = field_errors(error)
            causes = [Cause(item.kind.value, item.body, f"data.{item.path}" if item.path else "data") for item in found]
            shown = "; ".join(f"data.{item}" if item.path else f"data: {item.body}" for item in found)
            raise StatusError(422, f"the report is invalid: {shown}", reason="Invalid", causes=causes) from None
        report = _within(report, sender.cluster)
        if refusal := check_time(report, self._clock.now(), self._limits().clock_skew) or check_workload(report):
            raise refused(refusal)
        target = report.target
        declared = self._store.get(ObjectId(target.kind.value, "", target.name, target.cluster))
        if declared is None:
            raise refused(unknown_target(report))
        labels, workload = declared.document["metadata"].get("labels") or {}, report.workload
        claim = ReportClaim(
            source_of(report, meta.source), target, labels, report.type, workload.key if workload is not None else ""
        )
        sealed = self._guard.check(claim, sender.user, size)
        if isinstance(sealed, Refusal):
            raise refused(sealed)
        write = Write(CONDITION_REPORTS, target.key, target.key, report, meta)
        return replace(write, meta=meta._replace(proofs=tuple(self._guard.sealed(write, sealed).items())))


def wait_of(request: Request) -> float:
    """Return for how many seconds the caller waits for the outcome. 0 if it does not."""
    text = request.query_params.get("waitSeconds", "")
    if not text:
        return 0.0
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= LONGEST_WAIT:
        raise bad_request(f"waitSeconds: invalid value {text!r}: must be a number of seconds, at most {LONGEST_WAIT:g}")
    return seconds


def _said(write: Write) -> tuple[ConditionReported, str]:
    """Return a report, and its source as condition-ingest takes it."""
    if not isinstance(write.event, ConditionReported):
        raise TypeError("only reports are written here")
    return write.event, source_of(write.event, write.meta.source)


def _within(report: ConditionReported, cluster: str) -> ConditionReported:
    """Return a report that was sent to the API of a cluster, where references need not name it."""
    if not cluster:
        return report
    changes: dict[str, TargetRef | WorkloadRef] = {}
    for field, one in (("target", report.target), ("workload", report.workload)):
        if one is None:
            continue
        if one.cluster not in {"", cluster}:
            rule = f"must be {cluster}, to whose API the report was sent"
            cause = Cause("FieldValueInvalid", f"{one.cluster!r}: {rule}", f"data.{field}.cluster")
            why = f"the report is invalid: data.{field}.cluster: invalid value {one.cluster!r}: {rule}"
            raise StatusError(422, why, reason="Invalid", causes=[cause])
        changes[field] = one.model_copy(update={"cluster": cluster})
    return report.model_copy(update=changes)


def _traced(write: Write, headers: Mapping[str, str]) -> Write:
    trace = headers.get("traceparent", "")
    if write.meta.traceparent or not trace:
        return write
    return replace(write, meta=write.meta._replace(traceparent=trace))


def refused(refusal: Refusal) -> StatusError:
    """Return the error of a report that is refused."""
    code = _CODES.get(refusal.reason, 422)
    cause = Cause("FieldValueInvalid", f"{refusal.value!r}: {refusal.rule}", refusal.field)
    # A client that comes a moment too early would have to come again, so the time is rounded up.
    wait = math.ceil(refusal.seconds) if isinstance(refusal, Excess) else 0
    return StatusError(code, refusal.message, reason=refusal.reason.value, causes=[cause], retry_after=wait)


def _invalid_envelope(error: EnvelopeError) -> StatusError:
    cause = Cause("FieldValueInvalid", f"{error.value!r}: {error.rule}", error.field)
    return StatusError(400, str(error), reason=RefusalReason.INVALID_ENVELOPE.value, causes=[cause])


def _answer(code: int, document: Mapping[str, Any], headers: Mapping[str, str] = _NO_HEADERS) -> Response:
    return Response(orjson.dumps(document), code, headers, media_type=JSON)
