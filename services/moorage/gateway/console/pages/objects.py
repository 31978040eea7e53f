"""Objects of any kind, with the columns and the description that the command line shows, and the search by name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from moorage.core.apimachinery.unstructured import at
from moorage.gateway.console.fleet_index import EVICTION, TARGETS
from moorage.gateway.console.pages import fleet, shared
from moorage.gateway.console.rights import kind_named
from moorage.gateway.console.views import ConsolePage, Content, PageView
from moorage.gateway.errors import StatusError
from moorage.gateway.http.messages.selectors import selector
from moorage.kinds import kind as kinds
from moorage.kinds.kind import Kind
from moorage.kinds.printing.columns import Object
from moorage.kinds.printing.sections import Heading, Section
from moorage.kinds.status.records import ObjectId

FOUND: Final = 20
"""Names of each kind that a search shows."""

SHORTEST: Final = 2
"""The least characters that are searched for."""

MOST_RELATED: Final = 2_000
"""The most objects of a kind that a description reads. More would hold up others, and nobody reads so many lines."""

_HIDDEN: Final = frozenset({"Secret"})
"""The kinds whose objects are described, and not shown as they are."""

_NO_NAMESPACE: Final = "-"


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """An object in a list."""

    object_id: ObjectId
    shown_name: str
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class ObjectTable:
    """Objects of one kind, with the columns of the command line."""

    kind: Kind[Any]
    titles: Sequence[str]
    rows: Sequence[ObjectRow]


def table(view: PageView, kind: str, ids: Sequence[ObjectId]) -> ObjectTable:
    """The objects of a kind that have these names."""
    definition = kind_named(kind)
    columns = [column for column in definition.columns if not column.wide]
    rows = []
    for one in ids:
        if (shown := view.store.get(one)) is not None:
            found = shown.document
            cells = [column.cell(found, view.now) for column in columns]
            rows.append(ObjectRow(one, definition.shown_name(one.name), cells))
    return ObjectTable(definition, [column.title.capitalize() for column in columns], rows)


async def index(view: PageView) -> Content:
    """`/console/objects`: the kinds of which there are objects that the user may list, with their numbers."""
    rows = []
    for definition in kinds.discovered():
        names = shared.visible_names(view, definition.kind)
        if names is not None and names.total:
            rows.append((definition, names.total))
        await asyncio.sleep(0)
    return Content("objects/index.html", context={"rows": rows})


async def listed(view: PageView) -> Content:
    """`/console/objects/{plural}`: the objects of a kind."""
    definition = _kind_at(view)
    names = shared.visible_names(view, definition.kind)
    chosen = await names.containing(view.query.get("name", "")) if names is not None else None
    page = chosen.page(view) if chosen is not None else shared.Paged((), 0, 1, 1)
    return Content(
        "objects/list.html",
        {"rows": "objects/rows.html"},
        {
            "definition": definition,
            "page": page,
            "table": table(view, definition.kind, page.rows),
            "denied": names is None,
        },
        (definition.kind,),
    )


def _kind_at(view: PageView) -> Kind[Any]:
    plural = view.param("plural")
    found = next((one for one in kinds.discovered() if one.plural == plural), None)
    if found is None:
        raise StatusError(404, f"the server doesn't have a resource type {plural[:63]!r}")
    return found


async def one(view: PageView) -> Content:
    """`/console/objects/{plural}/{namespace}/{name}`: what `moorage describe` says of an object, and the object."""
    definition = _kind_at(view)
    namespace, name = view.param("namespace"), view.param("name")
    namespace = "" if namespace == _NO_NAMESPACE else namespace
    view.rights.check("get", definition.kind, namespace, name)
    shown = view.store.get(ObjectId(definition.kind, namespace, name))
    if shown is None:
        raise StatusError(404, f'{definition.plural} "{name}" not found')
    await view.fleet.refresh()
    found = shown.document
    related = _RelatedObjects(view)
    sections = list(_grouped(definition.describe({"kind": definition.kind, **found}, related, view.now)))
    return Content(
        "objects/one.html",
        {"description": "objects/description.html", "events": "events.html"},
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
            "events": shared.events_about(
                view, definition.kind, namespace, name, str(at(found, "metadata", "uid") or "")
            ),
        },
        (definition.kind, EVICTION, shared.EVENT),
    )


def _grouped(sections: Iterator[Section]) -> Iterator[tuple[str, Any]]:
    """Sections as the templates read them: what each is, and its fields, with a name that is not indented."""
    for section in sections:
        name = section.name.strip()
        if isinstance(section, Heading):
            yield "Heading", {"name": name}
            continue
        yield type(section).__name__, {**section._asdict(), "name": name}


def _yaml(found: Object) -> str:
    metadata = {key: value for key, value in found["metadata"].items() if key != "managedFields"}
    return yaml.safe_dump({**found, "metadata": metadata}, sort_keys=False, allow_unicode=True, width=110)


@dataclass
class _RelatedObjects:
    """Reads the objects that belong to one, as far as the user may list them."""

    view: PageView
    denied: set[str] = field(default_factory=set)
    """The plurals of the kinds that they may not list."""

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> Sequence[Object]:
        """See `Related`."""
        view = self.view
        names = shared.visible_names(view, kind, namespace or "")
        if names is None:
            self.denied.add(kind_named(kind).plural)
            return []
        if kind == EVICTION:  # those that are over are many, and no description tells of them
            rows = fleet.visible_evictions(view) or ()
            ids = sorted(row.object_id for row in rows if namespace in {None, row.object_id.namespace})[:MOST_RELATED]
        else:
            ids = names.first(MOST_RELATED)
        chosen = _selector(kind, selector)
        shown = (view.store.get(one) for one in ids)
        return [one.document for one in shown if one is not None and chosen.selects(one.json)]

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """See `Related`."""
        return shared.document_of(self.view, kind, namespace, name)


def _selector(kind: str, labels: str) -> Any:
    return selector(labels, "", kind_named(kind))


async def search(view: PageView) -> Content:
    """`/console/search`: objects of all kinds whose names contain a text."""
    sought = view.query.get("q", "").strip().lower()
    found = []
    if len(sought) >= SHORTEST:
        for definition in kinds.discovered():
            names = shared.visible_names(view, definition.kind)
            if names is not None:
                chosen = await names.which(lambda _, name: sought in name.lower())
                if chosen.total:
                    found.append((definition, chosen.first(FOUND), chosen.total))
    found.sort(key=lambda group: (_rank(group[0]), group[0].order))
    return Content("search.html", context={"sought": sought, "found": found, "shortest": SHORTEST})


def _rank(definition: Kind[Any]) -> int:
    """Targets first, then what people declare, then what follows from it."""
    return 0 if definition.kind in TARGETS else 1 if not definition.read_only else 2


PAGES: Final = (
    ConsolePage("/console/search", search),
    ConsolePage("/console/objects", index),
    ConsolePage("/console/objects/{plural}", listed),
    ConsolePage("/console/objects/{plural}/{namespace}/{name}", one),
)
