"""The subresources of objects: `scale`, `status`, `finalize`, and those that need running containers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.admission import field_owners
from moorage.apiserver.admission.status_reports import conditions_of, is_reported, odd_conditions, reports_in
from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.messages import answers, bodies, decoding
from moorage.apiserver.http.messages.answers import warn
from moorage.apiserver.http.messages.decoding import Expected
from moorage.apiserver.http.messages.negotiation import media_type
from moorage.apiserver.http.messages.options import WriteOptions, write_options
from moorage.apiserver.http.messages.representations import Representation
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.subresources import scale, tokens
from moorage.apiserver.http.subresources.pods import ORDERS, PodOrders
from moorage.apiserver.http.verbs import patches
from moorage.apiserver.http.verbs.patches import SentPatch
from moorage.apiserver.http.verbs.writing import caller, manager
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.namespace import FINALIZE, FINALIZERS, NamespaceKind
from moorage.apiserver.kinds.stored import TOKEN
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import StatusError, bad_request
from moorage.apiserver.machinery.patching.errors import PatchError
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.apiserver.writing.object_records import Caller
from moorage.decide.kubernetes.field_errors import invalid
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.workload_kinds import POD

_DECIDED: Final = "status: Moorage's services decide it, and what was sent was not taken over"
_SCALE: Final = Expected("autoscaling", "v1", scale.KIND)

Document = dict[str, Any]
Part = Callable[[Mapping[str, Any]], Document]
"""Returns the part of an object that a subresource shows."""


class Subresources:
    """Answers requests about parts of objects that are read and changed separately."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._orders = PodOrders(backend)

    async def handle(self, request: Request, path: ResourcePath) -> Response:
        """Answer one request."""
        if path.subresource in path.kind.definition.container_subresources:
            self._backend.present(path)
            raise _no_containers(path)
        if path.subresource in ORDERS:
            return await self._orders.handle(request, path)
        if path.subresource == TOKEN:
            return await tokens.request_token(self._backend, request, path)
        if path.subresource == FINALIZE:
            return await finalize(self._backend, request, path)
        return await self._on_part(request, path)

    async def _on_part(self, request: Request, path: ResourcePath) -> Response:
        """Read or write the scale or the status of an object."""
        method = request.method
        representation = self._backend.representation(request, path.kind)
        if method == "GET":
            return self._answer(path, representation, self._backend.present(path))
        if method not in {"PUT", "PATCH"}:
            raise paths.not_allowed()
        is_apply = method == "PATCH" and media_type(request) == patches.APPLY
        options_kind = "UpdateOptions" if method == "PUT" else "PatchOptions"
        options = write_options(request.query_params, options_kind, is_apply=is_apply)
        is_scale, warnings = path.subresource == "scale", list[str]()
        how = patches.Apply(manager(request), self._backend.clock.now(), options.force, warnings)
        make = await self._read(request, path, options, how)
        seen: list[tuple[Document, Document]] = []

        def changed(shown: Document) -> Document:
            shown = dict(path.kind.converted(shown))
            new = make(shown)
            seen.append((shown, new))
            if not is_scale:
                warnings.extend(odd_conditions(path.kind, new))
            if not (is_scale or path.kind.definition.status_declared or is_reported(path.kind)):
                warnings.append(_DECIDED)
                return {**new, "status": shown.get("status") or {}}
            if is_apply:
                return new
            return field_owners.recorded(path.kind, shown, new, how.manager, how.now, subresource=path.subresource)

        by, dry_run = caller(request), options.dry_run
        verb = f"{'update' if method == 'PUT' else 'patch'}/{path.subresource}"
        if path.kind.kind == POD:
            after = await write_pod(self._backend, path, changed, by, dry_run=dry_run)
        else:
            after = await self._backend.writer.change(path.kind, path.object_id, changed, verb, by, dry_run=dry_run)
            if not is_scale and not dry_run and is_reported(path.kind):
                after = await report_status(self._backend, path, *seen[-1], by)
        response = self._answer(path, representation, after)
        warn(response, dict.fromkeys(warnings))
        return response

    async def _read(
        self, request: Request, path: ResourcePath, options: WriteOptions, how: patches.Apply
    ) -> Callable[[Document], Document]:
        """Read the body of a write. Returns what makes the object that is wanted of the one that is shown."""
        is_scale, validation = path.subresource == "scale", options.field_validation
        show: Part = scale.scale_of if is_scale else dict
        expected = _SCALE if is_scale else Expected.of(path.kind)

        def with_part(shown: Document, part: Document) -> Document:
            return scale.scaled(shown, part, path.name) if is_scale else self._with_status(path, shown, part)

        if request.method == "PUT":
            known = show(path.kind.converted(self._backend.present(path).document))
            sent = await decoding.read_object(request, expected, validation, known=known, subresource=path.subresource)
            how.warnings.extend(sent.warnings)
            return lambda shown: with_part(shown, sent.document)
        patch = await patches.read_patch(request, expected, validation, takes_apply=True, subresource=path.subresource)
        if patch.media == patches.APPLY:
            return lambda shown: (_scale_applied if is_scale else self._status_applied)(path, patch, shown, how)
        return lambda shown: with_part(shown, patch.made_of(show(shown), how.warnings))

    @staticmethod
    def _answer(path: ResourcePath, representation: Representation, shown: ShownObject) -> Response:
        if path.subresource == "scale":
            content = representation.viewed(scale.SERVED, scale.scale_of(path.kind.converted(shown.document)))
        else:
            content = representation.one(path.kind, shown)
        return answers.answer(200, content, representation.media_type)

    @staticmethod
    def _with_status(path: ResourcePath, shown: Document, part: Document) -> Document:
        wanted = bodies.check_identity(part, path.kind, path.namespace, path.name)
        metadata = {**shown["metadata"], "resourceVersion": wanted["metadata"].get("resourceVersion", "")}
        metadata["uid"] = wanted["metadata"].get("uid") or metadata.get("uid", "")
        return {**shown, "metadata": metadata, "status": wanted.get("status") or {}}

    @classmethod
    def _status_applied(cls, path: ResourcePath, patch: SentPatch, shown: Document, how: patches.Apply) -> Document:
        result = patches.applied(path, patch, shown, how)
        new = cls._with_status(path, shown, result)
        return {**new, "metadata": {**new["metadata"], **_owners(result)}}


