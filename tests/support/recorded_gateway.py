"""A gateway that streams a recorded history of decisions, and misbehaves as networks and gateways do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
from collections.abc import AsyncIterator, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.support.worlds.flow import Record

from moorage_schemas.condition import HEALTHY


class RecordedGateway:
    """Serves `GET /v1/decisions` and `POST /v1/conditions`.

    Streams break off, begin anew, repeat events that were there before, and begin in any order. Reports are answered
    with 503 now and then.

    Args:
        records: the history. The version of a record is its place in it, from 1.
        rng: decides what goes wrong.
    """

    def __init__(self, records: Sequence[Record], rng: random.Random) -> None:
        self.written = 0
        """How many of the records there are by now."""

        self.healthy: list[str] = []
        """The keys of the bindings about which `Healthy` was reported, in order."""

        self.streams = 0
        self.address = ""
        self._records = records
        self._rng = rng
        self._more = asyncio.Event()

    def write(self, end: int) -> None:
        """Let more records be there."""
        self.written = end
        self._more.set()
        self._more = asyncio.Event()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve on a free port within the context."""
        routes = [
            Route("/v1/decisions", self._decisions),
            Route("/v1/conditions", self._conditions, methods=["POST"]),
        ]
        sock = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{sock.getsockname()[1]}"
        config = uvicorn.Config(Starlette(routes=routes), log_level="critical", lifespan="off")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[sock]))
        try:
            yield
        finally:
            server.should_exit = server.force_exit = True
            self.write(self.written)
            await task

    async def _decisions(self, request: Request) -> Response:
        self.streams += 1
        last = request.headers.get("last-event-id", "")
        return StreamingResponse(self._stream(int(last) if last else None), media_type="text/event-stream")

    async def _stream(self, last: int | None) -> AsyncIterator[bytes]:
        position = last
        left = self._rng.randrange(5, 60)  # events until it breaks off
        if position is None or self._rng.random() < 0.2:
            position = self.written
            yield b"event: reset\nid\ndata: {}\n\n"
            for event in self._beginning(position):
                yield event
            yield b"event: present\nid: %d\ndata: {}\n\n" % position
        else:
            position = max(0, position - self._rng.randrange(4))  # some that were there before
        while left > 0:
            more = self._more
            for number in range(position + 1, self.written + 1):
                yield _event(self._records[number - 1], number)
                position, left = number, left - 1
                if left <= 0:
                    return
            await more.wait()

    def _beginning(self, end: int) -> list[bytes]:
        present = self._records[:end]
        last = {(record.topic.short, record.name): record for record in present}
        events = [_event(record, None) for record in last.values() if record.value is not None]
        self._rng.shuffle(events)
        return events

    async def _conditions(self, request: Request) -> Response:
        if self._rng.random() < 0.2:
            return JSONResponse({"kind": "Status", "message": "not now"}, 503)
        events = await request.json()
        for event in events:
            data = event["data"]
            workload, target = data["workload"], data["target"]
            name = f"{workload['kind']}/{workload['namespace']}/{workload['name']}"
            if data["type"] == HEALTHY:
                self.healthy.append(f"{name}|{target['kind']}/{target['name']}")
        items = [{"index": index, "outcome": "Accepted"} for index in range(len(events))]
        return JSONResponse({"kind": "ReportOutcomeList", "items": items}, 202)


def _event(record: Record, version: int | None) -> bytes:
    value = json.loads(record.value) if record.value is not None else None
    data = json.dumps({"key": record.name, "value": value})
    identity = f"id: {version}\n" if version is not None else ""
    return f"event: {record.topic.short}\n{identity}data: {data}\n\n".encode()
