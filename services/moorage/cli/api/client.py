"""A client of the gateway over HTTP, with the paths of the Kubernetes API and Status objects as errors."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import quote, urlencode

from moorage.apiserver.kinds.kind import ServedKind
from moorage.cli.api.credentials import NONE, Credentials
from moorage.cli.api.http import Connections, HttpError, RefusedError, Request, Response, Transport
from moorage.cli.errors import CliError, ServerError, UnreachableError, warn

JsonObject = dict[str, Any]

_CLUSTER = {"group": "moorage.io", "kind": "clusters"}
"""The details of an error about a mirrored cluster."""

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')

_UNAVAILABLE = 503

_HEADERS = {"user-agent": "moorage-cli"}
"""The name of the client in the gateway's audit."""

OWN_VERSION = "+moorage-"
"""The part of a server's `gitVersion` that identifies a gateway of Moorage."""

SILENCE = 120.0
"""Seconds without a byte after which a watch counts as interrupted. The gateway sends a bookmark every 30 s."""

CHUNK = 500
"""How many objects of a list are requested at a time, as kubectl does."""

TRIES = 10
"""The most attempts of a write that the server refuses with 503 and `Retry-After`, as in kubectl."""

LONGEST_PAUSE = 10.0
"""The longest wait in seconds before a write is sent again, regardless of `Retry-After`."""

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
EVENT = "application/cloudevents+json"
EVENTS_BATCH = "application/cloudevents-batch+json"


