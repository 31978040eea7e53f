"""`moorage describe` as text: pairs, lists and tables, laid out as kubectl does it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.kinds.printing.columns import NONE
from moorage.apiserver.kinds.printing.sections import Fields, Heading, Pair, Rows, Section, Values, pairs, time_and_age
from moorage.cli.api import kinds
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.errors import ServerError
from moorage.cli.render import output
from moorage.cli.render.durations import to_the_second
from moorage.decide.kubernetes.durations import age
from moorage.decide.kubernetes.object_texts import last_seen
from moorage.decide.kubernetes.unstructured import at


class RelatedObjects:
    """Reads the objects that belong to one, from the gateway."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> Sequence[JsonObject]:
        """Return the objects of a kind. Of all namespaces if none is named."""
        items: list[JsonObject] = self._client.list(kinds.find(kind), namespace, selector)["items"]
        return items

    def get(self, kind: str, namespace: str, name: str) -> JsonObject | None:
        """Return one object. None if it does not exist."""
        return self._client.find(kinds.find(kind), namespace, name)


def lines(client: Client, kind: ServedKind, found: JsonObject) -> Iterator[str]:
    """Return the description of an object, with times to the second."""
    now = datetime.now(UTC)
    for section in _head(kind, found, now):
        yield from written(section)
    for section in kind.definition.describe({"kind": kind.kind, **found}, RelatedObjects(client), now):
        yield from map(to_the_second, written(section))
    if uid := str(at(found, "metadata", "uid") or ""):
        yield from written(_events(client, kind, found, uid, now))


def _events(client: Client, kind: ServedKind, found: JsonObject, uid: str, now: datetime) -> Section:
    """Return the Events of an object, the newest last. Those of an earlier object of its name are left out."""
    metadata = found["metadata"]
    fields = f"involvedObject.kind={kind.kind},involvedObject.name={metadata['name']}"
    try:
        listed = client.list(kinds.find("events"), metadata.get("namespace"), fields=fields)["items"]
    except ServerError as error:
        if error.reason != "NotFound":  # a gateway of an earlier version has no events
            raise
        listed = []
    # Events about nodes name them by their name instead of their uid, as Kubernetes' do.
    own = {None, "", uid, metadata["name"]}
    told = [one for one in listed if at(one, "involvedObject", "uid") in own]
    rows = [_event(one, now) for one in sorted(told, key=lambda one: last_seen(one) or "")]
    return Rows("Events", ["TYPE", "REASON", "AGE", "FROM", "MESSAGE"], rows)


def _event(one: JsonObject, now: datetime) -> list[str]:
    seen, count = age(last_seen(one), now), int(at(one, "series", "count") or one.get("count") or 1)
    if count > 1:
        seen = f"{seen} (x{count} over {age(one.get('firstTimestamp') or one.get('eventTime'), now)})"
    source = at(one, "source", "component") or one.get("reportingComponent") or ""
    return [str(one.get("type")), str(one.get("reason")), seen, str(source), str(one.get("message") or "").strip()]


def _head(kind: ServedKind, found: JsonObject, now: datetime) -> Iterator[Section]:
    yield Pair("Name", kinds.shown_name(kind, found))
    if kind.namespaced:
        yield Pair("Namespace", at(found, "metadata", "namespace"))
    yield Values("Labels", pairs(at(found, "metadata", "labels")))
    yield Values("Annotations", pairs(at(found, "metadata", "annotations")))
    if created := at(found, "metadata", "creationTimestamp"):
        yield Pair("Created", time_and_age(created, now))


def written(section: Section) -> Iterator[str]:
    """Return the lines of a section."""
    match section:
        case Pair(name, value):
            yield pair(name, value)
        case Values(name, values):
            yield from many(name, values)
        case Rows(name, head, rows, indent):
            yield from table(name, head, rows, indent=indent)
        case Heading(name):
            yield f"{name}:"
        case Fields(name, value):
            yield f"{name}:"
            yield from (f"  {line}" for line in output.to_yaml(value).splitlines())


def pair(name: str, value: Any) -> str:
    """Return `Name:           value`."""
    return f"{name + ': ':<16}{output.escaped(str(value)) if value not in (None, '') else NONE}"


def many(name: str, values: Sequence[str]) -> Iterator[str]:
    """Return a name with several values, one in each line."""
    first, *rest = values or [NONE]
    yield pair(name, first)
    for value in rest:
        yield " " * 16 + output.escaped(value)


def table(name: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "  ") -> Iterator[str]:
    """Return a table below its name."""
    if not rows:
        yield pair(name, NONE)
        return
    yield f"{name}:"
    for line in output.table(head, rows).splitlines():
        yield indent + line
