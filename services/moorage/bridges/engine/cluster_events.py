"""Events about objects of a cluster, as `kubectl describe` shows them: what a bridge has done, and why objects wait.

As Kubernetes' own recorder of events does it, the same event is counted, and what is sent too often about one object is
left out. So a flood of changes does not become a flood of events.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import structlog

from moorage.bridges.engine.acts import ActQueue, stored_time
from moorage.bridges.engine.metrics import EVENTS
from moorage.bridges.kube.api_error import CONFLICT, NAMESPACE_TERMINATING, NOT_FOUND, ApiError
from moorage.bridges.kube.client import MERGE_PATCH, JsonObject, KubeClient
from moorage_schemas.resources.names import DEFAULT_NAMESPACE

_log = structlog.get_logger(__name__)

_DEBUG, _WARNING = 10, 30
_SENT_AT_A_TIME: Final = 2
_SERVERS_FAULT: Final = 500

_AT_ONCE: Final = 25
_AGAIN: Final = 300.0
"""So many events of one object are sent at once, and one more each time so many seconds have passed. See client-go."""

_REMEMBERED: Final = 4096
"""The number of objects, and of events, that are remembered, as in Kubernetes."""

_WAITING: Final = 1000
"""So many events may wait. Those that come then are left out, as in Kubernetes."""

Value = TypeVar("Value")

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
CONTRADICTED: Final = "MoorageContradicted"
"""The reason of an event about what another controller reverts."""

_COMPONENT: Final = "moorage-bridge"
_LONGEST_NAME: Final = 253
_LONGEST_MESSAGE: Final = 1024
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]")


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Regarding:
        """Return what names an object."""
        metadata = found["metadata"]
        return cls(
            str(found.get("apiVersion") or ""),
            str(found["kind"]),
            str(metadata.get("namespace") or ""),
            str(metadata["name"]),
            str(metadata.get("uid") or ""),
        )

    @property
    def reference(self) -> JsonObject:
        """The object as an event names it."""
        found = {"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace}
        return {name: value for name, value in (found | {"name": self.name, "uid": self.uid}).items() if value}


def event(about: Regarding, kind: str, reason: str, message: str) -> JsonObject:
    """Return an event about an object as of now. The same event has the same name, so it is there once.

    Args:
        about: the object.
        kind: `NORMAL` or `WARNING`.
        reason: one word.
        message: one sentence. What is too long is cut off.
    """
    at = stored_time(datetime.now(UTC))
    suffix = "." + hashlib.blake2b(f"{about.uid}\0{reason}\0{message}".encode(), digest_size=8).hexdigest()
    # Names of some kinds, such as ClusterRole, have characters that those of events may not have.
    name = _NOT_IN_NAMES.sub("-", about.name.lower())[: _LONGEST_NAME - len(suffix)] + suffix
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about.namespace or DEFAULT_NAMESPACE},
        "involvedObject": about.reference,
        "type": kind,
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "reportingInstance": _COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def contradicted(about: Regarding, what: str) -> JsonObject:
    """Return the event that another controller reverts what a bridge writes to an object.

    Args:
        about: the object.
        what: is written and undone, such as `taints`.
    """
    message = f"Another controller reverts the {what} that Moorage writes. They are written again less and less often."
    return event(about, WARNING, CONTRADICTED, message)


class _Recent(Generic[Value]):
    """The values of the keys that were used last."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, Value] = OrderedDict()

    def get(self, key: str) -> Value | None:
        return self._values.get(key)

    def put(self, key: str, value: Value) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > _REMEMBERED:
            self._values.popitem(last=False)

    def drop(self, key: str) -> None:
        self._values.pop(key, None)


@dataclass(slots=True)
class _Allowance:
    """The number of events that may still be sent about an object."""

    left: float
    at: float


@dataclass(slots=True)
class _QueuedEvent:
    """An event that waits to be sent, and how often it has happened meanwhile."""

    event: JsonObject
    times: int = 1


class EventSender:
    """A sender of events. One that is refused is dropped.

    Args:
        client: of the cluster, with limits of its own, so that events do not delay the acts.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._events: dict[str, _QueuedEvent] = {}
        self._counts = _Recent[int]()
        """How often the events have happened that are in the cluster, by name."""

        self._allowances = _Recent[_Allowance]()
        """By what the event is about."""

        self._queue = ActQueue("events", lambda: _SENT_AT_A_TIME)

    def tell(self, event: JsonObject) -> None:
        """Send an event as soon as possible."""
        name = f"{event['metadata']['namespace']}/{event['metadata']['name']}"
        if (waiting := self._events.get(name)) is not None:
            waiting.event, waiting.times = event, waiting.times + 1
        elif len(self._events) >= _WAITING or not self._is_allowed(event):
            EVENTS.labels("dropped").inc()
            return
        else:
            self._events[name] = _QueuedEvent(event)
        self._queue.add(name)

    async def run(self) -> None:
        """Send until cancelled."""
        await self._queue.run(self._send)

    def _is_allowed(self, event: JsonObject) -> bool:
        """Return whether one more event may be sent about an object. It then counts."""
        about, now = event["involvedObject"], asyncio.get_running_loop().time()
        key = "/".join(str(about.get(part) or "") for part in ("kind", "namespace", "name", "uid"))
        known = self._allowances.get(key) or _Allowance(_AT_ONCE, now)
        left = min(_AT_ONCE, known.left + (now - known.at) / _AGAIN)
        self._allowances.put(key, _Allowance(max(left - 1, 0.0) if left >= 1 else left, now))
        return left >= 1

    async def _send(self, name: str) -> None:
        queued = self._events.pop(name, None)
        if queued is None:
            return
        try:
            outcome = await self._put(name, queued)
        except ApiError as error:
            if error.status >= _SERVERS_FAULT:  # it may succeed later
                self._put_back(name, queued)
                raise
            level = _DEBUG if NAMESPACE_TERMINATING in error.causes else _WARNING
            _log.log(level, "bridge.event_refused", name=name, error=str(error))
            outcome = "refused"
        except OSError:
            self._put_back(name, queued)
            raise
        EVENTS.labels(outcome).inc()

    def _put_back(self, name: str, queued: _QueuedEvent) -> None:
        """Let an event wait again, beside those that were sent meanwhile."""
        newer = self._events.get(name)
        if newer is None:
            self._events[name] = queued
        else:
            newer.times += queued.times

    async def _put(self, name: str, queued: _QueuedEvent) -> str:
        """Create an event, or count it if it is there. Return what was done."""
        event = queued.event
        path = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        count = self._counts.get(name)
        if count is None:
            try:
                await self._client.request("POST", path, body={**event, "count": queued.times})
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
            else:
                self._counts.put(name, queued.times)
                return "created"
        # The answer has the count from before this process has begun.
        counted = {"count": count + queued.times} if count is not None else {}
        body = {"lastTimestamp": event["lastTimestamp"], **counted}
        try:
            found = await self._client.request(
                "PATCH", f"{path}/{event['metadata']['name']}", body=body, content_type=MERGE_PATCH
            )
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            self._counts.drop(name)  # events expire
            await self._client.request("POST", path, body={**event, "count": queued.times})
            self._counts.put(name, queued.times)
            return "created"
        self._counts.put(name, int(found.get("count") or 0) + (queued.times if count is None else 0))
        return "repeated"
