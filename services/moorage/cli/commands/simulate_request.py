"""The changes of `moorage simulate`. A copy is changed as the other commands change the live state."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx
from pydantic import ValidationError

from moorage.apiserver.http.filters.request_attributes import SIMULATE_PATH
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.api_errors import field_errors
from moorage.cli.api import kinds, targets
from moorage.cli.api.applying import MANAGER, apply_all, is_same
from moorage.cli.api.client import APPLY_PATCH, Client, JsonObject
from moorage.cli.api.endpoints import Server
from moorage.cli.api.http import Connections, HttpError, RefusedError, Request, Response, Transport
from moorage.cli.api.manifests import Manifest
from moorage.cli.commands.taint import decide
from moorage.cli.errors import CliError, UsageError
from moorage.decide.taints.dialects.table import DIALECTS
from moorage.decide.taints.kubectl_syntax import TaintSpecError, TaintSpecs, parse_taints
from moorage.insight.copy.gateway import ADDRESS, Edge
from moorage.insight.copy.stack import MemoryStack
from moorage.insight.diff import changes
from moorage.insight.diff.changes import ChangeError, ZoneOutage
from moorage_schemas.condition import ConditionReported, ConditionStatus
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resource import ResourceDeclared


class HttpxTransport:
    """Carries requests over a transport of httpx."""

    def __init__(self, transport: httpx.BaseTransport, server: str = "http://localhost") -> None:
        self._transport = transport
        self._server = server

    def send(self, request: Request) -> Response:
        """Send a request and return the whole answer."""
        sent = httpx.Request(
            request.method, self._server + request.path, headers=dict(request.headers), content=request.content
        )
        try:
            given = self._transport.handle_request(sent)
            content = given.read()
        except httpx.TransportError as error:
            raise HttpError(str(error) or type(error).__name__) from error
        return Response(
            given.status_code, tuple((name.lower(), text) for name, text in given.headers.multi_items()), content
        )

    def lines(self, request: Request, *, silence: float) -> Iterator[bytes]:  # noqa: ARG002 - the answer arrives as a whole
        """Return the lines of an answer when it has arrived as a whole."""
        answer = self.send(request)
        if answer.is_error:
            raise RefusedError(answer)
        return iter(answer.content.splitlines())

    def close(self) -> None:
        """Leave the transport open, because others may use it."""


_AT_ONCE = 1000
"""Reports in one request."""

_SHOWN = 5
_AGES_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class SimulationRequest:
    """The changes, parsed from the command line."""

    items: Sequence[Manifest]
    namespace: str
    delete: Sequence[tuple[ServedKind, str, str]]
    """Kind, namespace and name."""

    taint: Sequence[tuple[ServedKind, str, TaintSpecs]]
    condition: Sequence[tuple[TargetRef, str, ConditionStatus]]
    outage: Sequence[ZoneOutage]
    status: ConditionStatus
    overwrite: bool

    @classmethod
    def parse(
        cls,
        *,
        items: Sequence[Manifest],
        delete: Sequence[str],
        taint: Sequence[str],
        condition: Sequence[str],
        outage: Sequence[str],
        status: str,
        overwrite: bool,
        namespace: str,
    ) -> SimulationRequest:
        """Parse the words of the command line.

        Raises:
            UsageError: one is invalid, or none is given.
            CliError: a taint is invalid. The message is kubectl's.
        """
        if not (items or delete or taint or condition or outage):
            raise UsageError(
                "no change is given: use -f FILE, --delete KIND/NAME, --taint KIND/NAME=SPEC, "
                "--condition KIND/NAME=TYPE=STATUS or --outage WHERE"
            )
        try:
            outages = [ZoneOutage.parse(text) for text in outage]
        except ChangeError as error:
            raise UsageError(f"--outage: {error}") from None
        word = _status("--outage-status", status)
        if word is ConditionStatus.TRUE:
            raise UsageError("--outage-status: invalid value 'True': must be Unknown or False")
        return cls(
            items=items,
            namespace=namespace,
            delete=[_object(text, namespace) for text in delete],
            taint=_taints(taint),
            condition=[_condition(text) for text in condition],
            outage=outages,
            status=word,
            overwrite=overwrite,
        )

    def make(self, edge: Edge, stack: MemoryStack) -> list[str]:
        """Make the changes in a copy, and return them in words. Raises CliError if the copy's gateway refuses one."""
        with Client(ADDRESS, transport=HttpxTransport(edge.transport, ADDRESS)) as client:
            said = self.change(client)
            self._report(client, stack, said)
        return said

    def change(self, client: Client) -> list[str]:
        """Change declared objects, and return the changes in words. Raises CliError if the gateway refuses a change."""
        said: list[str] = []
        for done in apply_all(client, self.items, self.namespace, workers=1):
            if done.error:
                raise CliError(done.error.removeprefix("error: "))
            kind = done.manifest.kind
            name = done.manifest.name or str((done.object.get("metadata") or {}).get("name", ""))
            said.append(f"{kind.called(name) if kind else name} {done.word}")
        for kind, namespace, name in self.delete:
            client.delete(kind, namespace, name)
            said.append(f"{kind.called(name)} deleted")
        for kind, name, specs in self.taint:
            changed = targets.change(
                client,
                kind,
                name,
                lambda found, kind=kind, specs=specs: decide(kind, found, specs, overwrite=self.overwrite),  # type: ignore[misc]  # mypy does not see the defaults' types
            )
            said.append(f"{targets.called(kind, name)} {changed.word}")
        return said

    def failing(self, matching: Callable[[ZoneOutage], list[TargetRef]], said: list[str]) -> list[TargetRef]:
        """Return the targets that fail, each outage after the other, and add their names to `said`.

        `matching` finds the targets of an outage. Raises CliError if an outage has no targets.
        """
        every: dict[TargetRef, None] = {}
        for one in self.outage:
            try:
                found = matching(one)
            except ChangeError as error:
                raise CliError(str(error)) from None
            every.update(dict.fromkeys(found))
            names = ", ".join(_called(target) for target in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            said.append(f"outage of {one.text}: {names}{more} {self.status.value}")
        return list(every)

    def _report(self, client: Client, stack: MemoryStack, said: list[str]) -> None:
        events: list[dict[str, Any]] = []
        for target, name, status in self.condition:
            events.append(changes.condition(stack, target, name, status))
            said.append(f"{_called(target)} reported {name}={status.value}")
        failing = self.failing(lambda outage: outage.targets(stack), said)
        events += changes.outage(stack, failing, self.status)
        for begin in range(0, len(events), _AT_ONCE):
            outcome = client.report(events[begin : begin + _AT_ONCE])
            for item in outcome.get("items") or []:
                if item.get("status"):
                    raise CliError(str(item["status"].get("message", "a report was refused")))


def _object(text: str, namespace: str) -> tuple[ServedKind, str, str]:
    word, *names = text.split("/")
    if len(names) not in {1, 2} or not all((word, *names)):
        raise UsageError(f"--delete: invalid value {text!r}: must be KIND/NAME or KIND/NAMESPACE/NAME, such as node/n1")
    kind = kinds.find(word)
    if kind.read_only:
        raise CliError(f"{kind.plural} are written by the services and cannot be deleted")
    if len(names) == 1:
        names = [namespace, *names]
    elif not kind.namespaced:
        raise UsageError(f"--delete: invalid value {text!r}: {kind.plural} have no namespace")
    return kind, names[0] if kind.namespaced else "", names[1]


def _taints(texts: Sequence[str]) -> list[tuple[ServedKind, str, TaintSpecs]]:
    """Group the specs by target, because those of one target are one change, as in one `moorage taint`."""
    words: dict[tuple[str, str], list[str]] = {}
    for text in texts:
        target, equals, spec = text.partition("=")
        kind, slash, name = target.partition("/")
        if not (equals and slash and kind and name and spec):
            raise UsageError(
                f"--taint: invalid value {text!r}: must be KIND/NAME=SPEC, such as node/n1=key=value:NoExecute or "
                "node/n1=key-"
            )
        words.setdefault((targets.target_kind(kind).kind, name), []).append(spec)
    found = []
    for (kind_name, name), specs in words.items():
        try:
            found.append((kinds.find(kind_name), name, parse_taints(specs, DIALECTS[kind_name])))
        except TaintSpecError as error:
            raise CliError(str(error)) from None
    return found


def _condition(text: str) -> tuple[TargetRef, str, ConditionStatus]:
    target, _, rest = text.partition("=")
    name, _, status = rest.rpartition("=")
    kind, slash, called = target.partition("/")
    if not (slash and kind and called and name and status):
        raise UsageError(
            f"--condition: invalid value {text!r}: must be KIND/NAME=TYPE=STATUS, such as node/n1=Ready=False"
        )
    try:
        ref = TargetRef(kind=TargetKind(kinds.find(kind).kind), name=called)
    except ValidationError as error:
        raise UsageError(f"--condition: invalid value {text!r}: {error.errors()[0]['msg']}") from None
    except ValueError:
        raise UsageError(f"--condition: invalid value {text!r}: only nodes and clusters have conditions") from None
    found = _status("--condition", status)
    try:
        ConditionReported(target=ref, type=name, status=found, observed_time=_AGES_AGO, source=changes.SOURCE)
    except ValidationError as error:
        (problem, *_) = field_errors(error)
        raise UsageError(f"--condition: invalid value {text!r}: {problem}") from None
    return ref, name, found


def _status(option: str, text: str) -> ConditionStatus:
    try:
        return ConditionStatus(text.title())
    except ValueError:
        raise UsageError(f"{option}: invalid value {text!r}: must be True, False or Unknown") from None


def _called(target: TargetRef) -> str:
    return f"{target.kind.value.lower()}/{target.name}"


_PATIENCE: Final = 60.0
"""Seconds for which the answer is awaited beside the time that two simulations may take."""

_CREATED: Final = 201
_OK: Final = 200
_NOT_FOUND: Final = 404


class Recorder:
    """Sends what reads, and keeps what would change something."""

    def __init__(self, sends: Transport) -> None:
        self._sends = sends
        self._read: dict[str, Response] = {}
        self.writes: list[JsonObject] = []
        """The changes of the request to the query worker."""

    def send(self, request: Request) -> Response:
        """Send a request that reads. Keep any other, and return an answer as if it had been granted."""
        path, _, _ = request.path.partition("?")
        if request.method == "GET":
            self._read[path] = answer = self._sends.send(request)
            return answer
        body = json.loads(request.content) if request.content else None
        said = dict(request.headers).get("content-type", "application/json")
        before = self._read.get(path)
        if said == APPLY_PATCH and before is not None and self._is_same(request, before):
            return before
        if body is not None:
            body = _unversioned(body)
        write = {"method": request.method, "path": request.path}
        self.writes.append(write if body is None else {**write, "body": body, "contentType": said})
        is_new = request.method == "POST" or (before is not None and before.status == _NOT_FOUND)
        answered = body if is_new and body else {"metadata": {"resourceVersion": "changed"}}
        return Response(_CREATED if is_new else _OK, (), json.dumps(answered).encode())

    def _is_same(self, request: Request, before: Response) -> bool:
        """Return whether an apply would change nothing, by a dry run at the gateway."""
        tried = self._sends.send(replace(request, path=f"{request.path}&dryRun=All&force=true"))
        if before.is_error or tried.is_error:
            return False
        return is_same(json.loads(before.content), json.loads(tried.content), MANAGER)

    def lines(self, request: Request, *, silence: float) -> Iterator[bytes]:
        """Follow what changes."""
        return self._sends.lines(request, silence=silence)

    def close(self) -> None:
        """Close the transport of the requests."""
        self._sends.close()


def _unversioned(body: Any) -> Any:
    """Return a change without the version of its object: a copy has versions of its own."""
    if isinstance(body, list):
        return [one for one in body if one.get("path") != "/metadata/resourceVersion"]
    metadata = {name: value for name, value in (body.get("metadata") or {}).items() if name != "resourceVersion"}
    rest = {name: value for name, value in body.items() if name != "metadata"}
    return {**rest, "metadata": metadata} if metadata else rest


def ask(server: Server, request: SimulationRequest, span: timedelta, simulation_timeout: float) -> dict[str, Any]:
    """Simulate a change with the query worker behind a gateway, and return the result as a document.

    Raises:
        CliError: the change is not supported in this way, or the gateway refuses it.
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
    """Return the targets that fail, and add their names to `said`."""
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
