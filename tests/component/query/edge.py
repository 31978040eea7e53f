"""A query worker on tables that follow topics in memory, and a gateway in front of it."""

from __future__ import annotations

import asyncio
import json

import httpx
from tests.component.gateway.double import Fixture
from tests.component.query.following import Following

from moorage.apiserver.http.intake.explain import Explanations
from moorage.insight.explain.question import Question
from moorage.insight.query.http import Endpoint
from moorage.insight.query.worker import Answer, QueryWorker
from moorage.runtime.process.health import health_app
from moorage.runtime.settings.process_settings import Settings

ADDRESS = "http://127.0.0.1:8082"


class FollowingWorker(QueryWorker):
    """A query worker whose tables follow topics in memory."""

    def __init__(self, following: Following) -> None:
        super().__init__(following.settings)
        self.following = following
        self.obstacle: Exception | None = None
        self.asking = 0
        self.full = asyncio.Event()
        """Set when the maximum number of requests is being answered."""

        self.go = asyncio.Event()
        """Answers wait while this is not set."""

        self.go.set()

    async def _explain(self, asked: Question) -> Answer:
        if self.obstacle is not None:
            raise self.obstacle
        self.asking += 1
        if self._slots.locked():
            self.full.set()
        await self.go.wait()
        self.asking -= 1
        return Answer(json.loads(await self.following.explained(asked)), {"taints": (1, 2, 3)})


class Edge:
    """Query worker and gateway, and a client of each.

    Args:
        following: the tables.
        settings: the settings of the query worker's server.
    """

    def __init__(self, following: Following, settings: Settings | None = None) -> None:
        self.worker = FollowingWorker(following)
        self.endpoint = Endpoint(settings or Settings())
        self.endpoint._worker = self.worker
        self.served = served = httpx.ASGITransport(app=health_app(list, self.endpoint.routes))
        self.http = httpx.AsyncClient(transport=served, base_url=ADDRESS)
        self.gateway = Fixture(explanations=Explanations(ADDRESS, served))

    async def get(self, **given: str) -> httpx.Response:
        """Send a request to the query worker."""
        return await self.http.get("/v1/explain", params=given)
