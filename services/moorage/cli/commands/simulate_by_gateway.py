"""`moorage simulate` where Kafka cannot be reached: the query worker behind the gateway simulates.

It is asked with the requests that the other commands would send to make the change. So the same code makes them: what
reads goes to the gateway, and what would change something is kept and answered here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from moorage.cli.api import targets
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.endpoints import Server
from moorage.cli.api.http import Connections, Request, Response, Transport
from moorage.cli.commands.simulate_request import SimulationRequest
from moorage.cli.errors import CliError
from moorage.gateway.http.request_attributes import SIMULATE_PATH
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared

_PATIENCE: Final = 60.0
"""Seconds for which the answer is awaited beside the time that two simulations may take."""

_CREATED: Final = 201
_OK: Final = 200


class Recorder:
    """Sends what reads, and keeps what would change something.

    Args:
        sends: carries what reads.
    """

    def __init__(self, sends: Transport) -> None:
        self._sends = sends
        self.writes: list[JsonObject] = []
        """What would change something, as the query worker is asked for it."""

    def send(self, request: Request) -> Response:
        """Send a request that reads. Keep any other, and answer as if it had been granted."""
        if request.method == "GET":
            return self._sends.send(request)
        body = json.loads(request.content) if request.content else None
        if body is not None:
            body = _unversioned(body)
        said = dict(request.headers).get("content-type", "application/json")
        write = {"method": request.method, "path": request.path}
        self.writes.append(write if body is None else {**write, "body": body, "contentType": said})
        answer = body if request.method == "POST" and body else {"metadata": {"resourceVersion": "changed"}}
        return Response(_CREATED if request.method == "POST" else _OK, (), json.dumps(answer).encode())

    def lines(self, request: Request, *, silence: float) -> Iterator[bytes]:
        """Follow what changes."""
        return self._sends.lines(request, silence=silence)

    def close(self) -> None:
        """Close what carries the requests."""
        self._sends.close()


def _unversioned(body: JsonObject) -> JsonObject:
    """A change that does not say which version of the object it is about: a copy has versions of its own."""
    metadata = {name: value for name, value in (body.get("metadata") or {}).items() if name != "resourceVersion"}
    rest = {name: value for name, value in body.items() if name != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


def ask(server: Server, request: SimulationRequest, span: timedelta, simulation_timeout: float) -> dict[str, Any]:
    """Ask the query worker behind a gateway what a change would do, and return the answer as a document.

    Args:
        server: the gateway.
        request: the change.
        span: how much time passes in the copy.
        simulation_timeout: how long a simulation may take, in seconds.

    Raises:
        CliError: the change cannot be asked for in this way, or the gateway refuses it.
    """
    if request.condition:
        raise CliError("--condition needs access to Kafka: through a gateway, targets can only fail (--outage)")
    patience = 2 * simulation_timeout + _PATIENCE
    with Client(server.address, patience=patience, credentials=server.credentials()) as asking:
        recorder = Recorder(Connections(server.address, credentials=server.credentials()))
        with Client(server.address, transport=recorder) as client:
            said = request.change(client)
            failing = _failing(client, request, said)
        if not recorder.writes and not failing:
            raise CliError(f"nothing would be changed: {', '.join(said)}")
        question = {
            "writes": recorder.writes,
            "failing": [str(target) for target in failing],
            "status": request.status.value,
            "seconds": span.total_seconds(),
        }
        found = asking.post(SIMULATE_PATH, question, reading=True)
    if found.get("kind") != "Simulation":
        raise CliError(f"{server.address} is not a gateway of Moorage: its answer is not a simulation")
    return {**found, "changes": said}


def _failing(client: Client, request: SimulationRequest, said: list[str]) -> list[TargetRef]:
    """The targets that fail, and in `said` which these are."""
    if not request.outage:
        return []
    declared = {
        TargetRef(kind=TargetKind(kind.kind), name=found["metadata"]["name"]): ResourceDeclared(
            object={**found, "apiVersion": kind.api_version, "kind": kind.kind}, version=1
        )
        for kind in targets.KINDS
        for found in client.list(kind, None).get("items") or []
    }
    return request.failing(lambda outage: outage.among(declared), said)
