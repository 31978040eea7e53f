"""Objects of any kind, with the columns and the description that the command line shows, and the search by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import yaml
from typing_extensions import override

from moorage.console.api import TABLE
from moorage.console.host import PageError, RelatedReader
from moorage.console.kinds import EVENT, EVICTION, TARGETS, ApiKind, ObjectName
from moorage.console.pages import audit, fleet, shared
from moorage.console.views import ConsolePage, Content, PageView
from moorage.decide.kubernetes.object_texts import Object
from moorage.decide.kubernetes.unstructured import at

FOUND: Final = 20
"""Names of each kind that a search shows."""

SHORTEST: Final = 2
"""The least characters that are searched for."""

MOST_RELATED: Final = 2_000
"""The most objects of a kind that a description reads. More would delay other requests."""

_HIDDEN: Final = frozenset({"Secret"})
"""The kinds whose objects are described, and not shown as they are."""

_NO_NAMESPACE: Final = "-"
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """An object in a list."""

    object_id: ObjectName
    shown_name: str
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class ObjectTable:
    """Objects of one kind, with the columns of the API's tables."""

    kind: ApiKind
    titles: Sequence[str]
    rows: Sequence[ObjectRow]


async def table(view: PageView, kind: str, ids: Sequence[ObjectName]) -> ObjectTable:
    """Return the objects of a kind that have these names."""
    definition = view.kinds.named(kind)
    titles: list[str] = []
    rows = []
    for one in ids:
        answer = await view.reader.api.call("GET", definition.path(one.namespace, one.name), accept=TABLE)
        await asyncio.sleep(0)
        if answer.code == _NOT_FOUND:
            continue
        answer.check()
        columns = answer.document["columnDefinitions"]
        shown = [n for n, column in enumerate(columns) if not column["priority"] and column["format"] != "name"]
        titles = [str(columns[n]["name"]).capitalize() for n in shown]
        cells = answer.document["rows"][0]["cells"]
        rows.append(ObjectRow(one, definition.shown_name(one.name), [_cell(cells[n]) for n in shown]))
    return ObjectTable(definition, titles, rows)


def _cell(value: Any) -> str:
    """Return the text of a cell of a table."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


async def index(view: PageView) -> Content:
    """`/console/objects`: the kinds of which there are objects that the user may list, with their numbers."""
    rows = []
    for definition in view.kinds.watched:
        names = await shared.visible_names(view, definition.kind)
        if names is not None and names.total:
            rows.append((definition, names.total))
        await asyncio.sleep(0)
    return Content("objects/index.html", context={"rows": rows})


async def listed(view: PageView) -> Content:
    """`/console/objects/{plural}`: the objects of a kind."""
    definition = view.kinds.of_plural(view.param("plural"))
    names = await shared.visible_names(view, definition.kind)
    chosen = await names.containing(view.query.get("name", "")) if names is not None else None
    page = chosen.page(view) if chosen is not None else shared.Paged((), 0, 1, 1)
    return Content(
        "objects/list.html",
        {"rows": "objects/rows.html"},
        {
            "definition": definition,
            "page": page,
            "table": await table(view, definition.kind, page.rows),
            "denied": names is None,
        },
        (definition.kind,),
    )


async def one(view: PageView) -> Content:
    """`/console/objects/{plural}/{namespace}/{name}`: an object with the description of `moorage describe`."""
    definition = view.kinds.of_plural(view.param("plural"))
    namespace, name = view.param("namespace"), view.param("name")
    namespace = "" if namespace == _NO_NAMESPACE else namespace
    await view.rights.check("get", definition.kind, namespace, name)
    found = await view.reader.get(definition.kind, namespace, name)
    if found is None:
        raise PageError(404, f'{definition.plural} "{name}" not found')
    await view.fleet.refresh()
    related = _RelatedObjects(view)
    sections = await related.description(definition.kind, found)
    return Content(
        "objects/one.html",
        {"description": "objects/description.html", "events": "events.html", "audit": "audit/about.html"},
        {
            "definition": definition,
            "namespace": namespace,
            "name": name,
            "shown_name": definition.shown_name(name),
            "labels": sorted((at(found, "metadata", "labels") or {}).items()),
            "sections": sections,
            "denied": sorted(related.denied),
            "yaml": "" if definition.kind in _HIDDEN else _yaml(found),
            "created": at(found, "metadata", "creationTimestamp") or "",
            "events": await shared.events_about(
                view, definition.kind, namespace, name, str(at(found, "metadata", "uid") or "")
            ),
            "audit": None if definition.read_only else await audit.about(view, definition.kind, namespace, name),
        },
        (definition.kind, EVICTION, EVENT),
    )


def _grouped(sections: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Sections as the templates read them: what each is, and its fields, with a name that is not indented."""
    for section in sections:
        yield type(section).__name__, {**section._asdict(), "name": section.name.strip()}


