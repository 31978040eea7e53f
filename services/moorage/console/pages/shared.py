"""Parts of several pages: objects that the user may see, and the Events about one."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from moorage.console.api import EXPLAIN
from moorage.console.fleet_index import EvictionRow
from moorage.console.kinds import EVENT, MANAGED_CLUSTER, ObjectName
from moorage.console.pictures.gantt import MOST, EvictionSpan, gantt
from moorage.console.views import PageView
from moorage.decide.kubernetes.object_texts import Object, last_seen
from moorage.decide.kubernetes.unstructured import at
from moorage_schemas.refs import WorkloadRef
from moorage_schemas.resources.names import DEFAULT_NAMESPACE
from moorage_schemas.times import parse_time

EVENTS_SHOWN: Final = 40
PAGE_SIZE: Final = 100
AT_ONCE: Final = 10_000
"""Names that are looked at before others get the processor."""

_READ_AT_ONCE: Final = 10
"""The same for objects that are read."""

_SORTED_WHOLE: Final = 20
"""All names are sorted if more than one in so many is wanted."""


@dataclass(frozen=True, slots=True)
class Paged:
    """One page of rows."""

    rows: Sequence[Any]
    total: int
    number: int
    last: int
    """The number of the last page."""


def paged(view: PageView, rows: Sequence[Any], size: int = PAGE_SIZE) -> Paged:
    """Return the page of rows that the address names (`page`), the first one without it."""
    number, last = _page_number(view, len(rows), size)
    return Paged(rows[(number - 1) * size : number * size], len(rows), number, last)


def _page_number(view: PageView, total: int, size: int) -> tuple[int, int]:
    """Return the number of the page that the address names, and that of the last page."""
    text = view.query.get("page", "")
    last = max(1, -(-total // size))
    given = int(text) if text.isascii() and text.isdecimal() and len(text) < len("1000000") else 1
    return min(last, max(1, given)), last


class ObjectNames:
    """Names of objects of one kind. A fleet has more objects than can be read for a page, but not more names."""

    def __init__(self, kind: str, by_namespace: Mapping[str, Sequence[str]]) -> None:
        self.kind = kind
        self._by_namespace = by_namespace
        self.total = sum(len(names) for names in by_namespace.values())

    @property
    def namespaces(self) -> list[str]:
        """The namespaces that have some of them."""
        return sorted(self._by_namespace)

    async def which(self, fits: Callable[[str, str], bool]) -> ObjectNames:
        """Return those whose namespace and name fit. Others get the processor meanwhile."""
        found: dict[str, list[str]] = {}
        for place, names in self._by_namespace.items():
            chosen: list[str] = []
            for start in range(0, len(names), AT_ONCE):
                chosen += [name for name in names[start : start + AT_ONCE] if fits(place, name)]
                await asyncio.sleep(0)
            if chosen:
                found[place] = chosen
        return ObjectNames(self.kind, found)

    async def containing(self, sought: str) -> ObjectNames:
        """Return those with a text in namespace and name, whatever its case."""
        text = sought.lower()
        return await self.which(lambda place, name: text in f"{place}/{name}".lower()) if text else self

    def first(self, count: int, start: int = 0) -> list[ObjectName]:
        """Return some of them in order, beginning with the one of that number."""
        found: list[ObjectName] = []
        for place in sorted(self._by_namespace):
            names = self._by_namespace[place]
            if start >= len(names):
                start -= len(names)
                continue
            end = start + count - len(found)
            few = end * _SORTED_WHOLE < len(names)
            in_order = heapq.nsmallest(end, names) if few else sorted(names)
            found += [ObjectName(self.kind, place, name) for name in in_order[start:end]]
            start = 0
            if len(found) == count:
                break
        return found

    def page(self, view: PageView, size: int = PAGE_SIZE) -> Paged:
        """Return the page that the address names."""
        number, last = _page_number(view, self.total, size)
        return Paged(self.first(size, (number - 1) * size), self.total, number, last)


async def document_of(view: PageView, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
    """Return an object. None if it does not exist, or the user may not get it."""
    if not await view.rights.may("get", kind, namespace, name):
        return None
    return await view.reader.get(kind, namespace, name)


async def visible_names(view: PageView, kind: str, namespace: str = "") -> ObjectNames | None:
    """Return the names of the objects of a kind that the user may list. None if that is none anywhere."""
    every = await view.reader.names(kind)
    names = {place: list(own) for place, own in every.items() if namespace in {"", place}}
    if await view.rights.may("list", kind) or (namespace and await view.rights.may("list", kind, namespace)):
        return ObjectNames(kind, names)
    if kind == MANAGED_CLUSTER:
        seen = {place: [name for name in own if await _is_seen(view, name)] for place, own in names.items()}
    else:
        seen = {place: own for place, own in names.items() if place and await view.rights.may("list", kind, place)}
    found = ObjectNames(kind, seen)
    return found if found.total else None


async def _is_seen(view: PageView, cluster: str) -> bool:
    """Return whether the user may get a managed cluster."""
    found = await view.reader.get(MANAGED_CLUSTER, "", cluster)
    return found is not None and await view.rights.sees_managed(found["metadata"])


async def documents(view: PageView, ids: Iterable[ObjectName]) -> list[dict[str, Any]]:
    """Return the objects of these names, as far as they exist."""
    found = []
    for number, one in enumerate(ids, 1):
        document = await view.reader.get(*one)
        if document is not None:
            found.append(document)
        if number % _READ_AT_ONCE == 0:
            await asyncio.sleep(0)
    return found


async def events_about(view: PageView, kind: str, namespace: str, name: str, uid: str) -> dict[str, Any]:
    """Return the Events about an object, the newest first: `rows` for the templates, and all as they are (`found`)."""
    place = namespace or DEFAULT_NAMESPACE
    if not await view.rights.may("list", EVENT, place):
        return {"denied": True, "rows": [], "found": []}
    about = f"involvedObject.kind={kind},involvedObject.name={escaped(name)}"
    found = [
        event
        for event in await view.reader.all(EVENT, place, fieldSelector=about)
        # Events about nodes name them by their name instead of their uid, as Kubernetes' do.
        if at(event, "involvedObject", "uid") in {None, "", uid, name}
    ]
    found.sort(key=last_seen, reverse=True)
    return {"denied": False, "rows": [event_row(one) for one in found[:EVENTS_SHOWN]], "found": found}


def escaped(value: str) -> str:
    """Return a value as a field selector has it."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def event_row(event: Object) -> dict[str, Any]:
    """Return an Event as the templates read it."""
    return {
        "time": last_seen(event),
        "type": str(event.get("type") or ""),
        "reason": str(event.get("reason") or ""),
        "count": int(at(event, "series", "count") or event.get("count") or 1),
        "message": str(event.get("message") or "").strip(),
        "source": str(at(event, "source", "component") or event.get("reportingComponent") or ""),
    }


