"""Sends events to a cluster: what a bridge has done with its objects, and why they wait.

As Kubernetes' own recorder of events does it, the same event is counted, and what is told too often of one object is
left out. So a flood of changes does not become a flood of events.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import structlog

from moorage.bridge.act_queue import ActQueue
from moorage.bridge.kube.client import MERGE_PATCH, KubeClient
from moorage.bridge.kube.errors import CONFLICT, NOT_FOUND, ApiError
from moorage.bridge.metrics import EVENTS

_log = structlog.get_logger(__name__)

_WORKERS: Final = 2
_SERVERS_FAULT: Final = 500

_AT_ONCE: Final = 25
_AGAIN: Final = 300.0
"""So many events are told of one object at once, and one more each time so many seconds are over, as in Kubernetes."""

_REMEMBERED: Final = 4096
"""Of so many objects, and so many events, it is remembered what was told, as in Kubernetes."""

_WAITING: Final = 1000
"""So many events may wait. Those that come then are left out, as in Kubernetes."""

Value = TypeVar("Value")
JsonObject = dict[str, Any]


class _Recent(Generic[Value]):
    """Remembers the values of the keys that were used last."""

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
    """How many events may still be told of an object."""

    left: float
    at: float


@dataclass(slots=True)
class _Told:
    """An event that waits to be sent, and how often it has happened meanwhile."""

    event: JsonObject
    times: int = 1


class EventSender:
    """Sends events. One that is refused is given up.

    Args:
        client: of the cluster, with limits of its own, so that events do not hold up what they tell of.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._events: dict[str, _Told] = {}
        self._counts = _Recent[int]()
        """How often the events have happened that are in the cluster, by name."""

        self._allowances = _Recent[_Allowance]()
        """By what the event is about."""

        self._queue = ActQueue("events", self._send, workers=_WORKERS)

    def tell(self, event: JsonObject) -> None:
        """Send an event as soon as possible."""
        name = f"{event['metadata']['namespace']}/{event['metadata']['name']}"
        if (waiting := self._events.get(name)) is not None:
            waiting.event, waiting.times = event, waiting.times + 1
        elif len(self._events) >= _WAITING or not self._is_allowed(event):
            EVENTS.labels("dropped").inc()
            return
        else:
            self._events[name] = _Told(event)
        self._queue.add(name)

    async def run(self) -> None:
        """Send until cancelled."""
        await self._queue.run()

    def _is_allowed(self, event: JsonObject) -> bool:
        """Whether one more event may be told of an object. It then counts."""
        about, now = event["involvedObject"], asyncio.get_running_loop().time()
        key = "/".join(str(about.get(part) or "") for part in ("kind", "namespace", "name", "uid"))
        known = self._allowances.get(key) or _Allowance(_AT_ONCE, now)
        left = min(_AT_ONCE, known.left + (now - known.at) / _AGAIN)
        self._allowances.put(key, _Allowance(max(left - 1, 0.0) if left >= 1 else left, now))
        return left >= 1

    async def _send(self, name: str) -> None:
        told = self._events.pop(name, None)
        if told is None:
            return
        try:
            outcome = await self._put(name, told)
        except ApiError as error:
            if error.status >= _SERVERS_FAULT:  # it may succeed later
                self._put_back(name, told)
                raise
            _log.warning("bridge.event_refused", name=name, error=str(error))
            outcome = "refused"
        except OSError:
            self._put_back(name, told)
            raise
        EVENTS.labels(outcome).inc()

    def _put_back(self, name: str, told: _Told) -> None:
        """Let an event wait again, beside what was told of it meanwhile."""
        newer = self._events.get(name)
        if newer is None:
            self._events[name] = told
        else:
            newer.times += told.times

    async def _put(self, name: str, told: _Told) -> str:
        """Create an event, or count it if it is there. Return what was done."""
        event = told.event
        path = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        count = self._counts.get(name)
        if count is None:
            try:
                await self._client.request("POST", path, body={**event, "count": told.times})
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
            else:
                self._counts.put(name, told.times)
                return "created"
        # How often it happened before this process has begun, the answer says.
        counted = {"count": count + told.times} if count is not None else {}
        body = {"lastTimestamp": event["lastTimestamp"], **counted}
        try:
            found = await self._client.request(
                "PATCH", f"{path}/{event['metadata']['name']}", body=body, content_type=MERGE_PATCH
            )
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            self._counts.drop(name)  # events expire
            await self._client.request("POST", path, body={**event, "count": told.times})
            self._counts.put(name, told.times)
            return "created"
        self._counts.put(name, int(found.get("count") or 0) + (told.times if count is None else 0))
        return "repeated"
