"""A console in front of a fleet that the services have decided on, with a query worker that simulates on a copy."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
from tests.component.simulation.copying import copy_of
from tests.console.world import ConsoleWorld
from tests.support.worlds.nodes import NodeWorld
from tests.support.worlds.world import TEMPLATE, lifted

from moorage.apiserver.http.intake.explain import Explanations
from moorage.insight.diff.question import SimulationError, of_copy, parse
from moorage.runtime.process.logs import silenced
from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS

NODES = ("n1", "n2", "n3")


class SimulatedWorld(ConsoleWorld):
    """A console with three nodes, on which pods of a Deployment run, and what answers its simulations."""

    def __init__(self, *, settings: Settings | None = None, replicas: int = 2) -> None:
        self.asked: list[Any] = []
        self._decides = lifted(partitions=3)
        self._fleet = NodeWorld(*NODES, settings=self._decides)
        self._fleet.declare("Deployment", "web", {"replicas": replicas, "template": TEMPLATE})
        for name in NODES:
            self._fleet.report(name, status="True")
        self._fleet.run()
        query = Explanations("http://query", httpx.MockTransport(self._answered))
        super().__init__(settings=settings, explanations=query)
        records = [record for topic in TOPICS for record in self._fleet.flow.records(topic)]
        for record in sorted(records, key=lambda one: one.seq):
            found = record.decode()
            if isinstance(found, Input):
                self.log.fold([found])

    async def _answered(self, request: httpx.Request) -> httpx.Response:
        document = json.loads(request.content)
        self.asked.append(document)
        snapshot = copy_of(self._fleet.flow)
        try:
            # The copy's gateway has an event loop of its own.
            with silenced():  # as in the query worker
                told = await asyncio.to_thread(of_copy, snapshot, self._decides, parse(document))
        except SimulationError as error:
            return httpx.Response(422, json={"kind": "Status", "code": 422, "message": str(error)})
        return httpx.Response(200, json={**told, "settings": {}})
