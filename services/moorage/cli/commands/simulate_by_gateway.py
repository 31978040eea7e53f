"""`moorage simulate` where Kafka cannot be reached: the query worker behind the gateway simulates.

It is asked with the requests that the other commands would send to make the change. So the same code makes them: what
reads goes to the gateway, and what would change something is kept and answered here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from moorage.apiserver.http.filters.request_attributes import SIMULATE_PATH
from moorage.cli.api import targets
from moorage.cli.api.applying import is_same
from moorage.cli.api.client import APPLY_PATCH, Client, JsonObject
from moorage.cli.api.endpoints import Server
from moorage.cli.api.http import Connections, Request, Response, Transport
from moorage.cli.commands.simulate_request import SimulationRequest
from moorage.cli.errors import CliError
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared

_PATIENCE: Final = 60.0
"""Seconds for which the answer is awaited beside the time that two simulations may take."""

_CREATED: Final = 201
_OK: Final = 200
_NOT_FOUND: Final = 404


class Recorder:
    """Sends what reads, and keeps what would change something.

    Args:
        sends: carries what reads.
    """

    def __init__(self, sends: Transport) -> None:
        self._sends = sends
        self._read: dict[str, Response] = {}
        self.writes: list[JsonObject] = []
        """What would change something, as the query worker is asked for it."""

    def send(self, request: Request) -> Response:
        """Send a request that reads. Keep any other, and answer as if it had been granted."""
        path, _, _ = request.path.partition("?")
        if request.method == "GET":
            self._read[path] = answer = self._sends.send(request)
            return answer
        body = json.loads(request.content) if request.content else None
        said = dict(request.headers).get("content-type", "application/json")
        before = self._read.get(path)
        if said == APPLY_PATCH and before is not None and self._is_same(request, body, before):
            return before
        if body is not None:
            body = _unversioned(body)
        write = {"method": request.method, "path": request.path}
        self.writes.append(write if body is None else {**write, "body": body, "contentType": said})
        is_new = request.method == "POST" or (before is not None and before.status == _NOT_FOUND)
        answered = body if is_new and body else {"metadata": {"resourceVersion": "changed"}}
        return Response(_CREATED if is_new else _OK, (), json.dumps(answered).encode())

    def _is_same(self, request: Request, body: Any, before: Response) -> bool:
        """Return whether an apply would change nothing, which the gateway says when it is only tried."""
        tried = self._sends.send(replace(request, path=f"{request.path}&dryRun=All&force=true"))
        if before.is_error or tried.is_error:
            return False
        return is_same(json.loads(before.content), json.loads(tried.content), body)

    def lines(self, request: Request, *, silence: float) -> Iterator[bytes]:
        """Follow what changes."""
        return self._sends.lines(request, silence=silence)

    def close(self) -> None:
        """Close what carries the requests."""
        self._sends.close()


def _unversioned(body: Any) -> Any:
    """A change that does not say which version of the object it is about: a copy has versions of its own."""
    if isinstance(body, list):
        return [one for one in body if one.get("path") != "/metadata/resourceVersion"]
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
