"""`customresourcedefinitions` (apiextensions.k8s.io/v1): kinds that are custom resources, for clients that look there.

kubectl looks for the definition of an unknown kind before it fails. They follow from the kinds that are
served: they cannot be changed, and are not stored.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import ONE, Backend
from moorage.apiserver.http.messages import answers, tables
from moorage.apiserver.http.messages.negotiation import accepted
from moorage.apiserver.http.messages.options import LONGEST_WATCH, ListOptions, list_options, resource_version
from moorage.apiserver.http.messages.representations import JsonEvents, ListHead
from moorage.apiserver.http.messages.selectors import Selector, selector
from moorage.apiserver.http.verbs import watch
from moorage.apiserver.http.verbs.reading import watched_media_of
from moorage.apiserver.kinds.kind import Kind, ServedKind, Untyped
from moorage.apiserver.kinds.printing.columns import Object, TableColumn, of, text
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.machinery.openapi.registry import Origin
from moorage.apiserver.machinery.served_kinds import served
from moorage.decide.kubernetes.unstructured import at

GROUP: Final = "apiextensions.k8s.io"
PLURAL: Final = "customresourcedefinitions"
_VERSION: Final = "v1"
_CATEGORY: Final = "api-extensions"
_UIDS: Final = uuid.UUID("5f0fdbd5-3f1e-4c6f-9d7d-6a2f7b0c9e11")

Document = dict[str, Any]


def _versions(found: Object) -> str:
    shown = (f"{one['name']}{'(storage)' if one['storage'] else ''}" for one in at(found, "spec", "versions") or ())
    return ",".join(shown)


class DefinitionKind(Untyped):
    """The definition of a custom resource. It is never declared."""

    group = GROUP
    kind = "CustomResourceDefinition"
    short_names = ("crd", "crds")
    namespaced = False
    columns = (
        TableColumn("Scope", text("spec", "scope")),
        TableColumn("Versions", of(_versions)),
        TableColumn("Created At", text("metadata", "creationTimestamp", default="<unknown>"), type="date"),
    )


SERVED: Final = ServedKind(DefinitionKind(), _VERSION)
CATEGORIES: Final = (_CATEGORY,)
VERBS: Final = ("get", "list", "watch")


def answer(request: Request, parts: Sequence[str], backend: Backend) -> Response | None:
    """Answer a request about definitions. None if its path names none.

    `parts` are those of its path, after the version.

    Raises:
        StatusError: 404 if there is no such definition, 405 if it does not only read.
    """
    plural, *rest = parts
    if plural != PLURAL or len(rest) > 1:
        return None
    paths.check_method(request, "GET", "HEAD")
    representation = backend.representation(request, SERVED)
    found = _definitions(served())
    if rest:
        if rest[0] not in found:
            raise api_errors.not_found(GROUP, PLURAL, rest[0])
        return answers.answer(200, representation.viewed(SERVED, found[rest[0]]), representation.media_type)
    options = list_options(request.query_params)
    selects = selector(options.labels, options.fields, SERVED.definition)
    chosen = [json for one in found.values() if selects.selects(json := orjson.dumps(one))]
    if options.is_watch:
        return _watched(request, options, chosen, backend)
    pieces = representation.listed(SERVED, ListHead(backend.store.version), chosen)
    return Response(b"".join(pieces), media_type=representation.media_type)


@dataclass(frozen=True, slots=True)
class _Definition:
    """A definition as an event shows it."""

    json: bytes


def _watched(request: Request, options: ListOptions, present: Sequence[bytes], backend: Backend) -> Response:
    """Return a watch of definitions. They never change, so it shows the present ones at most, and bookmarks.

    Raises:
        StatusError: as for watches of other kinds.
    """
    form = accepted(request, watched_media_of(SERVED), ONE)
    backend.watches.begin(request)
    version = resource_version(options.version)
    shows_present = options.initial_events if options.initial_events is not None else not version
    encoder = JsonEvents(form, tables.included(request.query_params.get("includeObject", "")), backend.clock.now)
    asked = watch.Watch(
        kind=SERVED,
        namespace="",
        selected=Selector(),
        version=version or backend.store.version,
        bookmarks=options.bookmarks,
        timeout=min(options.timeout or LONGEST_WATCH, LONGEST_WATCH),
        encoder=encoder,
    )
    number = watch.start(backend.store, asked)

    async def events() -> AsyncIterator[bytes]:
        with backend.metrics.watches.track_inprogress():
            if shows_present:
                for one in present:
                    yield encoder.event("ADDED", SERVED, _Definition(one))
                if options.bookmarks and options.initial_events:
                    yield watch.bookmark(backend.store.version, asked, watch.INITIAL_END)
            async for event in watch.events(backend.store, asked, number):
                yield event

    return StreamingResponse(events(), media_type=form.media)


@cache
def _definitions(kinds: tuple[ServedKind, ...]) -> dict[str, Document]:
    """Return the definitions by their names, in the order of these."""
    custom = dict.fromkeys(one.definition for one in kinds if _is_custom(one))
    found = [_definition(kind) for kind in custom]
    return {one["metadata"]["name"]: one for one in sorted(found, key=lambda one: str(one["metadata"]["name"]))}


def _is_custom(one: ServedKind) -> bool:
    return registry.origin_of(one.group, one.kind) in {Origin.CUSTOM, Origin.OWN}


def _definition(kind: Kind[Any]) -> Document:
    name = f"{kind.plural}.{kind.group}"
    names: Document = {
        "plural": kind.plural,
        "singular": kind.singular,
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    stored = kind.versions[0]
    whole = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "kind": SERVED.kind,
        "apiVersion": SERVED.api_version,
        "metadata": {"name": name, "uid": str(uuid.uuid5(_UIDS, name)), "resourceVersion": "1", "generation": 1},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                # The structure is in /openapi/v3, as that of every kind.
                {"name": one, "served": True, "storage": one == stored, "schema": {"openAPIV3Schema": whole}}
                for one in kind.versions
            ],
            "conversion": {"strategy": "None"},
        },
        "status": {
            "acceptedNames": names,
            "storedVersions": [stored],
            "conditions": [
                _condition("NamesAccepted", "NoConflicts"),
                _condition("Established", "InitialNamesAccepted"),
            ],
        },
    }


def _condition(name: str, reason: str) -> Document:
    return {"type": name, "status": "True", "reason": reason, "message": ""}
