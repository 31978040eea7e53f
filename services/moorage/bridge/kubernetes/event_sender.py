"""Sends events to a cluster: what a bridge has done with its pods, and why they wait."""

from __future__ import annotations

from typing import Any, Final

import structlog

from moorage.bridge.act_queue import ActQueue
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.kube.errors import CONFLICT, ApiError

_log = structlog.get_logger(__name__)

_WORKERS: Final = 2
_SERVERS_FAULT: Final = 500


class EventSender:
    """Sends each event once. One that is refused is given up.

    Args:
        client: of the cluster, with limits of its own, so that events do not hold up what they tell of.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._events: dict[str, dict[str, Any]] = {}
        self._queue = ActQueue("events", self._send, workers=_WORKERS)

    def tell(self, event: dict[str, Any]) -> None:
        """Send an event as soon as possible."""
        name = f"{event['metadata']['namespace']}/{event['metadata']['name']}"
        self._events[name] = event
        self._queue.add(name)

    async def run(self) -> None:
        """Send until cancelled."""
        await self._queue.run()

    async def _send(self, name: str) -> None:
        event = self._events.get(name)
        if event is None:
            return
        path = f"/api/v1/namespaces/{event['metadata']['namespace']}/events"
        try:
            await self._client.request("POST", path, body=event)
        except ApiError as error:
            if error.status >= _SERVERS_FAULT:  # it may succeed later
                raise
            if error.status != CONFLICT:
                _log.warning("bridge.event_refused", name=name, error=str(error))
        self._events.pop(name, None)
