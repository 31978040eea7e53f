"""`GET /v1/decisions`: bindings and evictions for deployers, as server-sent events.

A stream begins with `reset`, the present binding or eviction of each key, and `present`. Then each change follows. The
id of an event is the version of the object log, which is the same at every gateway. A client that comes back with
`Last-Event-ID` gets what has changed since, without a new beginning, if that is still known.

Before the present is sent, the object log is read to the end that it has now. So a deployer that has started something
and was restarted finds it here, at any gateway.

Those of a cluster are at `/clusters/NAME/v1/decisions`, with the names that everything has there.

Like a watch, a stream keeps only the number of the next change (`verbs/watch.py`). A client that reads so slowly that
it falls behind the history gets a new beginning.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import merge
from operator import attrgetter
from typing import Any, Final

import orjson
from aiokafka.errors import KafkaError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moorage.apiserver.http import paths
from moorage.apiserver.http.filters.limits import OpenWatches
from moorage.apiserver.http.paths import cluster_of
from moorage.apiserver.http.verbs.watch import chunks, fresh
from moorage.apiserver.machinery.api_errors import StatusError, bad_request, unavailable
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.storage.cluster_store import fleet_of
from moorage.apiserver.storage.history import ObjectChange, TooOldError
from moorage.apiserver.storage.store import FleetObjects, Store
from moorage_schemas.keys import binding_key, eviction_key
from moorage_schemas.refs import TargetRef, WorkloadRef
from moorage_schemas.resources.names import TRACE_ANNOTATION
from moorage_schemas.topics import BINDINGS, EVICTIONS

MEDIA: Final = "text/event-stream"
HEARTBEAT: Final = 15.0
"""Seconds without a change after which `present` is sent again, with the version that was reached."""

_KINDS: Final = {"Binding": BINDINGS.short, "Eviction": EVICTIONS.short}
_PARAMETERS: Final = frozenset({"target", "kind", "namespace"})
_GONE: Final = 410
_MOST_DIGITS: Final = 18
_CATCH_UP: Final = 10.0
"""Seconds for which a request waits until everything that is in the object log now is shown."""


@dataclass(frozen=True, slots=True)
class DecisionFilter:
    """The decisions that a client wants."""

    targets: tuple[str, ...] = ()
    """Patterns, such as `Node/n1` and `Cluster/*`. Empty means all targets."""

    kinds: frozenset[str] = frozenset()
    """The kinds of workloads. Empty means all."""

    namespace: str = ""
    """The namespace of the workloads. Empty means all."""

    @classmethod
    def of(cls, request: Request) -> DecisionFilter:
        """Read the filter of a request. Raises StatusError: 400 if a parameter is unknown or wrong."""
        query = request.query_params
        if unknown := sorted(set(query.keys()) - _PARAMETERS):
            raise bad_request(f"{unknown[0]}: unknown parameter: must be one of {', '.join(sorted(_PARAMETERS))}")
        targets = tuple(query.getlist("target"))
        for one in targets:
            if "/" not in one:
                raise bad_request(f"target: invalid value {one!r}: must be Kind/name, such as Node/n1 or Node/*")
        return cls(targets, frozenset(query.getlist("kind")), query.get("namespace", ""))

    def selects(self, decision: SentDecision) -> bool:
        """Return whether the client wants a decision."""
        workload = decision.workload
        if self.kinds and workload.kind not in self.kinds:
            return False
        if self.namespace and workload.namespace != self.namespace:
            return False
        return not self.targets or any(fnmatchcase(decision.target.key, one) for one in self.targets)


@dataclass(frozen=True, slots=True)
class SentDecision:
    """A binding or an eviction, as the record that it was made of."""

    topic: str
    workload: WorkloadRef
    target: TargetRef
    value: dict[str, Any]
    traceparent: str = ""
    """The trace context of a Requested eviction. Empty if it has none."""

    @classmethod
    def of(cls, kind: str, document: dict[str, Any]) -> SentDecision:
        """Return the decision that an object shows."""
        value = document["status"]
        workload = WorkloadRef.model_validate(value["workload"])
        trace = document["metadata"].get("annotations", {}).get(TRACE_ANNOTATION, "")
        return cls(_KINDS[kind], workload, TargetRef.model_validate(value["target"]), value, trace)

    def sent(self, *, is_there: bool = True) -> dict[str, Any]:
        """Return the data of its event. The value is None if it is no longer there."""
        data: dict[str, Any] = {"key": self.key, "value": self.value if is_there else None}
        if is_there and self.traceparent:
            data["traceparent"] = self.traceparent
        return data

    @property
    def key(self) -> str:
        """The key of its record."""
        if self.topic == BINDINGS.short:
            return binding_key(self.workload, self.target)
        return eviction_key(self.workload, self.target, int(self.value["generation"]))


class Decisions:
    """Serves the streams. `catch_up` returns when the object log was read to the end that it had at the call."""

    def __init__(
        self,
        store: Store,
        metrics: Metrics,
        watches: OpenWatches,
        catch_up: Callable[[], Awaitable[None]],
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._watches = watches
        self._catch_up = catch_up
        self._heartbeat = heartbeat

    async def handle(self, request: Request) -> Response:
        """Answer with a stream that does not end.

        Raises:
            StatusError: 400 if the request is wrong, 404 if no bridge mirrors anything of its cluster, 405 for other
                methods, 429 if its user has too many watches, 503 if nothing can be shown yet, 504 if this gateway has
                not reached the version of `Last-Event-ID`.
        """
        paths.check_method(request, "GET")
        wanted = DecisionFilter.of(request)
        version = _version(request.headers.get("last-event-id", ""))
        fleet = fleet_of(self._store, cluster_of(request))
        self._watches.begin(request)
        number, reason = None, ""
        if version is not None:
            number, reason = await self._resume(fleet, version)
        if number is None:
            await self._reach_present()
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._stream(fleet, wanted, number, reason), media_type=MEDIA, headers=headers)

    async def _resume(self, fleet: FleetObjects, version: int) -> tuple[int | None, str]:
        """Return the number of the first change after a version, or None and the reason why it is unknown."""
        try:
            await fresh(fleet, version)
            return fleet.history.position(version), ""
        except TooOldError:
            return None, f"too old event id: {version} ({fleet.history.floor})"
        except StatusError as error:
            if error.code != _GONE:
                raise
            return None, error.message

    async def _reach_present(self) -> None:
        try:
            async with asyncio.timeout(_CATCH_UP):
                await self._catch_up()
        except (TimeoutError, KafkaError) as error:
            raise unavailable(f"the gateway cannot read to the present: {error or 'it takes too long'}") from None

    async def _stream(
        self, fleet: FleetObjects, wanted: DecisionFilter, number: int | None, reason: str
    ) -> AsyncIterator[bytes]:
        with self._metrics.watches.track_inprogress():
            while True:
                if number is None:
                    number, reached = fleet.history.count, fleet.version
                    for chunk in chunks(_beginning(fleet, wanted, reached, reason)):
                        yield chunk
                try:
                    changes = [fleet.history.since(number, kind) for kind in _KINDS]
                except TooOldError:
                    number, reason = None, "this client reads too slowly"
                    await self._reach_present()
                    continue
                number, reached = fleet.history.count, fleet.version
                is_empty = True
                for chunk in chunks(_changed(wanted, merge(*changes, key=attrgetter("number")))):
                    yield chunk
                    is_empty = False
                if not is_empty:
                    continue  # more changes may have come while these were being sent
                if fleet.history.closed:
                    return
                if not await self._more(fleet):
                    yield _event("present", {}, reached)

    async def _more(self, fleet: FleetObjects) -> bool:
        """Wait for a change. False if there was none for long."""
        waits = [asyncio.ensure_future(fleet.history.wait(kind)) for kind in _KINDS]
        try:
            done, _ = await asyncio.wait(waits, timeout=self._heartbeat, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return bool(done)


def _beginning(fleet: FleetObjects, wanted: DecisionFilter, version: int, reason: str) -> Iterator[bytes]:
    """Everything that there is."""
    yield _event("reset", {"reason": "Expired" if reason else "Begin", "message": reason}, None)
    for kind in _KINDS:
        for shown in fleet.all(kind):
            decision = SentDecision.of(kind, orjson.loads(shown.unversioned))
            if wanted.selects(decision):
                yield _event(decision.topic, decision.sent())
    yield _event("present", {}, version)


def _changed(wanted: DecisionFilter, changes: Iterable[ObjectChange]) -> Iterator[bytes]:
    """Yield the events of changes. The key decides whether an event is wanted, so that never changes."""
    for change in changes:
        decision = SentDecision.of(change.object_id.kind, change.last.document)
        if wanted.selects(decision):
            yield _event(decision.topic, decision.sent(is_there=change.after is not None), change.version)


def _event(name: str, data: dict[str, Any], version: int | None = -1) -> bytes:
    """Return one server-sent event. A version of None takes the id back that the client has, -1 gives no id."""
    line = b"" if version == -1 else b"id\n" if version is None else b"id: %d\n" % version
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), line, orjson.dumps(data))


def _version(text: str) -> int | None:
    """Return the version in `Last-Event-ID`. None if there is none. Raises StatusError: 400 if it is no version."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > _MOST_DIGITS:
        raise bad_request(f"Last-Event-ID: invalid value {text!r}: must be the id of an event of this stream")
    return int(text)