def _owners(document: Document) -> Document:
    """Return the owners of a document's fields, as a part of its metadata."""
    return {name: value for name, value in document["metadata"].items() if name == "managedFields"}


def _scale_applied(path: ResourcePath, patch: SentPatch, shown: Document, how: patches.Apply) -> Document:
    """Return an object after its scale was applied. Who applies it owns the object's `spec.replicas`."""
    said = patch.content.get("apiVersion"), patch.content.get("kind")
    if said != (scale.API_VERSION, scale.KIND):
        raise bad_request(f"invalid object type: {said[0] or ''}, Kind={said[1] or ''}")
    sent = patch.decoded(patch.content, {}, how.warnings)
    checked = scale.scaled(shown, sent, path.name)
    replicas = {name: value for name, value in (sent.get("spec") or {}).items() if name == "replicas"}
    metadata = {name: shown["metadata"][name] for name in ("name", "namespace") if name in shown["metadata"]}
    config: Document = {"apiVersion": path.kind.api_version, "kind": path.kind.kind, "metadata": metadata}
    if replicas:
        config["spec"] = replicas
    management = field_owners.management(path.kind, path.subresource)
    try:
        result = management.applied(shown, config, how.manager, how.now, force=how.force)
    except PatchError as error:
        raise patches.status_of(error, lambda text: text.replace(path.kind.api_version, scale.API_VERSION)) from None
    return {**checked, "spec": result["spec"], "metadata": {**checked["metadata"], **_owners(result)}}


def _no_containers(path: ResourcePath) -> StatusError:
    """501: the request needs a container that runs, or the way to a cluster."""
    why = "decides where work may run, and runs no containers itself"
    if path.kind.kind == TargetKind.CLUSTER:
        why = "decides on clusters, and has no connection to them"
    return StatusError(501, f"{path.kind.plural}/{path.subresource} is not possible: Moorage {why}")


class _Finalized(NamespaceKind):
    """A namespace whose `spec.finalizers` are written."""

    def changed(self, wanted: Document, shown: Mapping[str, Any]) -> Document:  # noqa: ARG002 - an override
        """Return the namespace with an empty list if it has no finalizers, because the default is the standard ones."""
        return {**wanted, "spec": {"finalizers": [], **(wanted.get("spec") or {})}}


_KIND: Final = _Finalized()


async def finalize(backend: Backend, request: Request, path: ResourcePath) -> Response:
    """Replace the finalizers in the `spec` of a namespace. One that is being deleted goes with the last of them.

    Raises:
        StatusError: 404 if there is no such namespace, 409 if it is another one or has changed, 422 if a finalizer has
            no valid name.
    """
    paths.check_method(request, "PUT")
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


_SHOWN_WITHIN: Final = 1.0  # seconds for which the answer waits for the report to be accepted


async def report_status(
    backend: Backend, path: ResourcePath, shown: Mapping[str, Any], wanted: Mapping[str, Any], caller: Caller
) -> ShownObject:
    """Report the conditions in a status that was written. Returns the object as it is shown after that.

    Raises:
        StatusError: a condition is invalid, or nothing can be written now.
    """
    now = backend.clock.now()
    cluster = backend.store.cluster
    found = reports_in(path.object_id, shown, wanted, source=caller.actor, now=now, cluster=cluster)
    if found:
        await backend.writer.report(found, caller)
        said = {one.type: one.status.value for one in found}

        def accepted() -> bool:
            present = backend.store.get(path.object_id)
            if present is None:
                return True
            known = conditions_of(present.document)
            return all(known.get(name, {}).get("status") == status for name, status in said.items())

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SHOWN_WITHIN):
                while not accepted():
                    await backend.store.history.wait()
    return backend.present(path)


async def write_pod(
    backend: Backend, path: ResourcePath, change: Callable[[Document], Document], caller: Caller, *, dry_run: bool
) -> ShownObject:
    """Write the status of a pod, also of one that a controller makes. Nothing but its conditions counts.

    Raises:
        StatusError: 404 if there is no such pod, 409 if it is not the expected one, and as `report`.
    """
    present = backend.present(path)
    shown = present.document
    wanted = change(dict(shown))
    metadata = wanted["metadata"]
    if metadata.get("uid") not in {None, "", shown["metadata"].get("uid")}:
        raise api_errors.conflict("", path.kind.plural, path.name)
    if metadata.get("resourceVersion") not in {None, "", str(present.version)}:
        raise api_errors.conflict("", path.kind.plural, path.name)
    return present if dry_run else await report_status(backend, path, shown, wanted, caller)
