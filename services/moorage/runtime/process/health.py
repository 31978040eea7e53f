"""Serves health, readiness and metrics over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from typing_extensions import override

from moorage.runtime.process.clock import MACHINE
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.process.fleet_metrics import FleetMetrics, exposition
from moorage.runtime.process.member import Member

_TICK: Final = 1.0  # seconds between two updates of the time in the headers


def health_app(
    workers: Callable[[], Sequence[Member]],
    routes: Sequence[Route] = (),
    *,
    refused: Callable[[], Sequence[str]] = tuple,
    clock: Callable[[], str] = str,
    fleet: FleetMetrics | None = None,
) -> Starlette:
    """Return the application: `/healthz`, `/readyz` with each partition's restore progress, `/metrics`.

    Args:
        workers: returns the workers of this process; none before it has started them.
        routes: additional routes.
        refused: returns what Kafka refuses this process at present.
        clock: returns a sentence about the clock of this process if it is off.
        fleet: the numbers of the fleet to show; those of `workers` when None.
    """
    shown = fleet or FleetMetrics(workers, MACHINE.now)

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        running = workers()
        ready = bool(running) and all(worker.ready for worker in running)
        body: dict[str, Any] = {"ready": ready, "services": {worker.name: worker.report() for worker in running}}
        if found := refused():
            body["refused"] = found
        if off := clock():
            body["clock"] = off
        return JSONResponse(body, status_code=200 if ready else 503)

    async def metrics(request: Request) -> Response:
        body, content_type = await exposition(shown, request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    own = [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", metrics)]
    return Starlette(routes=[*own, *routes])


class _Server(uvicorn.Server):
    """uvicorn in a process that handles its signals itself. It wakes once a second, for the time in its headers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Let `serve` return."""
        self.should_exit = True
        self._stopping.set()

    @override
    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK)

    @contextlib.contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves an ASGI application from this event loop until it is stopped.

    Args:
        port: the port; 0 takes a free one.
    """

    def __init__(self, app: Any, *, host: str, port: int) -> None:
        self._server = _Server(
            uvicorn.Config(app, host=host, port=port, log_config=None, access_log=False, lifespan="auto")
        )
        self._task: asyncio.Task[None] | None = None
        self._host, self._wanted = host, port
        self.port = 0
        """The port that it listens on; 0 before the start."""

    async def start(self) -> None:
        """Start listening. Raises RuntimeFailure if the port is taken."""
        self._task = asyncio.create_task(self._serve(), name="http")
        while not self._server.started:
            if self._task.done():
                raise RuntimeFailure(
                    f"http_port: invalid value {self._wanted}: cannot listen on {self._host}:{self._wanted}; "
                    "is the port taken?"
                )
            await asyncio.sleep(0.01)
        self.port = int(self._server.servers[0].sockets[0].getsockname()[1])

    async def _serve(self) -> None:
        # uvicorn ends with SystemExit when it cannot bind.
        with contextlib.suppress(SystemExit):
            await self._server.serve()

    async def stop(self) -> None:
        """Finish the requests in progress and stop."""
        if self._task is not None:
            self._server.stop()
            await self._task
