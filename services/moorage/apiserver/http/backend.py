"""The parts that the verbs work with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from moorage.apiserver.http.filters.access import Access
from moorage.apiserver.http.filters.limits import OpenWatches
from moorage.apiserver.http.messages import tables
from moorage.apiserver.http.messages.negotiation import JSON, PROTOBUF, YAML, ObjectView, accepted
from moorage.apiserver.http.messages.representations import Representation
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.openapi import registry
from moorage.apiserver.metrics import Metrics
from moorage.apiserver.rules.feature_gates import FeatureGates
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.apiserver.storage.store import FleetObjects
from moorage.apiserver.writing.writer import Writer
from moorage.runtime.process.clock import Clock

ONE: Final = (ObjectView.WHOLE, ObjectView.TABLE, ObjectView.METADATA, ObjectView.METADATA_LIST)
"""The views that a request may name. One that does not fit the answer is refused with words of its own."""


@dataclass(frozen=True)
class Backend:
    """The present objects of a fleet, the way to write them, what is switched on, and who may do what."""

    store: FleetObjects
    writer: Writer
    metrics: Metrics
    clock: Clock
    switches: Callable[[], FeatureGates]
    access: Access
    watches: OpenWatches

    def representation(self, request: Request, kind: ServedKind, views: Iterable[ObjectView] = ONE) -> Representation:
        """Return the form in which a request gets objects of a kind.

        Raises:
            StatusError: 406 if none of the accepted forms can be sent.
        """
        form = accepted(request, media_of(kind), views)
        return Representation(form, tables.included(request.query_params.get("includeObject", "")), self.clock.now)

    def present(self, path: ResourcePath) -> ShownObject:
        """Return the object that a path names. Raises StatusError: 404 if there is none."""
        shown = self.store.get(path.object_id)
        if shown is None:
            raise api_errors.not_found(path.kind.group, path.kind.plural, path.name)
        return shown


def media_of(kind: ServedKind) -> tuple[str, ...]:
    """Return the media types in which objects of a kind can be sent, the default first."""
    return (JSON, YAML, PROTOBUF) if registry.origin_of(kind.group, kind.kind).has_protobuf else (JSON, YAML)
