"""The subresources of objects: `scale` and `status`, and those that need running containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.gateway.admission.status_reports import is_reported
from moorage.gateway.errors import StatusError
from moorage.gateway.http import answers, bodies, decoding, field_owners, patches, paths, scale, written_status
from moorage.gateway.http.backend import Backend
from moorage.gateway.http.decoding import Expected
from moorage.gateway.http.options import write_options
from moorage.gateway.http.paths import ResourcePath
from moorage.gateway.http.pod_subresources import ORDERS, PodOrders
from moorage.gateway.http.representations import Representation
from moorage.gateway.http.writing import caller, manager, warn
from moorage.gateway.shown_objects import ShownObject
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.workload_kinds import POD

_DECIDED: Final = "status: Moorage's services decide it, and what was sent was not taken over"
_SCALE: Final = Expected("autoscaling", "v1", scale.KIND)

Document = dict[str, Any]
Part = Callable[[Mapping[str, Any]], Document]
"""Returns the part of an object that a subresource shows."""


class Subresources:
    """Answers requests about parts of objects that are read and changed separately.

    Args:
        backend: the objects.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._orders = PodOrders(backend)

    async def handle(self, request: Request, path: ResourcePath) -> Response:
        """Answer one request.

        Raises:
            StatusError: the request fails.
        """
        if path.subresource in path.kind.definition.container_subresources:
            self._backend.present(path)
            raise _no_containers(path)
        if path.subresource in ORDERS:
            return await self._orders.handle(request, path)
        method = request.method
        show: Part = scale.scale_of if path.subresource == "scale" else dict
        representation = self._backend.representation(request, path.kind)
        if method == "GET":
            return self._answer(path, representation, self._backend.present(path))
        if method not in {"PUT", "PATCH"}:
            raise paths.not_allowed()
        options = write_options(request.query_params, "UpdateOptions" if method == "PUT" else "PatchOptions")
        is_scale, warnings = path.subresource == "scale", list[str]()
        expected = _SCALE if is_scale else Expected.of(path.kind)
        if method == "PUT":
            present = path.kind.converted(self._backend.present(path).document)
            sent = await decoding.read_object(
                request, expected, options.field_validation, known=show(present), subresource=path.subresource
            )
            warnings += sent.warnings
            replaced, patch = sent.document, None
        else:
            replaced, patch = (
                {},
                await patches.read_patch(request, expected, options.field_validation, subresource=path.subresource),
            )

        seen: list[tuple[Document, Document]] = []
        who, now = manager(request), self._backend.clock.now()

        def changed(shown: Document) -> Document:
            shown = dict(path.kind.converted(shown))
            part = replaced if patch is None else patch.made_of(show(shown), warnings)
            new = scale.scaled(shown, part, path.name) if is_scale else self._with_status(path, shown, part)
            seen.append((shown, new))
            if not (is_scale or path.kind.definition.status_declared or is_reported(path.kind)):
                warnings.append(_DECIDED)
                return {**new, "status": shown.get("status") or {}}
            return field_owners.recorded(path.kind, shown, new, who, now, subresource=path.subresource)

        by, dry_run = caller(request), options.dry_run
        verb = f"{'update' if method == 'PUT' else 'patch'}/{path.subresource}"
        if path.kind.kind == POD:
            after = await written_status.write_pod(self._backend, path, changed, by, dry_run=dry_run)
        else:
            after = await self._backend.writer.change(path.kind, path.object_id, changed, verb, by, dry_run=dry_run)
            if not is_scale and not dry_run and is_reported(path.kind):
                after = await written_status.report(self._backend, path, *seen[-1], by)
        response = self._answer(path, representation, after)
        warn(response, dict.fromkeys(warnings))
        return response

    @staticmethod
    def _answer(path: ResourcePath, representation: Representation, shown: ShownObject) -> Response:
        if path.subresource == "scale":
            content = representation.part(scale.scale_of(path.kind.converted(shown.document)), scale.COLUMNS)
        else:
            content = representation.one(path.kind, shown)
        return answers.answer(200, content, representation.media_type)

    @staticmethod
    def _with_status(path: ResourcePath, shown: Document, part: Document) -> Document:
        wanted = bodies.check_identity(part, path.kind, path.namespace, path.name)
        metadata = {**shown["metadata"], "resourceVersion": wanted["metadata"].get("resourceVersion", "")}
        metadata["uid"] = wanted["metadata"].get("uid") or metadata.get("uid", "")
        return {**shown, "metadata": metadata, "status": wanted.get("status") or {}}


def _no_containers(path: ResourcePath) -> StatusError:
    """501: what was asked for needs a container that runs, or the way to a cluster."""
    why = "decides where work may run, and runs no containers itself"
    if path.kind.kind == TargetKind.CLUSTER:
        why = "decides on clusters, and has no connection to them"
    return StatusError(501, f"{path.kind.plural}/{path.subresource} is not possible: Moorage {why}")
