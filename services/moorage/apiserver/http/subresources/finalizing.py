"""The subresource `finalize` of namespaces: who empties them says that it is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.admission import field_owners
from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.messages import answers, bodies, decoding
from moorage.apiserver.http.messages.decoding import Expected
from moorage.apiserver.http.messages.options import write_options
from moorage.apiserver.http.messages.warnings import warn
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs.writing import caller, manager
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.namespace import FINALIZE, FINALIZERS, NamespaceKind
from moorage.apiserver.machinery import api_errors
from moorage.decide.kubernetes.field_errors import invalid

Document = dict[str, Any]


class _Finalized(NamespaceKind):
    """A namespace whose `spec.finalizers` are written."""

    def changed(self, wanted: Document, shown: Mapping[str, Any]) -> Document:  # noqa: ARG002 - an override
        """See `Kind`. No finalizers are an empty list: a namespace that says nothing of them has the standard ones."""
        return {**wanted, "spec": {"finalizers": [], **(wanted.get("spec") or {})}}


_KIND: Final = _Finalized()


async def finalize(backend: Backend, request: Request, path: ResourcePath) -> Response:
    """Replace the finalizers in the `spec` of a namespace. One that is being deleted goes with the last of them.

    Raises:
        StatusError: 404 if there is no such namespace, 409 if it is another one or has changed, 422 if a finalizer has
            no valid name.
    """
    if request.method != "PUT":
        raise paths.not_allowed()
    options = write_options(request.query_params, "UpdateOptions")
    representation = backend.representation(request, path.kind)
    sent = await decoding.read_object(request, Expected.of(path.kind), options.field_validation)
    document = bodies.check_identity(sent.document, path.kind, "", path.name)
    finalizers = (document.get("spec") or {}).get("finalizers") or []
    rule = "name is neither a standard finalizer name nor is it fully qualified"
    if found := [
        invalid(f"spec.finalizers[{at}]", one, rule)
        for at, one in enumerate(finalizers)
        if one not in FINALIZERS and "/" not in one
    ]:
        raise api_errors.invalid("", path.kind.kind, path.name, found)
    who, now = manager(request), backend.clock.now()

    def finalized(shown: Document) -> Document:
        wanted = {**document, "spec": {**(shown.get("spec") or {}), "finalizers": finalizers}}
        return field_owners.recorded(path.kind, shown, wanted, who, now, subresource=FINALIZE)

    shown = await backend.writer.change(
        ServedKind(_KIND, path.kind.version),
        path.object_id,
        finalized,
        "finalize",
        caller(request),
        dry_run=options.dry_run,
    )
    response = answers.answer(200, representation.one(path.kind, shown), representation.media_type)
    warn(response, sent.warnings)
    return response
