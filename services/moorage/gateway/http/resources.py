"""The Kubernetes API's verbs on resources: get, list, watch, create, update, patch, delete."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moorage.core.admission.feature_gates import FeatureGates
from moorage.gateway import errors
from moorage.gateway.admission.feature_gates import warning_header, warnings
from moorage.gateway.errors import bad_request, shorten
from moorage.gateway.http import answers, bodies, deletion, paths, placement_decisions, scale, watch
from moorage.gateway.http.paths import ResourcePath
from moorage.gateway.http.selectors import selector
from moorage.gateway.metrics import Metrics
from moorage.gateway.shown_objects import ShownObject
from moorage.gateway.store import Store
from moorage.gateway.writer import Caller, Preconditions, Writer
from moorage.kinds.status.records import ObjectId

Part = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Returns the part of an object that a subresource shows."""

_TRUE = frozenset({"true", "1", "t", "T", "TRUE", "True"})
_LONGEST_WATCH = 3600.0  # seconds; clients that want to continue start again where they stopped
_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_LONGEST_ACTOR = 128
_DIGITS = 18  # of a number in a query; no version or timeout is longer


class ResourcesApi:
    """Answers requests about resources."""

    def __init__(self, store: Store, writer: Writer, metrics: Metrics, switches: Callable[[], FeatureGates]) -> None:
        self._switches = switches
        self._store = store
        self._writer = writer
        self._metrics = metrics

    async def handle(self, request: Request, path: ResourcePath) -> Response:
        """Answer one request.

        Raises:
            StatusError: the request fails.
        """
        if not self._store.ready:
            raise errors.unavailable("the gateway is not ready: it is still reading its tables")
        method = request.method
        if path.subresource:
            return await self._subresource(request, path)
        if method in {"GET", "HEAD"}:
            return self._get(path) if path.name and not _flag(request, "watch") else self._list(request, path)
        if path.kind.definition.read_only:
            return await self._said(request, path)
        if bool(path.name) is (method == "POST"):
            raise paths.not_allowed(method)
        verbs = {"POST": self._create, "PUT": self._replace, "PATCH": self._patch, "DELETE": self._delete}
        return await verbs[method](request, path)

    def _get(self, path: ResourcePath) -> Response:
        shown = self._store.get(_object_id(path))
        if shown is None:
            raise errors.not_found(path.kind.group, path.kind.plural, path.name)
        return answer(200, answers.shown(path.kind, shown))

    def _list(self, request: Request, path: ResourcePath) -> Response:
        query = request.query_params
        fields = query.get("fieldSelector", "")
        if path.name:
            fields = ",".join(filter(None, (fields, f"metadata.name={path.name}")))
        selected = selector(query.get("labelSelector", ""), fields)
        if _flag(request, "watch"):
            return self._watch(
                watch.Watch(
                    kind=path.kind,
                    namespace=path.namespace,
                    selected=selected,
                    version=_version(request),
                    bookmarks=_flag(request, "allowWatchBookmarks"),
                    initial_end=_flag(request, "sendInitialEvents"),
                    timeout=_timeout(request),
                )
            )
        objects = self._store.all(path.kind.kind, path.namespace)
        return answer(200, answers.listed(path.kind, objects, selected, self._store.version))

    def _watch(self, asked: watch.Watch) -> Response:
        number = watch.start(self._store, asked)

        async def lines() -> AsyncIterator[bytes]:
            with self._metrics.watches.track_inprogress():
                async for line in watch.events(self._store, asked, number):
                    yield line

        return StreamingResponse(lines(), media_type=bodies.JSON)

    async def _create(self, request: Request, path: ResourcePath) -> Response:
        if path.kind.namespaced and not path.namespace:
            raise paths.not_allowed(request.method)
        bodies.check_media_type(request, bodies.JSON)
        body = bodies.parse_object(await bodies.read_body(request))
        document = bodies.check_identity(body, path.kind, path.namespace, "")
        shown = await self._writer.create(path.kind, document, caller(request), dry_run=_dry_run(request))
        return self._object(201, path, shown, document)

    async def _said(self, request: Request, path: ResourcePath) -> Response:
        """Answer a write of an object that only the system writes. It is never stored, but accepted if nothing differs.

        Raises:
            StatusError: 422 if it differs, 405 if no write is possible at all.
        """
        if not path.kind.definition.repeatable or request.method != "POST" or path.name or not path.namespace:
            raise errors.StatusError(
                405, f"{path.kind.plural}.{path.kind.group} are written by Moorage's services and can only be read"
            )
        bodies.check_media_type(request, bodies.JSON)
        body = bodies.parse_object(await bodies.read_body(request))
        wanted = bodies.check_identity(body, path.kind, path.namespace, "")
        shown = placement_decisions.already_decided(
            wanted, path.kind, list(self._store.all(path.kind.kind, path.namespace))
        )
        response = answer(200, answers.shown(path.kind, shown))
        response.headers.append("warning", warning_header(placement_decisions.NOT_STORED))
        return response

    async def _replace(self, request: Request, path: ResourcePath) -> Response:
        bodies.check_media_type(request, bodies.JSON)
        body = bodies.parse_object(await bodies.read_body(request))
        document = bodies.check_identity(body, path.kind, path.namespace, path.name)
        shown = await self._writer.change(
            path.kind, _object_id(path), lambda _: document, "update", caller(request), dry_run=_dry_run(request)
        )
        return self._object(200, path, shown, document)

    async def _patch(self, request: Request, path: ResourcePath) -> Response:
        bodies.check_media_type(request, bodies.MERGE_PATCH)
        patch = bodies.parse_object(await bodies.read_body(request))

        def patched(shown: dict[str, Any]) -> dict[str, Any]:
            merged = bodies.patched(dict(path.kind.converted(shown)), patch)
            return bodies.check_identity(merged, path.kind, path.namespace, path.name)

        shown = await self._writer.change(
            path.kind, _object_id(path), patched, "patch", caller(request), dry_run=_dry_run(request)
        )
        return self._object(200, path, shown, patch)

    async def _subresource(self, request: Request, path: ResourcePath) -> Response:
        """`scale` and `status` of an object: parts of it that are read and changed separately."""
        method = request.method
        show: Part = scale.scale_of if path.subresource == "scale" else dict
        if method in {"GET", "HEAD"}:
            shown = self._store.get(_object_id(path))
            if shown is None:
                raise errors.not_found(path.kind.group, path.kind.plural, path.name)
            return answer(200, show(path.kind.converted(shown.document)))
        if method not in {"PUT", "PATCH"}:
            raise paths.not_allowed(method)
        bodies.check_media_type(request, bodies.JSON if method == "PUT" else bodies.MERGE_PATCH)
        body = bodies.parse_object(await bodies.read_body(request))

        def changed(shown: dict[str, Any]) -> dict[str, Any]:
            shown = dict(path.kind.converted(shown))
            part = body if method == "PUT" else bodies.patched(show(shown), body)
            if path.subresource == "scale":
                return scale.scaled(shown, part, path.name)
            wanted = bodies.check_identity(part, path.kind, path.namespace, path.name)
            metadata = {**shown["metadata"], "resourceVersion": wanted["metadata"].get("resourceVersion", "")}
            metadata["uid"] = wanted["metadata"].get("uid") or metadata.get("uid", "")
            return {**shown, "metadata": metadata, "status": wanted.get("status") or {}}

        verb = f"{'update' if method == 'PUT' else 'patch'}/{path.subresource}"
        after = await self._writer.change(
            path.kind, _object_id(path), changed, verb, caller(request), dry_run=_dry_run(request)
        )
        return answer(200, show(path.kind.converted(after.document)))

    def _object(self, code: int, path: ResourcePath, shown: ShownObject, sent: Mapping[str, Any]) -> Response:
        response = answer(code, answers.shown(path.kind, shown))
        kind, document = path.kind.definition, shown.document
        notes = kind.notes(document, sent, self._store.tables)
        for text in (*warnings(document, kind, self._switches()), *notes):
            response.headers.append("warning", warning_header(text))
        return response

    async def _delete(self, request: Request, path: ResourcePath) -> Response:
        body = await bodies.read_body(request)
        options = bodies.parse_object(body) if body.strip() else {}
        dry_run = _is_all(options.get("dryRun") or request.query_params.getlist("dryRun"))
        chosen = deletion.options_of(options, request.query_params)
        wanted = options.get("preconditions") or {}
        if not isinstance(wanted, dict) or not all(isinstance(value, str) for value in wanted.values()):
            raise bad_request(
                f"preconditions: invalid value {shorten(wanted)!r}: must be an object with the strings "
                "uid and resourceVersion"
            )
        preconditions = Preconditions(wanted.get("uid", ""), wanted.get("resourceVersion", ""))
        deleted = await self._writer.delete(
            path.kind, _object_id(path), preconditions, caller(request), options=chosen, dry_run=dry_run
        )
        if not deleted.gone:
            return answer(200, path.kind.converted(deleted.document))
        details = {
            "name": path.name,
            "group": path.kind.group,
            "kind": path.kind.plural,
            "uid": deleted.document["metadata"].get("uid", ""),
        }
        return answer(
            200,
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Success",
                "details": {key: value for key, value in details.items() if value},
            },
        )


