"""Writes of objects that only the system writes: nothing is stored, and what says what is decided is accepted."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.messages import answers, bodies, decoding
from moorage.apiserver.http.messages.decoding import Expected
from moorage.apiserver.http.messages.negotiation import media_type
from moorage.apiserver.http.messages.options import write_options
from moorage.apiserver.http.messages.warnings import warn
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs import patches, placement_decisions
from moorage.apiserver.machinery.api_errors import StatusError


class RepeatVerbs:
    """Answers requests that write such objects.

    Args:
        backend: the objects.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def repeat(self, request: Request, path: ResourcePath) -> Response:
        """Answer a write. It is accepted if nothing differs from what is decided.

        Raises:
            StatusError: 422 if it differs, 405 if no write is possible at all.
        """
        method = "PATCH" if path.name else "POST"
        if not path.kind.definition.repeatable or request.method != method or not path.namespace:
            raise StatusError(405, f"{path.kind.resource} are written by Moorage's services and can only be read")
        representation = self._backend.representation(request, path.kind)
        if path.name:
            document = await self._patched(request, path)
        else:
            document = (await decoding.read_object(request, Expected.of(path.kind))).document
        wanted = bodies.check_identity(document, path.kind, path.namespace, path.name)
        shown = placement_decisions.already_decided(
            wanted, path.kind, list(self._backend.store.all(path.kind.kind, path.namespace))
        )
        response = answers.answer(200, representation.one(path.kind, shown), representation.media_type)
        warn(response, [placement_decisions.NOT_STORED])
        return response

    async def _patched(self, request: Request, path: ResourcePath) -> dict[str, Any]:
        """What a patch makes of an object, or a server-side apply wants of it."""
        is_apply = media_type(request) == patches.APPLY
        options = write_options(request.query_params, "PatchOptions", is_apply=is_apply)
        sent = await patches.read_patch(request, Expected.of(path.kind), options.field_validation, takes_apply=True)
        if is_apply:
            metadata = sent.content.get("metadata")
            return {**sent.content, "metadata": {"name": path.name, **(metadata if isinstance(metadata, dict) else {})}}
        return sent.made_of(dict(path.kind.converted(self._backend.present(path).document)), [])
