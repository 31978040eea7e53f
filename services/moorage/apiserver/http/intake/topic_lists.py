"""Lists of records that the gateway reads from their topic for each request: dead letters, and the audit.

Nothing of them is in the object log, so they have no resource versions and cannot be watched. A list begins with the
newest. It is one of what there is when a part of it is read: records that come later are on no later part, and those
whose time has ended are missing.
"""

from __future__ import annotations

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Generic, TypeVar

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.messages import answers
from moorage.apiserver.http.messages.options import list_options
from moorage.apiserver.http.messages.representations import ListHead
from moorage.apiserver.http.messages.selectors import selector
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import bad_request, unavailable
from moorage.apiserver.storage.topic_pages import RecordName, TopicRecord, TopicRecords, read_page
from moorage_schemas.base import Model
from moorage_schemas.times import parse_time
from moorage_schemas.topics import Topic

_log = structlog.get_logger(__name__)

MOST: Final = 500
"""How many records one answer has at most, also if the request names no limit."""

SINCE: Final = "sinceTime"
"""A parameter as the one of the logs of pods: from when on records are wanted."""

UNTIL: Final = "untilTime"
"""The time before which records are wanted."""

_MOST_DIGITS: Final = 2**63 - 1

Document = dict[str, Any]
EventT = TypeVar("EventT", bound=Model)


class TopicListApi(ABC, Generic[EventT]):
    """Answers GET requests about the records of a topic. `records` is None if this gateway cannot read them."""

    topic: ClassVar[Topic]

    def __init__(self, backend: Backend, records: TopicRecords | None) -> None:
        self._backend = backend
        self._records = records

    @abstractmethod
    def document(self, record: TopicRecord, event: EventT) -> Document:
        """Return a record as the API shows it."""

    def selected(self, record: TopicRecord, event: EventT) -> Document:
        """Return what selectors read of a record, which may be less than its document."""
        return self.document(record, event)

    def event(self, record: TopicRecord) -> EventT | None:
        """Return the content of a record. None if it is no event of the topic."""
        try:
            return record.content  # type: ignore[return-value]  # the event of the topic
        except ValueError as error:
            _log.warning("topic_records.unreadable", topic=self.topic.short, record=str(record.name), why=str(error))
            return None

    async def handle(self, request: Request, path: ResourcePath, cluster: str = "") -> Response:
        """Answer one request. `cluster` is the mirrored cluster at whose address it came."""
        if request.method not in {"GET", "HEAD"} or path.is_watched:
            raise paths.not_allowed()
        return await (self._one(request, path, cluster) if path.name else self._listed(request, path, cluster))

    async def found(self, path: ResourcePath, cluster: str = "") -> tuple[TopicRecord, EventT]:
        """Return the record that a path names. Raises StatusError: 404 if there is none."""
        missing = api_errors.not_found(path.kind.group, path.kind.plural, path.name)
        name = RecordName.parse(path.name)
        if name is None:
            raise missing
        async with self._source.reading(self.topic) as reader:
            span = (await reader.bounds()).get(name.partition, range(0))
            if name.offset not in span:
                raise missing
            _, records = (await reader.read({name.partition: range(name.offset, name.offset + 1)}))[name.partition]
        if not records or (event := self.event(records[0])) is None:  # the position of a marker, or of no event
            raise missing
        if cluster and not self.is_in(event, cluster):
            raise missing
        return records[0], event

    async def _one(self, request: Request, path: ResourcePath, cluster: str) -> Response:
        representation = self._backend.representation(request, path.kind)
        shown = self.document(*await self.found(path, cluster))
        return answers.answer(200, representation.viewed(path.kind, shown), representation.media_type)

    @property
    def _source(self) -> TopicRecords:
        if self._records is None:
            raise unavailable(f"this gateway cannot read {self.topic.short}")
        return self._records

    async def _listed(self, request: Request, path: ResourcePath, cluster: str) -> Response:
        options = list_options(request.query_params)
        if options.is_watch:
            raise paths.not_allowed()
        representation = self._backend.representation(request, path.kind)
        matches = selector(options.labels, options.fields, path.kind.definition)
        since, until = _time(request, SINCE), _time(request, UNTIL)
        limit = min(options.limit or MOST, MOST)

        def selects(record: TopicRecord) -> bool:
            event = self.event(record)
            if event is None or (cluster and not self.is_in(event, cluster)):
                return False
            return matches.is_empty or matches(self.selected(record, event))

        async with self._source.reading(self.topic) as reader:
            before = self._before(options.token, await reader.bounds(), path) if options.token else None
            page = await read_page(reader, selects, limit=limit, before=before, since=since, until=until)
        token = self._token(page.rest) if page.rest is not None else ""
        known = ((record, self.event(record)) for record in page.records)
        items = (orjson.dumps(self.document(record, event)) for record, event in known if event is not None)
        pieces = representation.listed(path.kind, ListHead(self._backend.store.version, token), items)
        return await answers.in_pieces(request, pieces, representation.media_type)

    @abstractmethod
    def is_in(self, event: EventT, cluster: str) -> bool:
        """Return whether an event is about an object of a mirrored cluster."""

    @property
    def _form(self) -> str:
        return f"moorage.io/{self.topic.short}/v1"

    def _token(self, rest: Mapping[int, int]) -> str:
        """Return where the next part of a list begins, as clients get it."""
        offsets = [offset for _, offset in sorted(rest.items())]
        return base64.urlsafe_b64encode(orjson.dumps({"v": self._form, "before": offsets})).decode().rstrip("=")

    def _before(self, text: str, bounds: Mapping[int, range], path: ResourcePath) -> Mapping[int, int]:
        """Read where an earlier part of a list ended."""
        try:
            found = orjson.loads(base64.b64decode(text.encode() + b"=" * (-len(text) % 4), b"-_", validate=True))
            offsets = found["before"] if found["v"] == self._form else None
        except (binascii.Error, ValueError, TypeError, KeyError):
            offsets = None
        if not isinstance(offsets, list) or len(offsets) != len(bounds) or not all(_is_offset(one) for one in offsets):
            raise bad_request(
                f"invalid continue token: continue key is not valid: it is none of a list of {path.kind.plural}"
            )
        return dict(zip(sorted(bounds), offsets, strict=True))


def _time(request: Request, parameter: str) -> int | None:
    """Return the time of a parameter, in milliseconds since 1970. None without it."""
    text = request.query_params.get(parameter, "")
    if not text:
        return None
    try:
        when = parse_time(text)
    except ValueError as error:
        raise bad_request(f"{parameter}: invalid value {api_errors.shorten(text)!r}: {error}") from None
    return max(0, int(when.timestamp() * 1000))


def _is_offset(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_DIGITS
