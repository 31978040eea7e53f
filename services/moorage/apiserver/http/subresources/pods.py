"""The subresources of pods that are only written: `eviction` (policy/v1) and `binding` (v1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.messages import answers, decoding
from moorage.apiserver.http.messages.answers import warn
from moorage.apiserver.http.messages.decoding import Expected
from moorage.apiserver.http.messages.options import DeletionRequest, delete_options, write_options
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs.writing import caller
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.pod import KIND as POD_KIND
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import bad_request
from moorage.apiserver.writing.evictions import Evictions
from moorage.decide.kubernetes.field_errors import FieldError, not_supported, required

BINDING: Final = "binding"
BINDINGS: Final = "bindings"
"""The resource that takes bindings of pods without their names in the path: older schedulers write there."""
EVICTION: Final = "eviction"
ORDERS: Final = frozenset({BINDING, EVICTION})
_EXPECTED: Final = {BINDING: Expected("", "v1", "Binding"), EVICTION: Expected("policy", "v1", "Eviction")}

Document = Mapping[str, Any]

_DONE: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class PodOrders:
    """Answers requests that order something about a pod."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._evictions = Evictions(backend.store, backend.writer)

    async def handle(self, request: Request, path: ResourcePath) -> Response:
        """Carry out an order. Raises StatusError if the order is of another pod, is invalid, or is refused."""
        paths.check_method(request, "POST")
        representation = self._backend.representation(request, path.kind)
        asked = write_options(request.query_params, "CreateOptions")
        read = await decoding.read_object(request, _EXPECTED[path.subresource], asked.field_validation)
        dry_run, sent = asked.dry_run, read.document
        if not path.name:
            path = _named(path, sent)
        _check_names(path, sent)
        if path.subresource == EVICTION:
            await self._evict(request, path, sent, dry_run=dry_run)
        else:
            await self._bind(request, path, sent, dry_run=dry_run)
        response = answers.answer(201, representation.document(_DONE), representation.media_type)
        warn(response, read.warnings)
        return response

    async def _evict(self, request: Request, path: ResourcePath, sent: Document, *, dry_run: bool) -> None:
        options = sent.get("deleteOptions")
        asked = delete_options(request.query_params, options) if options else DeletionRequest()
        await self._evictions.evict(
            path.object_id,
            asked.preconditions,
            caller(request),
            options=asked.options,
            dry_run=dry_run or asked.dry_run,
        )

    async def _bind(self, request: Request, path: ResourcePath, sent: Document, *, dry_run: bool) -> None:
        target = sent.get("target") or {}
        found: list[FieldError] = []
        if target.get("kind", "Node") not in {"", "Node"}:
            found.append(not_supported("target.kind", target.get("kind"), ["Node", "<empty>"]))
        if not target.get("name"):
            found.append(required("target.name", ""))
        if found:
            raise api_errors.invalid("", "Binding", path.name, found)
        uid = str((sent.get("metadata") or {}).get("uid") or "")
        await self._backend.writer.bind(path.object_id, str(target["name"]), uid, caller(request), dry_run=dry_run)


def is_binding(group: str, version: str, parts: Sequence[str]) -> bool:
    """Return whether a path is that of `BINDINGS` in a namespace."""
    if (group, version) != ("", "v1") or len(parts) != len(("namespaces", "name", BINDINGS)):
        return False
    return (parts[0], parts[2]) == ("namespaces", BINDINGS) and bool(parts[1])


def bindings_path(namespace: str) -> ResourcePath:
    """Return the path of the binding of a pod whose name is in the request."""
    return ResourcePath(ServedKind(POD_KIND, "v1"), namespace, "", BINDING)


def _named(path: ResourcePath, sent: Document) -> ResourcePath:
    name = (sent.get("metadata") or {}).get("name")
    if not isinstance(name, str) or not name:
        raise bad_request("Name parameter required.")
    return replace(path, name=name)


def _check_names(path: ResourcePath, sent: Document) -> None:
    metadata, kind = sent.get("metadata") or {}, path.subresource.capitalize()
    # kubectl before 1.22 drains with evictions of the older version.
    decoding.check_type(sent, _EXPECTED[path.subresource], older="v1beta1" if path.subresource == EVICTION else "")
    if metadata.get("name") != path.name:
        raise bad_request(f"name in URL does not match name in {kind} object")
    if (metadata.get("namespace") or path.namespace) != path.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