def eviction_picture(view: PageView, rows: Sequence[EvictionRow] | None) -> Markup:
    """Return the picture of evictions on a time axis. Empty if there are none."""
    if not rows:
        return Markup("")

    def when(text: str) -> datetime | None:
        return parse_time(text) if text else None

    spans = [
        EvictionSpan(
            workload=f"{row.workload[1]}/{row.workload[2]}",
            target=row.target[1],
            state=row.state,
            start=min(filter(None, (when(row.since), when(row.deadline))), default=view.now),
            due=when(row.deadline),
            ended=when(row.ended),
            requested=when(row.requested),
        )
        for row in rows[:MOST]
    ]
    return gantt(spans, view.now)


def workload_of(reference: Object) -> tuple[str, str, str]:
    """Return kind, namespace and name of a workload that an object names."""
    found = WorkloadRef.model_validate(dict(reference))
    return found.kind, found.namespace, found.name


async def explained(view: PageView, asked: Mapping[str, str]) -> tuple[dict[str, Any] | None, str]:
    """Return the query worker's explanation of an object, or None and the reason why it is missing.

    Raises:
        PageError: 404 if the object does not exist, 403 if the user may not have it explained.
    """
    query = {**asked, "all": "true" if view.query.get("all") else ""}
    answer = await view.api.call("GET", EXPLAIN, query={name: value for name, value in query.items() if value})
    if answer.code in {403, 404}:
        answer.check()
    if answer.failed:
        return None, answer.message
    return local_names(answer.document.get("explanation"), view.cluster), ""


def local_names(value: Any, cluster: str) -> Any:
    """Return an answer without the prefix of a cluster in its keys. The home fleet's has none."""
    return _local(value, f"{cluster}:") if cluster else value


def _local(value: Any, prefix: str) -> Any:
    if isinstance(value, str):
        return value.removeprefix(prefix) if "/" in value else value
    if isinstance(value, list):
        return [_local(one, prefix) for one in value]
    if isinstance(value, dict):
        return {key: _local(one, prefix) for key, one in value.items()}
    return value
