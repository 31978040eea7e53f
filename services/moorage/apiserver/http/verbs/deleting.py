"""The verbs `delete` and `deletecollection`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.admission.deletion import Deleted, marked
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.messages import answers, bodies, decoding
from moorage.apiserver.http.messages.options import DeletionRequest, delete_options, list_options
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs.reading import ReadVerbs
from moorage.apiserver.http.verbs.writing import caller
from moorage.apiserver.kinds.status.records import ObjectId
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.storage.shown_objects import unkept
from moorage_schemas.resources.workload_kinds import POD


class DeleteVerbs:
    """Answers requests that delete objects."""

    def __init__(self, backend: Backend, reading: ReadVerbs) -> None:
        self._backend = backend
        self._reading = reading

    async def delete(self, request: Request, path: ResourcePath) -> Response:
        """Delete one object. Raises StatusError if it does not exist, is not the expected one, or cannot be deleted."""
        representation = self._backend.representation(request, path.kind)
        options = await self._options(request)
        deleted = await self._deleted(request, path, path.object_id, options)
        if deleted.gone and not path.kind.definition.deleted_is_returned:
            status = _status(path, deleted.document)
            return answers.answer(200, representation.document(status), representation.media_type)
        document: Mapping[str, Any] = deleted.document
        if deleted.gone and path.kind.kind == POD:  # the last that is seen of it is that it ends
            document = marked(document, options.options, self._backend.clock.now())
        shown = unkept(int(document["metadata"].get("resourceVersion") or 0), document)
        code = 202 if options.cascades and not deleted.gone else 200
        return answers.answer(code, representation.one(path.kind, shown), representation.media_type)

    async def delete_collection(self, request: Request, path: ResourcePath) -> Response:
        """Delete the objects that selectors select, up to a limit, and answer with them as they were.

        Raises:
            StatusError: the selectors cannot be read, or an object cannot be deleted. Those before it are deleted then.
        """
        representation = self._backend.representation(request, path.kind)
        options = await self._options(request)
        chosen, head = await self._reading.chosen(path, list_options(request.query_params))
        gone: list[bytes] = []
        for json in chosen:
            metadata = orjson.loads(json)["metadata"]
            object_id = ObjectId(path.kind.kind, str(metadata.get("namespace") or ""), str(metadata["name"]))
            try:
                await self._deleted(request, path, object_id, options)
            except StatusError as error:
                if error.code == 404:  # noqa: PLR2004 - another request was faster
                    continue
                raise
            gone.append(json)
        pieces = representation.listed(path.kind, head, gone)
        return await answers.in_pieces(request, pieces, representation.media_type)

    async def _deleted(
        self, request: Request, path: ResourcePath, object_id: ObjectId, asked: DeletionRequest
    ) -> Deleted:
        return await self._backend.writer.delete(
            path.kind, object_id, asked.preconditions, caller(request), options=asked.options, dry_run=asked.dry_run
        )

    async def _options(self, request: Request) -> DeletionRequest:
        body = await bodies.read_body(request)
        if not body.strip():
            return delete_options(request.query_params, None)
        sent = decoding.options_in(request, body, "DeleteOptions")
        return delete_options(request.query_params, sent)


def _status(path: ResourcePath, gone: Mapping[str, Any]) -> dict[str, Any]:
    details = {
        "name": path.name,
        "group": path.kind.group,
        "kind": path.kind.plural,
        "uid": gone["metadata"].get("uid", ""),
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
