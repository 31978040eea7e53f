"""Objects, lists and events of a watch in the form that a request accepts: JSON, YAML or protobuf, whole or in part.

What is kept of an object is its JSON. It is sent as it is whenever the client requests that. Lists are made in
pieces, so that the largest one takes no more memory than a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

import orjson
import yaml
from typing_extensions import override

from moorage.apiserver.http.messages import tables
from moorage.apiserver.http.messages.negotiation import PLAIN, PROTOBUF, YAML, AnswerForm, ObjectView
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery.api_errors import StatusError
from moorage.apiserver.machinery.protobuf import messages
from moorage.apiserver.machinery.protobuf.encoding import NotEncodableError
from moorage.apiserver.storage.shown_objects import ShownObject
from moorage.runtime.process.clock import MACHINE

Document = Mapping[str, Any]

PIECE: Final = 256
"""Objects that are encoded before others get the processor."""

_META: Final = "meta.k8s.io"


class EventEncoder(Protocol):
    """Makes the bytes of the events of one watch."""

    @property
    def form(self) -> Hashable:
        """Equal for encoders that make the same bytes of a change. None if they depend on what was sent before."""

    def event(self, word: str, kind: ServedKind, found: ShownObject) -> bytes:
        """Return the event of one object. `word` is `ADDED`, `MODIFIED` or `DELETED`. A deleted object is as it was."""

    def bookmark(self, kind: ServedKind, metadata: Document) -> bytes:
        """Return a bookmark. Its metadata has the resource version up to which the watch has shown everything."""

    def error(self, status: Document) -> bytes:
        """Return the event that ends a watch with an error."""


class WithJson(Protocol):
    """An object as JSON, with its resource version."""

    @property
    def json(self) -> bytes:
        """The object."""


@dataclass(frozen=True, slots=True)
class ListHead:
    """The metadata of a list."""

    version: int
    """Its resource version."""

    token: str = ""
    """Where the next part begins (`continue`). Empty if it ends here."""

    remaining: int = 0
    """How many objects come after it. 0 if that is not known."""

    @property
    def metadata(self) -> dict[str, Any]:
        """As the list shows it."""
        found: dict[str, Any] = {"resourceVersion": str(self.version)}
        if self.token:
            found["continue"] = self.token
        if self.token and self.remaining:
            found["remainingItemCount"] = self.remaining
        return found


class Representation:
    """The form of one answer. `include` is how much of its object a row of a table has."""

    def __init__(self, form: AnswerForm, include: str, now: Callable[[], datetime]) -> None:
        self._form = form
        self._include = include
        self._now = now

    @property
    def media_type(self) -> str:
        """The content type of the answer."""
        return self._form.media

    def document(self, document: Document) -> bytes:
        """Return an object that is no resource of a kind, such as a `Status`."""
        return encoded(document, self._form)

    def one(self, kind: ServedKind, found: ShownObject) -> bytes:
        """Return one object. Raises StatusError: 406 if the form is one of lists."""
        form = self._form
        json = in_version(kind, found.json)
        if form.view is ObjectView.WHOLE and form.media not in {YAML, PROTOBUF} and not form.is_pretty:
            return json + b"\n"
        return self.viewed(kind, orjson.loads(json))

    def viewed(self, kind: ServedKind, document: Document) -> bytes:
        """Return one object of any kind, also of one that is not stored, such as a `Scale`.

        Raises:
            StatusError: 406 if the form is one of lists.
        """
        form = self._form
        if form.view is ObjectView.METADATA_LIST:
            raise StatusError(
                406, f"you requested {form.view.value}, but the requested object is not a list ({kind.kind})"
            )
        return encoded(self._part(kind, document), form)

    def listed(self, kind: ServedKind, head: ListHead, objects: Iterable[bytes | None]) -> Iterator[bytes]:
        """Yield the pieces of a list. A piece may be empty.

        `objects` are their JSON, as it is kept. None stands for one that is not in the list, and cost time.

        Raises:
            StatusError: 406 if the form is one of single objects.
        """
        form = self._form
        if form.view is ObjectView.METADATA:
            raise StatusError(
                406, f"you requested {form.view.value}, but the requested object is a list ({kind.kind}List)"
            )
        kinds = (None if json is None else in_version(kind, json) for json in objects)
        if form.view is ObjectView.WHOLE and form.media not in {YAML, PROTOBUF} and not form.is_pretty:
            return _joined(_head(self._list(kind, head, [])), kinds)
        items = (None if json is None else self._item(kind, orjson.loads(json)) for json in kinds)
        return self._pieces(self._list(kind, head, []), items)

    def _part(self, kind: ServedKind, document: Document) -> Document:
        """Return the part of an object that is shown, as an object of its own."""
        if self._form.view is ObjectView.WHOLE:
            return document
        if self._form.view is not ObjectView.TABLE:
            return tables.metadata(document, self._form.version)
        head = {"resourceVersion": document["metadata"].get("resourceVersion", "")}
        return self._table(kind, head, [self._row(kind, document)])

    def _item(self, kind: ServedKind, document: dict[str, Any]) -> Document:
        if self._form.view is ObjectView.TABLE:
            return self._row(kind, document)
        if self._form.view is ObjectView.METADATA_LIST:
            return tables.metadata(document, self._form.version)
        return document

    def _list(self, kind: ServedKind, head: ListHead, items: list[Document]) -> dict[str, Any]:
        form = self._form
        if form.view is ObjectView.TABLE:
            return self._table(kind, head.metadata, items)
        if form.view is ObjectView.METADATA_LIST:
            name, version = form.view.value, f"{_META}/{form.version}"
        else:
            name, version = f"{kind.kind}List", kind.api_version
        # kubectl and client-go read kind and apiVersion of a list's items from the list.
        return {"kind": name, "apiVersion": version, "metadata": head.metadata, "items": items}

    def _table(self, kind: ServedKind, metadata: Document, rows: list[Document]) -> dict[str, Any]:
        return {
            "kind": ObjectView.TABLE.value,
            "apiVersion": f"{_META}/{self._form.version}",
            "metadata": dict(metadata),
            "columnDefinitions": self._columns(kind),
            "rows": rows,
        }

    def _columns(self, kind: ServedKind) -> list[dict[str, Any]] | None:
        return tables.definitions(kind.definition)

    def _row(self, kind: ServedKind, document: Document) -> Document:
        return tables.row(kind.definition, document, self._include, self._form.version, self._now())

    def _pieces(self, empty: dict[str, Any], items: Iterator[Document | None]) -> Iterator[bytes]:
        form, last = self._form, "rows" if self._form.view is ObjectView.TABLE else "items"
        if form.media == PROTOBUF:
            return _protobuf_list(empty, items)
        if form.is_pretty:
            return _pretty_list(empty, last, items)
        if form.media == YAML:
            return _yaml_list({key: value for key, value in empty.items() if key != last}, last, items)
        return _joined(_head(empty), (None if item is None else orjson.dumps(item) for item in items))


class JsonEvents(Representation, EventEncoder):
    """The events of a watch as JSON lines."""

    def __init__(
        self,
        form: AnswerForm = PLAIN,
        include: str = "Metadata",
        now: Callable[[], datetime] = MACHINE.now,
    ) -> None:
        super().__init__(form, include, now)
        self._has_columns = False

    @property
    @override
    def form(self) -> Hashable:
        return None if self._form.view is ObjectView.TABLE else self._form

    @override
    def event(self, word: str, kind: ServedKind, found: WithJson) -> bytes:
        json = in_version(kind, found.json)
        if self._form.view is not ObjectView.WHOLE:
            json = orjson.dumps(self._part(kind, orjson.loads(json)))
        return b'{"type":"%s","object":%s}\n' % (word.encode(), json)

    @override
    def bookmark(self, kind: ServedKind, metadata: Document) -> bytes:
        shown: Document = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if self._form.view is ObjectView.TABLE:
            shown = self._table(kind, metadata, [{"cells": [], "object": tables.metadata(shown, self._form.version)}])
        elif self._form.view is not ObjectView.WHOLE:
            shown = tables.metadata(shown, self._form.version)
        return _line("BOOKMARK", shown)

    @override
    def error(self, status: Document) -> bytes:
        return _line("ERROR", status)

    @override
    def _columns(self, kind: ServedKind) -> list[dict[str, Any]] | None:
        # Only the first table of a watch has them.
        known, self._has_columns = self._has_columns, True
        return None if known else super()._columns(kind)


class ProtobufEvents(EventEncoder):
    """The events of a watch as frames of protobuf."""

    def __init__(self, form: AnswerForm) -> None:
        self._form = form

    @property
    @override
    def form(self) -> Hashable:
        return self._form

    @override
    def event(self, word: str, kind: ServedKind, found: ShownObject) -> bytes:
        return self._frame(word, orjson.loads(in_version(kind, found.json)))

    @override
    def bookmark(self, kind: ServedKind, metadata: Document) -> bytes:
        return self._frame("BOOKMARK", {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata})

    @override
    def error(self, status: Document) -> bytes:
        return messages.encode_event("ERROR", _protobuf(status))

    def _frame(self, word: str, document: Document) -> bytes:
        if self._form.view is not ObjectView.WHOLE:
            document = tables.metadata(document, self._form.version)
        return messages.encode_event(word, _protobuf(document))


def in_version(kind: ServedKind, json: bytes) -> bytes:
    """Return the JSON of a stored object in a version of its kind."""
    return json if kind.is_stored else orjson.dumps(kind.converted(orjson.loads(json)))


def encoded(document: Document, form: AnswerForm) -> bytes:
    """Return a document in the media type of an answer."""
    if form.media == YAML:
        return _yaml(document)
    if form.media == PROTOBUF:
        return _protobuf(document)
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if form.is_pretty else 0)
    return orjson.dumps(document, option=option)


def _protobuf(document: Document) -> bytes:
    try:
        return messages.encode_object(document)
    except NotEncodableError as error:
        raise StatusError(406, f"the object cannot be sent as protobuf: {error}") from None


class _Dumper(yaml.CSafeDumper):
    """Writes every value out. Equal ones are not written as references to each other."""

    def ignore_aliases(self, _: Any) -> bool:
        """Return whether a value is written out each time."""
        return True


def _head(empty: Mapping[str, Any]) -> bytes:
    """Return the JSON of a list up to its items, which come last."""
    return orjson.dumps(empty)[: -len(b"]}")]


def _joined(head: bytes, items: Iterator[bytes | None]) -> Iterator[bytes]:
    """Yield the pieces of a list in JSON."""
    piece, comma = [head], b""
    for number, item in enumerate(items, start=1):
        if item is not None:
            piece += (comma, item)
            comma = b","
        if number % PIECE == 0:
            yield b"".join(piece)
            piece = []
    yield b"".join([*piece, b"]}\n"])


def _protobuf_list(empty: Mapping[str, Any], items: Iterator[Document | None]) -> Iterator[bytes]:
    """Yield the pieces of a list in protobuf. All but the last are empty."""
    try:
        yield from messages.encode_list(empty, items, PIECE)
    except NotEncodableError as error:
        raise StatusError(406, f"the list cannot be sent as protobuf: {error}") from None


def _pretty_list(empty: Mapping[str, Any], last: str, items: Iterator[Document | None]) -> Iterator[bytes]:
    """Yield the pieces of a list in indented JSON, with the indentation that the whole would have."""
    head, mark = orjson.dumps({**empty, last: []}, option=orjson.OPT_INDENT_2), b"[]\n}"
    comma = b"[\n    "
    yield head[: -len(mark)]
    for number, item in enumerate(items, start=1):
        if item is not None:
            lines = orjson.dumps(item, option=orjson.OPT_INDENT_2).replace(b"\n", b"\n    ")
            yield comma + lines
            comma = b",\n    "
        elif number % PIECE == 0:
            yield b""
    yield b"[]\n}\n" if comma.startswith(b"[") else b"\n  ]\n}\n"


def _yaml_list(rest: Mapping[str, Any], last: str, items: Iterator[Document | None]) -> Iterator[bytes]:
    """Yield the pieces of a list in YAML. Its fields are in alphabetical order, as in Kubernetes."""
    yield _yaml({key: value for key, value in rest.items() if key < last})
    title = f"{last}:\n".encode()
    for number, item in enumerate(items, start=1):
        if item is not None:
            yield title + _yaml([item])
            title = b""
        elif number % PIECE == 0:
            yield b""
    if title:
        yield f"{last}: []\n".encode()
    yield _yaml({key: value for key, value in rest.items() if key > last})


def _yaml(value: Any) -> bytes:
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True).encode() if value else b""


def _line(word: str, document: Document) -> bytes:
    return orjson.dumps({"type": word, "object": document}, option=orjson.OPT_APPEND_NEWLINE)
