"""Writes of objects that only the system writes: nothing is stored, and objects that equal the decision are accepted.

If such an object equals the system's decision it is accepted, so that files from an API or a manual can be
applied. Otherwise it is refused, and the error names the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.messages import answers, bodies, decoding
from moorage.apiserver.http.messages.answers import warn
from moorage.apiserver.http.messages.decoding import Expected
from moorage.apiserver.http.messages.negotiation import media_type
from moorage.apiserver.http.messages.options import write_options
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs import patches
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.decide.kubernetes.field_errors import invalid, required
from moorage.decide.kubernetes.unstructured import part
from moorage_schemas.resources.names import PLACEMENT_LABEL


class RepeatVerbs:
    """Answers requests that write such objects."""

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
        shown = already_decided(wanted, path.kind, list(self._backend.store.all(path.kind.kind, path.namespace)))
        response = answers.answer(200, representation.one(path.kind, shown), representation.media_type)
        warn(response, [NOT_STORED])
        return response

    async def _patched(self, request: Request, path: ResourcePath) -> dict[str, Any]:
        """Return the object that a patch or a server-side apply makes."""
        is_apply = media_type(request) == patches.APPLY
        options = write_options(request.query_params, "PatchOptions", is_apply=is_apply)
        sent = await patches.read_patch(request, Expected.of(path.kind), options.field_validation, takes_apply=True)
        if is_apply:
            metadata = sent.content.get("metadata")
            return {**sent.content, "metadata": {"name": path.name, **(metadata if isinstance(metadata, dict) else {})}}
        return sent.made_of(dict(path.kind.converted(self._backend.present(path).document)), [])


NOT_STORED: Final = "only Moorage writes PlacementDecisions: this one equals the present decision and was not stored"
_LABEL: Final = f"metadata.labels[{PLACEMENT_LABEL}]"
_CLUSTERS: Final = "status.decisions"
_SHOWN: Final = 10  # the maximum number of names in a message


def already_decided(document: Mapping[str, Any], kind: ServedKind, present: Sequence[ShownObject]) -> ShownObject:
    """Return the system's decision that equals the applied one.

    If a decision of the same name exists, only that one is compared. Otherwise all decisions of the placement that the
    label names are compared, because other systems generate the names of such objects. The uid of the owner is ignored,
    because it is different in each system. `present` are the decisions of its namespace.

    Raises:
        StatusError: 422 if it differs, or does not name its placement.
    """
    metadata = part(document, "metadata")
    name = str(metadata.get("name") or "")
    placement = part(metadata, "labels").get(PLACEMENT_LABEL)
    if not isinstance(placement, str) or not placement:
        rule = (
            "must name the placement: only the present decision can be applied, because only Moorage writes decisions"
        )
        raise api_errors.invalid(kind.group, kind.kind, name, [required(_LABEL, rule)])
    of_all = [(shown, shown.document) for shown in present]
    own = [pair for pair in of_all if part(pair[1]["metadata"], "labels").get(PLACEMENT_LABEL) == placement]
    if not own:
        rule = "there are no decisions of a placement with this name, and only Moorage writes them"
        raise api_errors.invalid(kind.group, kind.kind, name, [invalid(_LABEL, placement, rule)])
    meant = [pair for pair in own if pair[1]["metadata"]["name"] == name] or own
    said, decided = _clusters([document]), _clusters([found for _, found in meant])
    if said != decided:
        rule = f"must be what Moorage has decided, because only Moorage writes decisions: {_names(decided)}"
        raise api_errors.invalid(kind.group, kind.kind, name, [invalid(_CLUSTERS, sorted(said)[:_SHOWN], rule)])
    return meant[0][0]


def _clusters(documents: Sequence[Mapping[str, Any]]) -> set[str]:
    decisions = [part(document, "status").get("decisions") for document in documents]
    return {
        str(one.get("clusterName"))
        for found in decisions
        if isinstance(found, list)
        for one in found
        if isinstance(one, Mapping)
    }


def _names(names: set[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"placement selects {', '.join(found[:_SHOWN])}{more}" if found else "placement selects no cluster"
