"""The verbs `create` and `update`, and what all writes share: who writes, and how a written object is answered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.admission import field_owners
from moorage.apiserver.admission.validation import finalizer_warnings, owner_warnings, warnings
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.filters.access import user_of
from moorage.apiserver.http.messages import answers, bodies, decoding
from moorage.apiserver.http.messages.answers import note_warnings, warn
from moorage.apiserver.http.messages.decoding import Expected
from moorage.apiserver.http.messages.options import write_options
from moorage.apiserver.http.messages.representations import Representation
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.api_errors import StatusError, conflict
from moorage.apiserver.machinery.openapi.registry import Origin, origin_of
from moorage.apiserver.machinery.patching.managed_fields import manager_of
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.apiserver.writing.object_records import Caller
from moorage.decide.kubernetes.attributes import User

_TRACE: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_UNPROCESSABLE: Final = 422
_LONGEST_ACTOR: Final = 128


_OF_THE_SERVER: Final = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


class WriteVerbs:
    """Answers requests that create or replace an object."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def create(self, request: Request, path: ResourcePath) -> Response:
        """Create an object. Raises StatusError if it cannot be read, breaks a rule, or cannot be written."""
        options = write_options(request.query_params, "CreateOptions")
        representation = self._backend.representation(request, path.kind)
        sent = await decoding.read_object(request, Expected.of(path.kind), options.field_validation)
        bodies.check_type(sent.document, path.kind)
        note_warnings(request, sent.warnings)
        document = bodies.check_identity(without_system_fields(sent.document), path.kind, path.namespace, "")
        owned = field_owners.recorded(path.kind, None, document, manager(request), self._backend.clock.now())
        shown = await self._backend.writer.create(path.kind, owned, caller(request), dry_run=options.dry_run)
        response = written(self._backend, path.kind, shown, representation, sent=document, code=201)
        warn(response, [*sent.warnings, *owner_warnings(document)])
        return response

    async def update(self, request: Request, path: ResourcePath) -> Response:
        """Replace an object.

        Raises:
            StatusError: it cannot be read, is missing and cannot be created so, breaks a rule, or cannot be written.
        """
        options = write_options(request.query_params, "UpdateOptions")
        representation = self._backend.representation(request, path.kind)
        present = self._backend.store.get(path.object_id)
        known = path.kind.converted(present.document) if present is not None else None
        try:
            sent = await decoding.read_object(request, Expected.of(path.kind), options.field_validation, known=known)
        except StatusError as error:
            if error.code == _UNPROCESSABLE:  # by the definition of a custom resource, which comes later upstream
                self._backend.present(path)
            raise
        bodies.check_type(sent.document, path.kind)
        note_warnings(request, sent.warnings)
        document = bodies.check_identity(sent.document, path.kind, path.namespace, path.name)
        who, now = manager(request), self._backend.clock.now()
        change: list[Mapping[str, Any]] = []

        def replaced(shown: dict[str, Any]) -> dict[str, Any]:
            before = path.kind.converted(shown)
            change[:] = [before, document]
            return field_owners.recorded(path.kind, before, document, who, now)

        by, code = caller(request), 200
        if present is None and path.kind.definition.created_by_update:
            if uid := document["metadata"].get("uid"):
                why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
                raise conflict(path.kind.group, path.kind.plural, path.name, why)
            new = without_system_fields(document, "resourceVersion")
            new = field_owners.recorded(path.kind, None, new, who, now)
            shown = await self._backend.writer.create(path.kind, new, by, dry_run=options.dry_run)
            code = 201
        else:
            shown = await self._backend.writer.change(
                path.kind, path.object_id, replaced, "update", by, dry_run=options.dry_run
            )
        response = written(self._backend, path.kind, shown, representation, sent=document, code=code, change=change)
        warn(response, [*sent.warnings, *owner_warnings(document)])
        return response


def without_system_fields(document: dict[str, Any], *more: str) -> dict[str, Any]:
    """Return a new object without the fields of its metadata that only the server sets, and without others of them."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return document
    kept = {key: one for key, one in metadata.items() if key not in {*_OF_THE_SERVER, *more}}
    return {**document, "metadata": kept}


def written(
    backend: Backend,
    served: ServedKind,
    shown: ShownObject,
    representation: Representation,
    *,
    sent: Mapping[str, Any],
    code: int = 200,
    change: Sequence[Mapping[str, Any]] = (),
) -> Response:
    """Return the answer of a write: the object, and warnings about what of it has no effect.

    `sent` is the object or the patch that was sent. `change` has the object as it was shown before and as it is wanted.
    It is empty for a new object.
    """
    response = answers.answer(code, representation.one(served, shown), representation.media_type)
    kind, document = served.definition, shown.document
    warn(response, warnings(document, kind, backend.switches()))
    warn(response, kind.notes(document, sent, backend.store.tables))
    if change:
        before, wanted = change
        warn(response, kind.withheld(before, wanted, document))
    if origin_of(served.group, served.kind) in {Origin.CUSTOM, Origin.OWN}:
        warn(response, finalizer_warnings(sent))
    return response


def manager(request: Request) -> str:
    """Return the manager of the fields that a request sets."""
    return manager_of(request.query_params.get("fieldManager", ""), request.headers.get("user-agent", ""))


def caller(request: Request) -> Caller:
    """Return the writer: the user, and the program by `fieldManager`, else by the first word of its user agent."""
    agent = request.headers.get("user-agent", "").partition(" ")[0].partition("/")[0]
    actor = request.query_params.get("fieldManager", "") or agent or "anonymous"
    trace = request.headers.get("traceparent", "")
    shown = "".join(char if char.isprintable() else "?" for char in actor)[:_LONGEST_ACTOR]
    sender: User | None = request.state.sender
    return Caller(
        shown, trace if _TRACE.fullmatch(trace) else "", user_of(request), sender.name if sender is not None else ""
    )
