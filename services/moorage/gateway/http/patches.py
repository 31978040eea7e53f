"""The verb `patch`: a request that changes a part of an object, in one of the forms that its content type names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.core.apimachinery.patching import merge_patch
from moorage.gateway.errors import StatusError, bad_request
from moorage.gateway.http import bodies
from moorage.gateway.http.backend import Backend
from moorage.gateway.http.negotiation import media_type
from moorage.gateway.http.options import write_options
from moorage.gateway.http.paths import ResourcePath
from moorage.gateway.http.writing import caller, written

MERGE: Final = "application/merge-patch+json"

Document = dict[str, Any]
Patch = Callable[[Document], Document]
"""Returns the object that a patch makes of one."""


class PatchVerb:
    """Answers requests that patch an object.

    Args:
        backend: the objects.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def patch(self, request: Request, path: ResourcePath) -> Response:
        """Change a part of an object.

        Raises:
            StatusError: the patch cannot be read or applied, or its result breaks a rule or cannot be written.
        """
        options = write_options(request.query_params, "PatchOptions")
        representation = self._backend.representation(request, path.kind)
        sent = await read_patch(request)

        def patched(shown: Document) -> Document:
            merged = merged_with(dict(path.kind.converted(shown)), sent)
            return bodies.check_identity(merged, path.kind, path.namespace, path.name)

        shown = await self._backend.writer.change(
            path.kind, path.object_id, patched, "patch", caller(request), dry_run=options.dry_run
        )
        return written(self._backend, path.kind, shown, representation, sent=sent)


async def read_patch(request: Request) -> Document:
    """Read a merge patch.

    Raises:
        StatusError: 415 if it is another kind of patch, 400 if it cannot be read.
    """
    if media_type(request) != MERGE:
        raise StatusError(415, "415: Unsupported Media Type", details={})
    sent = bodies.parse_json(await bodies.read_body(request))
    if not isinstance(sent, dict):
        raise bad_request(
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return sent


def merged_with(shown: Document, patch: Document) -> Document:
    """Apply a merge patch to an object as it is shown. The result requires a version only if the patch names one."""
    merged: Document = merge_patch.applied(shown, patch)
    metadata, named = merged.get("metadata"), patch.get("metadata")
    if isinstance(metadata, dict) and "resourceVersion" not in (named if isinstance(named, dict) else {}):
        # The one that remains is the present one.
        merged["metadata"] = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    return merged