class Client:
    """A client of one gateway. Several threads may use it at once.

    Args:
        server: the gateway's address, without a path.
        transport: carries the requests. The default is HTTP.
        patience: seconds to wait for an answer, instead of the default.
        guessed: whether nothing names the server. Then the client prints its address, checks that it is a gateway of
            Moorage, and writes nothing.
        quietly: whether not to print the address.
        wait: waits for some seconds. The default sleeps.
        credentials: the credentials for the gateway.
    """

    def __init__(
        self,
        server: str,
        transport: Transport | None = None,
        *,
        patience: float | None = None,
        guessed: bool = False,
        quietly: bool = False,
        wait: Callable[[float], None] = time.sleep,
        credentials: Credentials = NONE,
    ) -> None:
        self.server = server
        self._wait = wait
        self._told: set[str] = set()
        self._lock = threading.Lock()
        self._guessed = guessed
        self._quietly = quietly
        self._seen_version = ""
        try:
            self._http = transport or Connections(server, patience=patience, credentials=credentials)
        except ValueError as error:
            raise UnreachableError(server, f"no valid address: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, kind: ServedKind, namespace: str, name: str, *, subresource: str = "") -> JsonObject:
        """Return one object. `namespace` is ignored for cluster-scoped kinds."""
        return self._call("GET", object_path(kind, namespace, name, subresource))

    def find(self, kind: ServedKind, namespace: str, name: str) -> JsonObject | None:
        """Return one object. None if it does not exist."""
        try:
            return self.get(kind, namespace, name)
        except ServerError as error:
            if error.reason != "NotFound":
                raise
            return None

    def list(
        self,
        kind: ServedKind,
        namespace: str | None,
        selector: str = "",
        *,
        name: str = "",
        fields: str = "",
        chunk: int = CHUNK,
    ) -> JsonObject:
        """Return the list of all or the selected objects of a kind.

        None as the namespace means all. `chunk` is how many objects are requested at a time, 0 for all at once.
        """
        params = _chosen(selector, name, fields) | ({"limit": str(chunk)} if chunk else {})
        path = list_path(kind, namespace)
        listed = self._call("GET", path, params=params)
        while more := (listed.get("metadata") or {}).get("continue"):
            part = self._call("GET", path, params={**params, "continue": str(more)})
            listed = {**part, "items": [*(listed.get("items") or []), *(part.get("items") or [])]}
        return listed

    def create(
        self, kind: ServedKind, namespace: str, document: Mapping[str, Any], *, options: Mapping[str, str] | None = None
    ) -> JsonObject:
        """Create an object, and return it as the server has stored it."""
        return self._call("POST", list_path(kind, namespace), params=options, json_body=document)

    def replace(
        self, kind: ServedKind, namespace: str, document: Mapping[str, Any], *, options: Mapping[str, str] | None = None
    ) -> JsonObject:
        """Replace an object by another of its name."""
        path = object_path(kind, namespace, str(document["metadata"]["name"]))
        return self._call("PUT", path, params=options, json_body=document)

    def patch(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        change: Any,
        *,
        subresource: str = "",
        content_type: str = MERGE_PATCH,
        options: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """Change an object.

        The namespace is ignored for cluster-scoped kinds. The default is a JSON merge patch (RFC 7386).
        """
        path = object_path(kind, namespace, name, subresource)
        return self._call("PATCH", path, params=options, json_body=change, content_type=content_type)

    def delete(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        *,
        body: Mapping[str, Any] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """Delete an object. `body` are DeleteOptions of the Kubernetes API."""
        return self._call("DELETE", object_path(kind, namespace, name), params=options, json_body=body)

    def post(
        self, path: str, document: Mapping[str, Any], *, options: Mapping[str, str] | None = None, reading: bool = False
    ) -> JsonObject:
        """Send an object to any path, such as a subresource, and return the answer.

        `reading`: whether it is a question that changes nothing, such as an access review.
        """
        return self._call("POST", path, params=options, json_body=document, reading=reading)

    def read(self, path: str, options: Mapping[str, str] | None = None) -> JsonObject:
        """Return the answer to any path that is JSON. `options` are query parameters."""
        return self._call("GET", path, params=options)

    def dated(self, path: str) -> tuple[JsonObject, str]:
        """Return the answer to a path that is JSON, and its `Date` header. Empty if it has none."""
        answer = self._send("GET", path, None, _HEADERS)
        found = json.loads(answer.content)
        return found if isinstance(found, dict) else {}, next(iter(answer.all("date")), "")

    def raw(self, path: str) -> bytes:
        """Return the answer to any path as it is."""
        return self._send("GET", path, None, _HEADERS).content

    def report(self, events: Sequence[Mapping[str, Any]], *, wait: float = 0) -> JsonObject:
        """Send condition reports as CloudEvents in structured mode. `refused` returns those that were not accepted.

        The server may wait for their outcome for `wait` seconds.
        """
        params = {"waitSeconds": f"{wait:g}"} if wait else None
        if len(events) == 1:
            return self._call("POST", "/v1/conditions", params=params, json_body=events[0], content_type=EVENT)
        return self._call("POST", "/v1/conditions", params=params, json_body=events, content_type=EVENTS_BATCH)

    def explain(self, asked: Mapping[str, str]) -> JsonObject:
        """Return an explanation as a document, from the query worker behind the gateway."""
        answer = self._call("GET", "/v1/explain", params=asked)
        found = answer.get("explanation")
        if not isinstance(found, dict):
            raise CliError(f"{self.server} is not a gateway of Moorage: its answer has no explanation")
        return found

    def watch(
        self,
        kind: ServedKind,
        namespace: str | None,
        version: str,
        *,
        selector: str = "",
        name: str = "",
        fields: str = "",
    ) -> Iterator[tuple[str, JsonObject]]:
        """Return the changes after a resourceVersion: (ADDED | MODIFIED | DELETED | BOOKMARK | ERROR, object).

        The server has accepted the watch when this returns. The watch ends when the server ends it;
        `moorage.cli.api.watching` continues after that.
        """
        self.claim(writing=False)
        params = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        path = _with(list_path(kind, namespace), {**params, **_chosen(selector, name, fields)})
        try:
            lines = self._http.lines(Request("GET", path, _HEADERS), silence=SILENCE)
        except RefusedError as error:
            raise _failure(error.answer) from None
        except HttpError as error:
            raise UnreachableError(self.server, str(error)) from None
        return self._events(lines)

    def claim(self, *, writing: bool) -> None:
        """Make sure that the server may be used. One that was named may always be.

        Raises:
            UnreachableError: it does not answer.
            CliError: nothing names it, and it is not a gateway of Moorage or something is to be changed there.
        """
        with self._lock:
            if not self._guessed:
                return
            self._seen_version = version = self._seen_version or self._version()
            if writing:
                raise CliError(
                    f"nothing names a server, and no `moorage up` was started here, so nothing is changed at "
                    f"{self.server} ({version}).\nIf that is the one you mean, repeat the command with --server "
                    f"{self.server}, or set MOORAGE_SERVER or a context (`moorage kubeconfig --help`)."
                )
            if not self._quietly:
                warn(f"Nothing names a server. This is the gateway at {self.server} ({version}).")
            self._quietly = True  # once is enough

    def _version(self) -> str:
        """Return the version of the gateway."""
        try:
            answer = self._http.send(Request("GET", "/version", _HEADERS))
        except HttpError as error:
            raise UnreachableError(self.server, str(error)) from None
        try:
            version = str(json.loads(answer.content)["gitVersion"])
        except (ValueError, KeyError, TypeError):
            version = ""
        if OWN_VERSION not in version:
            found = f"its version is {version}" if version else "it has no version"
            raise CliError(
                f"nothing names a server, and what listens at {self.server} is not a gateway of Moorage ({found}).\n"
                "Start one with `moorage up`, or name one with --server or MOORAGE_SERVER."
            )
        return version

    def _events(self, lines: Iterator[bytes]) -> Iterator[tuple[str, JsonObject]]:
        try:
            for line in lines:
                if line.strip():
                    event = json.loads(line)
                    yield str(event["type"]), event["object"]
        except (HttpError, ValueError) as error:
            raise UnreachableError(self.server, str(error)) from None

    def _tell(self, texts: Sequence[str]) -> None:
        """Print warnings as kubectl does, each text once."""
        with self._lock:
            fresh = [text for text in texts if text not in self._told]
            self._told.update(fresh)
        for text in fresh:
            warn(f"Warning: {text}")

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json_body: Any = None,
        content_type: str = "application/json",
        reading: bool = False,
    ) -> JsonObject:
        content = None if json_body is None else json.dumps(json_body).encode()
        headers = _HEADERS if content is None else {**_HEADERS, "content-type": content_type}
        changing = method != "GET" and not reading and "dryRun" not in (params or {})
        answer = self._send(method, _with(path, params or {}), content, headers, changing=changing)
        if not answer.content:
            return {}
        try:
            document = json.loads(answer.content)
        except ValueError:
            raise CliError(
                f"{self.server} is not a gateway of Moorage: its answer to {method} {path} is not JSON"
            ) from None
        return document if isinstance(document, dict) else {"items": document}

    def _send(
        self, method: str, path: str, content: bytes | None, headers: Mapping[str, str], *, changing: bool = False
    ) -> Response:
        self.claim(writing=changing)
        request = Request(method, path, headers, content)
        try:
            answer = self._http.send(request)
            for _ in range(TRIES - 1):
                if not changing or (pause := _pause(answer)) is None:
                    break
                self._wait(pause)
                answer = self._http.send(request)
        except HttpError as error:
            raise UnreachableError(self.server, str(error)) from None
        self._tell(warnings(answer))
        if answer.is_error:
            raise _failure(answer)
        return answer


def _pause(answer: Response) -> float | None:
    """Return how long to wait before a request is sent again. None if it is not to be sent again."""
    said = answer.all("retry-after")
    if answer.status != _UNAVAILABLE or not said or not said[0].isdecimal():
        return None
    return min(float(said[0][:9]), LONGEST_PAUSE)


def list_path(kind: ServedKind, namespace: str | None) -> str:
    """Return the path of a collection in the Kubernetes API."""
    base = f"/apis/{kind.api_version}" if "/" in kind.api_version else f"/api/{kind.api_version}"
    if kind.namespaced and namespace is not None:
        base += f"/namespaces/{quote(namespace, safe='')}"
    return f"{base}/{kind.plural}"


def object_path(kind: ServedKind, namespace: str, name: str, subresource: str = "") -> str:
    """Return the path of one object, or of a subresource such as `scale`."""
    path = f"{list_path(kind, namespace)}/{quote(name, safe='')}"
    return f"{path}/{subresource}" if subresource else path


def warnings(answer: Response) -> list[str]:
    """Return the texts of an answer's `Warning` headers (RFC 7234: code 299, agent, text in quotes)."""
    found = []
    for header in answer.all("warning"):
        for quoted in _WARNING.findall(header):
            text = re.sub(r"\\(.)", r"\1", quoted)
            if text not in found:
                found.append(text)
    return found


def _chosen(selector: str, name: str, fields: str = "") -> dict[str, str]:
    """Return the query parameters that select objects by labels, by name and by fields."""
    both = ",".join(part for part in (f"metadata.name={name}" if name else "", fields) if part)
    chosen = {"labelSelector": selector, "fieldSelector": both}
    return {key: value for key, value in chosen.items() if value}


def _with(path: str, params: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(params)}" if params else path


def _failure(answer: Response) -> CliError:
    try:
        status = json.loads(answer.content)
    except ValueError:
        status = {}
    if not isinstance(status, dict):
        status = {}
    if refusals := refused(status):
        return refusals[0]
    return status_error(status, answer.status, answer.text)


def refused(outcomes: Mapping[str, Any]) -> list[ServerError]:
    """Return the errors of the reports in a batch that were refused, from the server's list of outcomes."""
    if outcomes.get("kind") != "ReportOutcomeList":
        return []
    return [status_error(item["status"], 0) for item in outcomes.get("items") or [] if item.get("status")]


def status_error(status: Mapping[str, Any], code: int, text: str = "") -> ServerError:
    """Return the error for a Status object, or for an answer that is not one."""
    code = int(status.get("code") or code)
    message = status.get("message") or text[:500] or f"HTTP {code}"
    reason = str(status.get("reason") or "")
    if not reason:
        reason = {404: "NotFound", 405: "MethodNotAllowed", 409: "Conflict", 413: "RequestEntityTooLarge"}.get(code, "")
    details = status.get("details")
    if reason == "NotFound" and isinstance(details, dict) and _CLUSTER.items() <= details.items():
        message = f"{message}\n`moorage bridge list` shows the clusters that are mirrored."
    return ServerError(
        status=code, reason=reason, message=str(message), details=details if isinstance(details, dict) else None
    )