def _yaml(found: Object) -> str:
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    return yaml.safe_dump({**found, "metadata": metadata}, sort_keys=False, allow_unicode=True, width=110)


class _List(NamedTuple):
    """A question for objects of a kind."""

    kind: str
    namespace: str | None
    selector: str


class _RelatedObjects(RelatedReader):
    """The objects that belong to one, as far as the user may see them.

    A description reads them one after the other, and cannot wait for the API. So it is made again with what it has
    missed, until it misses nothing.
    """

    def __init__(self, view: PageView) -> None:
        self._view = view
        self._lists: dict[_List, Sequence[Object]] = {}
        self._objects: dict[ObjectName, Object | None] = {}
        self._missed: set[_List | ObjectName] = set()
        self.denied: set[str] = set()
        """The plurals of the kinds that the user may not list."""

    async def description(self, kind: str, found: Object) -> list[tuple[str, Any]]:
        """Return the sections of a description."""
        while True:
            sections = list(_grouped(self._view.describe(kind, {"kind": kind, **found}, self, self._view.now)))
            if not self._missed:
                return sections
            for one in self._missed:
                if isinstance(one, _List):
                    self._lists[one] = await self._listed(one)
                else:
                    self._objects[one] = await shared.document_of(self._view, *one)
            self._missed.clear()

    @override
    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> Sequence[Object]:
        asked = _List(kind, namespace, selector)
        if asked not in self._lists:
            self._missed.add(asked)
        return self._lists.get(asked, ())

    @override
    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        asked = ObjectName(kind, namespace, name)
        if asked not in self._objects:
            self._missed.add(asked)
        return self._objects.get(asked)

    async def _listed(self, asked: _List) -> Sequence[Object]:
        view, kind, namespace = self._view, asked.kind, asked.namespace or ""
        names = await shared.visible_names(view, kind, namespace)
        if names is None:
            self.denied.add(view.kinds.named(kind).plural)
            return ()
        if kind == EVICTION:  # those that have ended are many, and no description shows them
            rows = await fleet.visible_evictions(view) or ()
            ids = sorted(row.object_id for row in rows if namespace in {"", row.object_id.namespace})[:MOST_RELATED]
            return await shared.documents(view, ids)
        options = {"limit": str(MOST_RELATED), **({"labelSelector": asked.selector} if asked.selector else {})}
        if await view.rights.sees(kind, namespace):
            return await view.reader.all(kind, namespace, **options)
        return await shared.documents(view, names.first(MOST_RELATED))


async def search(view: PageView) -> Content:
    """`/console/search`: objects of all kinds whose names contain a text."""
    sought = view.query.get("q", "").strip().lower()
    found = []
    if len(sought) >= SHORTEST:
        for definition in view.kinds.watched:
            names = await shared.visible_names(view, definition.kind)
            if names is not None:
                chosen = await names.which(lambda _, name: sought in name.lower())
                if chosen.total:
                    found.append((definition, chosen.first(FOUND), chosen.total))
    found.sort(key=lambda group: (_rank(group[0]), group[0].order))
    return Content("search.html", context={"sought": sought, "found": found, "shortest": SHORTEST})


def _rank(definition: ApiKind) -> int:
    """Targets first, then what people declare, then what follows from it."""
    return 0 if definition.kind in TARGETS else 1 if not definition.read_only else 2


PAGES: Final = (
    ConsolePage("/console/search", search),
    ConsolePage("/console/objects", index),
    ConsolePage("/console/objects/{plural}", listed),
    ConsolePage("/console/objects/{plural}/{namespace}/{name}", one),
)