def caller(request: Request) -> Caller:
    """The caller as the request names it: its `fieldManager`, otherwise the first word of its user agent."""
    agent = request.headers.get("user-agent", "").partition(" ")[0].partition("/")[0]
    actor = request.query_params.get("fieldManager", "") or agent or "anonymous"
    trace = request.headers.get("traceparent", "")
    shown = "".join(char if char.isprintable() else "?" for char in actor)[:_LONGEST_ACTOR]
    return Caller(shown, trace if _TRACE.fullmatch(trace) else "")


def answer(code: int, document: Mapping[str, Any] | bytes) -> Response:
    """A JSON response, of an object or of its JSON."""
    content = document if isinstance(document, bytes) else orjson.dumps(document)
    return Response(content, code, media_type=bodies.JSON)


def _object_id(path: ResourcePath) -> ObjectId:
    return ObjectId(path.kind.kind, path.namespace, path.name)


def _dry_run(request: Request) -> bool:
    return _is_all(request.query_params.getlist("dryRun"))


def _is_all(values: Any) -> bool:
    if not values or values == ["All"]:
        return bool(values)
    raise bad_request(f"dryRun: invalid value {shorten(values)!r}: must be All")


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "") in _TRUE


def _version(request: Request) -> int | None:
    text = request.query_params.get("resourceVersion", "")
    if text in {"", "0"}:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise bad_request(f"resourceVersion: invalid value {shorten(text)!r}: must be a number from an earlier answer")
    if _flag(request, "sendInitialEvents"):
        return None  # no present object is older than any version
    return int(text)


def _timeout(request: Request) -> float:
    text = request.query_params.get("timeoutSeconds", "")
    if not text:
        return _LONGEST_WATCH
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise bad_request(f"timeoutSeconds: invalid value {shorten(text)!r}: must be a number of seconds")
    return min(float(text), _LONGEST_WATCH) or _LONGEST_WATCH
