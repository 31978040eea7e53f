"""The verbs `delete` and `deletecollection`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response

from moorage.gateway.admission.deletion import Deleted
from moorage.gateway.errors import StatusError, conflict
from moorage.gateway.http.backend import Backend
from moorage.gateway.http.messages import answers, bodies, decoding
from moorage.gateway.http.messages.options import DeletionRequest, delete_options, list_options
from moorage.gateway.http.messages.representations import ListHead
from moorage.gateway.http.paths import ResourcePath
from moorage.gateway.http.verbs.reading import ReadVerbs
from moorage.gateway.http.verbs.writing import caller
from moorage.gateway.shown_objects import unkept
from moorage.kinds.status.records import ObjectId


class DeleteVerbs:
    """Answers requests that delete objects.

    Args:
        backend: the objects.
        reading: finds the objects of a collection.
    """

    def __init__(self, backend: Backend, reading: ReadVerbs) -> None:
        self._backend = backend
        self._reading = reading

    async def delete(self, request: Request, path: ResourcePath) -> Response:
        """Delete one object.

        Raises:
            StatusError: it is not there, is not the expected one, or cannot be deleted.
        """
        representation = self._backend.representation(request, path.kind)
        options = await self._options(request)
        deleted = await self._deleted(request, path, path.object_id, options)
        if deleted.gone and not path.kind.definition.deleted_is_returned:
            document = _status(path, deleted.document)
            return answers.answer(200, representation.document(document), representation.media_type)
        shown = unkept(int(deleted.document["metadata"].get("resourceVersion") or 0), deleted.document)
        return answers.answer(200, representation.one(path.kind, shown), representation.media_type)

    async def delete_collection(self, request: Request, path: ResourcePath) -> Response:
        """Delete the objects that selectors select, and answer with them.

        Raises:
            StatusError: the selectors cannot be read, or an object cannot be deleted. Those before it are gone then.
        """
        representation = self._backend.representation(request, path.kind)
        options = await self._options(request)
        chosen = list(self._reading.chosen(path, list_options(request.query_params)))
        gone: list[bytes] = []
        for shown in chosen:
            metadata = shown.document["metadata"]
            object_id = ObjectId(path.kind.kind, str(metadata.get("namespace") or ""), str(metadata["name"]))
            try:
                deleted = await self._deleted(request, path, object_id, options)
            except StatusError as error:
                if error.code == 404:  # noqa: PLR2004 - somebody else was faster
                    continue
                raise
            gone.append(orjson.dumps(deleted.document))
        head = ListHead(self._backend.store.version)
        pieces = representation.listed(path.kind, head, gone)
        return await answers.in_pieces(request, pieces, representation.media_type)

    async def _deleted(
        self, request: Request, path: ResourcePath, object_id: ObjectId, asked: DeletionRequest
    ) -> Deleted:
        self._check_uid(path, object_id, asked.preconditions.uid)
        return await self._backend.writer.delete(
            path.kind, object_id, asked.preconditions, caller(request), options=asked.options, dry_run=asked.dry_run
        )

    def _check_uid(self, path: ResourcePath, object_id: ObjectId, wanted: str) -> None:
        """Check the uid before the writer does, which compares it in other words.

        Raises:
            StatusError: 409 if the object has another uid.
        """
        present = self._backend.store.get(object_id)
        uid = present.document["metadata"].get("uid", "") if wanted and present is not None else wanted
        if uid != wanted:
            why = (
                f"the UID in the precondition ({wanted}) does not match the UID in record ({uid}). "
                "The object might have been deleted and then recreated"
            )
            raise conflict(path.kind.group, path.kind.kind, object_id.name, why)

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
