"""A gateway in memory for tests of the command line: objects by path, resource versions, failures on demand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
from typer.testing import CliRunner, Result

from moorage.apiserver.admission import field_owners
from moorage.apiserver.machinery.patching import json_patch
from moorage.apiserver.machinery.patching.errors import PatchError
from moorage.cli.api import kinds
from moorage.cli.api.client import APPLY_PATCH
from moorage.cli.app import app

Object = dict[str, Any]

_NAMESPACE = re.compile(r"/namespaces/[^/]+/")
Run = Callable[..., Result]


def invoke(*words: str, text: str | None = None) -> Result:
    """Run the command line with these words, and `text` on standard input."""
    return CliRunner().invoke(app, list(words), input=text)


def said(result: Result) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    return result.exit_code, result.stdout, result.stderr


def status(code: int, reason: str, message: str) -> httpx.Response:
    return httpx.Response(code, json={"kind": "Status", "code": code, "reason": reason, "message": message})


class FakeGateway:
    """Answers like the gateway, as far as the command line needs it."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.requests: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, str]] = []
        """The query parameters of each request."""

        self.content_types: list[str] = []
        """The kind of content of each request."""

        self.in_parts = 0
        """The number of objects in one part of a list. 0 if lists come as a whole."""

        self.events: list[Any] = []
        self.outcome: Callable[[Any], dict[str, Any]] = lambda _report: {"outcome": "Counted"}
        """What becomes of a report."""

        self.before_patch: Callable[[str], None] = lambda _path: None
        self.refuse: dict[str, httpx.Response] = {}
        """Responses to return instead, by `METHOD path`."""

        self.warnings: list[str] = []
        """Values of the `Warning` headers in every answer to a write."""

        self._version = 0

    def put(self, path: str, found: Object) -> None:
        self._version += 1
        metadata = {**found.get("metadata", {}), "resourceVersion": str(self._version)}
        self.objects[path] = {**found, "metadata": metadata}

    def node(self, name: str, **spec: Any) -> None:
        self.put(
            f"/api/v1/nodes/{name}",
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": {}},
        )

    def spec(self, name: str) -> Object:
        spec: Object = self.objects[f"/api/v1/nodes/{name}"]["spec"]
        return spec

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        body: Any = json.loads(request.content) if request.content else None
        self.requests.append((request.method, path, body))
        self.queries.append(dict(request.url.params))
        self.content_types.append(request.headers.get("content-type", ""))
        if path.endswith("/eviction"):
            return self.evict(path.removesuffix("/eviction"))
        if answer := self.refuse.get(f"{request.method} {path}"):
            return answer
        if path.endswith("/scale"):
            return self._scale(request.method, path.removesuffix("/scale"), body)
        if path == "/v1/conditions":
            return self._report(body)
        if request.method == "GET":
            return self._get(path, request.url.params.get("fieldSelector", ""))
        return self._write(request.method, path, body)

    def _report(self, body: Any) -> httpx.Response:
        events = body if isinstance(body, list) else [body]
        self.events += events
        if not isinstance(body, list):
            return httpx.Response(200, json={"id": body["id"], **self.outcome(body["data"])})
        items = [{"index": i, "id": one["id"], **self.outcome(one["data"])} for i, one in enumerate(events)]
        return httpx.Response(202, json={"kind": "ReportOutcomeList", "items": items})

    def _write(self, method: str, path: str, body: Any) -> httpx.Response:  # noqa: PLR0911 - one for each verb
        match method:
            case "POST":
                where = f"{path}/{body['metadata']['name']}"
                if where in self.objects:
                    return status(409, "AlreadyExists", "there already")
                self.put(where, body)
                headers = [("warning", text) for text in self.warnings]
                return httpx.Response(201, json=self.objects[where], headers=headers)
            case "PATCH" if self.content_types[-1] == APPLY_PATCH:
                return self._apply(path, body)
            case "PATCH":
                return self._patch(path, body)
            case "PUT":
                if path not in self.objects:
                    return self._missing(path)
                self.put(path, body)
                return httpx.Response(200, json=self.objects[path])
            case _:
                if path not in self.objects:
                    return self._missing(path)
                return httpx.Response(200, json=self.objects.pop(path))

    def evict(self, path: str) -> httpx.Response:
        """Evict a pod at once."""
        if path not in self.objects:
            return self._missing(path)
        self.objects.pop(path)
        return httpx.Response(201, json={"kind": "Status", "status": "Success"})

    def _get(self, path: str, fields: str = "") -> httpx.Response:
        if path in self.objects:
            return httpx.Response(200, json=self.objects[path])
        below = [
            found
            for where, found in sorted(self.objects.items())
            if path in {where.rpartition("/")[0], _NAMESPACE.sub("/", where).rpartition("/")[0]}
            and (not fields or fields in _fields(found))
        ]
        version = str(self._version)
        if below or path.rpartition("/")[2].endswith("s"):
            metadata = {"resourceVersion": version}
            if self.in_parts:
                start = int(self.queries[-1].get("continue") or 0)
                end = start + self.in_parts
                metadata |= {"continue": str(end)} if end < len(below) else {}
                below = below[start:end]
            return httpx.Response(200, json={"kind": "List", "metadata": metadata, "items": below})
        return self._missing(path)

    def _scale(self, method: str, path: str, body: Object | None) -> httpx.Response:
        """The subresource `scale` of an object."""
        if path not in self.objects:
            return self._missing(path)
        if method == "PATCH":
            answer = self._patch(path, {"metadata": (body or {}).get("metadata") or {}, "spec": (body or {})["spec"]})
            if answer.is_error:
                return answer
        found = self.objects[path]
        return httpx.Response(
            200, json={"metadata": found["metadata"], "spec": {"replicas": found["spec"]["replicas"]}}
        )

    def _apply(self, path: str, sent: Object) -> httpx.Response:
        """A server-side apply, as the gateway does it."""
        self.before_patch(path)
        kind, query, found = kinds.of_object(sent["apiVersion"], sent["kind"]), self.queries[-1], self.objects.get(path)
        assert kind is not None
        live = None if found is None else {**found, "apiVersion": kind.api_version, "kind": kind.kind}
        try:
            after = field_owners.management(kind).applied(
                live, sent, query["fieldManager"], datetime.now(UTC), force="force" in query
            )
        except PatchError as error:
            causes = [{"reason": one.reason, "message": one.message, "field": one.field} for one in error.causes]
            body = {"kind": "Status", "code": error.code, "reason": error.reason, "message": error.message}
            return httpx.Response(error.code, json={**body, "details": {"causes": causes}})
        if after != live and "dryRun" not in query:
            self.put(path, after)
            after = self.objects[path]
        headers = [("warning", text) for text in self.warnings]
        return httpx.Response(200 if found else 201, json=after, headers=headers)

    def _patch(self, path: str, change: Any) -> httpx.Response:
        self.before_patch(path)
        if path not in self.objects:
            return self._missing(path)
        found = self.objects[path]
        if isinstance(change, list):
            self.put(path, json_patch.applied(found, change))
            return httpx.Response(200, json=self.objects[path])
        wanted = (change.get("metadata") or {}).pop("resourceVersion", None)
        if wanted is not None and wanted != found["metadata"]["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified")
        self.put(path, merge(found, change))
        return httpx.Response(200, json=self.objects[path])

    @staticmethod
    def _missing(path: str) -> httpx.Response:
        collection, _, name = path.rpartition("/")
        return status(404, "NotFound", f'{collection.rpartition("/")[2]} "{name}" not found')


def _fields(found: Object) -> set[str]:
    """The field selectors that select an object."""
    return {f"metadata.name={found['metadata']['name']}", f"spec.nodeName={found.get('spec', {}).get('nodeName')}"}


def merge(found: Any, change: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(change, dict):
        return change
    result = dict(found) if isinstance(found, dict) else {}
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result
