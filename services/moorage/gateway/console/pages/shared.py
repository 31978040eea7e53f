"""What several pages show: objects that the user may see, and the Events about one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from moorage.core.apimachinery.unstructured import at
from moorage.gateway.console.fleet_index import MANAGED_CLUSTER
from moorage.gateway.console.views import PageView
from moorage.kinds.event import last_seen
from moorage.kinds.printing.columns import Object
from moorage.kinds.status.records import ObjectId
from moorage_schemas.refs import WorkloadRef

EVENT: Final = "Event"
EVENTS_SHOWN: Final = 40
PAGE_SIZE: Final = 100

_ELSEWHERE: Final = "default"
"""The namespace of events about objects that have none."""


@dataclass(frozen=True, slots=True)
class Paged:
    """One page of rows."""

    rows: Sequence[Any]
    total: int
    number: int
    last: int
    """The number of the last page."""


def paged(view: PageView, rows: Sequence[Any], size: int = PAGE_SIZE) -> Paged:
    """The page of rows that the address names (`page`), the first one without it."""
    text = view.query.get("page", "")
    last = max(1, -(-len(rows) // size))
    number = min(last, max(1, int(text))) if text.isascii() and text.isdecimal() and len(text) < len("1000000") else 1
    return Paged(rows[(number - 1) * size : number * size], len(rows), number, last)


def document_of(view: PageView, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
    """An object. None if there is none, or the user may not get it."""
    shown = view.store.get(ObjectId(kind, namespace, name))
    if shown is None or not view.rights.may("get", kind, namespace, name):
        return None
    return shown.document


def visible_ids(view: PageView, kind: str, namespace: str = "") -> list[ObjectId] | None:
    """What names the objects of a kind that the user may list, in no order. None if that is none anywhere."""
    ids = view.store.ids(kind, namespace)
    if view.rights.may("list", kind) or (namespace and view.rights.may("list", kind, namespace)):
        return ids
    if kind == MANAGED_CLUSTER:
        shown = [(one, view.store.get(one)) for one in ids]
        seen = [one for one, found in shown if found and view.rights.sees_cluster(found.document["metadata"])]
    else:
        seen = [one for one in ids if one.namespace and view.rights.may("list", kind, one.namespace)]
    return seen or None


def objects_of(view: PageView, kind: str, ids: Iterable[ObjectId]) -> list[dict[str, Any]] | None:
    """Those objects of a kind that the user may list, in order. None if the user may list none anywhere."""
    everywhere = view.rights.may("list", kind)
    found, seen = [], everywhere
    for object_id in sorted(ids):
        if everywhere or view.rights.sees(kind, object_id.namespace):
            seen = True
            shown = view.store.get(object_id)
            if shown is not None:
                found.append(shown.document)
    return found if seen else None


def events_about(view: PageView, kind: str, namespace: str, name: str, uid: str) -> dict[str, Any]:
    """The Events about an object, the newest first."""
    place = namespace or _ELSEWHERE
    if not view.rights.may("list", EVENT, place):
        return {"denied": True, "rows": []}
    sought, found = orjson.dumps(name), []
    for shown in view.store.all(EVENT, place):
        json = shown.unversioned
        if sought in json:
            event = orjson.loads(json)
            about = at(event, "involvedObject") or {}
            # Events about nodes name them by their name instead of their uid, as Kubernetes' do.
            if (about.get("kind"), about.get("name")) == (kind, name) and about.get("uid") in {None, "", uid, name}:
                found.append(event)
    found.sort(key=lambda event: last_seen(event) or "", reverse=True)
    return {"denied": False, "rows": [_event(one) for one in found[:EVENTS_SHOWN]]}


def _event(event: Object) -> dict[str, Any]:
    return {
        "time": last_seen(event) or "",
        "type": str(event.get("type") or ""),
        "reason": str(event.get("reason") or ""),
        "count": int(at(event, "series", "count") or event.get("count") or 1),
        "message": str(event.get("message") or "").strip(),
        "source": str(at(event, "source", "component") or event.get("reportingComponent") or ""),
    }


def workload_of(reference: Object) -> tuple[str, str, str]:
    """Kind, namespace and name of a workload that an object names."""
    found = WorkloadRef.model_validate(dict(reference))
    return found.kind, found.namespace, found.name
