"""`deadletters` (moorage.io/v1alpha1): records that were refused, read from their topic, and sent again.

Nothing of them is in the object log, so they have no resource versions and cannot be watched. A list begins with the
newest. It is one of what there is when a part of it is read: letters that come later are on no later part, and those
whose time has ended are missing.

What a letter has of others may contain secrets. They are taken out as from log lines, and a replay sends them
nevertheless.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import orjson
import structlog
from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.http import paths
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.intake.dead_letter_replay import DeadLetterReplay
from moorage.apiserver.http.messages import answers
from moorage.apiserver.http.messages.answers import warn
from moorage.apiserver.http.messages.options import list_options
from moorage.apiserver.http.messages.representations import ListHead
from moorage.apiserver.http.messages.selectors import Selector, selector
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.kinds.views import DEAD_LETTER, REPLAY
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import bad_request, unavailable
from moorage.apiserver.storage.dead_letters import DeadLetters, LetterName, LetterReader, LetterRecord, read_page
from moorage.runtime.process.logs import redacted, redacted_field
from moorage_schemas.dead_letter import DeadLettered
from moorage_schemas.times import format_time, parse_time

_log = structlog.get_logger(__name__)

MOST: Final = 500
"""How many letters one answer has at most, also if the request names no limit."""

SINCE: Final = "sinceTime"
"""A parameter as the one of the logs of pods: from when on letters are wanted."""

_FORM: Final = "moorage.io/dead-letters/v1"
_BINARY: Final = "base64"
_MOST_DIGITS: Final = 2**63 - 1

Document = dict[str, Any]


class DeadLettersApi:
    """Answers requests about dead letters. `letters` is None if this gateway cannot read them."""

    def __init__(self, backend: Backend, letters: DeadLetters | None, replay: DeadLetterReplay) -> None:
        self._backend = backend
        self._letters = letters
        self._replay = replay

    async def handle(self, request: Request, path: ResourcePath) -> Response:
        """Answer one request."""
        method = request.method
        if path.subresource == REPLAY:
            paths.check_method(request, "POST")
            return await self._sent_again(request, path)
        if method not in {"GET", "HEAD"} or path.is_watched:
            raise paths.not_allowed()
        return await (self._one(request, path) if path.name else self._listed(request, path))

    async def _one(self, request: Request, path: ResourcePath) -> Response:
        representation = self._backend.representation(request, path.kind)
        shown = _document(*await self._found(path))
        return answers.answer(200, representation.viewed(path.kind, shown), representation.media_type)

    async def _sent_again(self, request: Request, path: ResourcePath) -> Response:
        representation = self._backend.representation(request, path.kind)
        record, letter = await self._found(path)
        replayed = await self._replay.send(request, path, record.name, letter)
        shown = _document(record, letter)
        shown["status"]["replay"] = replayed.outcome
        response = answers.answer(201, representation.viewed(path.kind, shown), representation.media_type)
        warn(response, replayed.warnings)
        return response

    async def _found(self, path: ResourcePath) -> tuple[LetterRecord, DeadLettered]:
        """Return the letter that a path names. Raises StatusError: 404 if there is none."""
        missing = api_errors.not_found(path.kind.group, path.kind.plural, path.name)
        name = LetterName.parse(path.name)
        if name is None:
            raise missing
        async with self._source.reading() as reader:
            span = (await reader.bounds()).get(name.partition, range(0))
            if name.offset not in span:
                raise missing
            _, records = (await reader.read({name.partition: range(name.offset, name.offset + 1)}))[name.partition]
        if not records or (letter := _content(records[0])) is None:  # the position of a marker, or no letter
            raise missing
        return records[0], letter

    @property
    def _source(self) -> DeadLetters:
        if self._letters is None:
            raise unavailable("this gateway cannot read dead letters")
        return self._letters

    async def _listed(self, request: Request, path: ResourcePath) -> Response:
        options = list_options(request.query_params)
        if options.is_watch:
            raise paths.not_allowed()
        representation = self._backend.representation(request, path.kind)
        selects = selector(options.labels, options.fields, DEAD_LETTER)
        since = _since_of(request)
        limit = min(options.limit or MOST, MOST)
        async with self._source.reading() as reader:
            before = _before(options.token, await reader.bounds()) if options.token else None
            page = await read_page(
                _Checked(reader), lambda record: _selects(selects, record), limit=limit, before=before, since=since
            )
        token = _token(page.rest) if page.rest is not None else ""
        items = (orjson.dumps(_document(record, record.content)) for record in page.letters)
        pieces = representation.listed(path.kind, ListHead(self._backend.store.version, token), items)
        return await answers.in_pieces(request, pieces, representation.media_type)


class _Checked:
    """A reader that passes over what is no letter. Only services write the topic, so there should be nothing."""

    def __init__(self, reader: LetterReader) -> None:
        self._reader = reader
        self.bounds = reader.bounds
        self.first_since = reader.first_since

    async def read(self, spans: Mapping[int, range]) -> Mapping[int, tuple[int, list[LetterRecord]]]:
        """Return the letters of some parts of the topic."""
        found = await self._reader.read(spans)
        return {
            partition: (begin, [record for record in records if _content(record) is not None])
            for partition, (begin, records) in found.items()
        }


def _content(record: LetterRecord) -> DeadLettered | None:
    try:
        return record.content
    except ValueError as error:
        _log.warning("dead_letters.unreadable", letter=str(record.name), why=str(error))
        return None


def _selects(selects: Selector, record: LetterRecord) -> bool:
    """Return whether the selectors of a request select a letter. None of them is about its original."""
    if selects.is_empty:
        return True
    return selects(_document(record, record.content.model_copy(update={"original": ""})))


def _document(record: LetterRecord, letter: DeadLettered) -> Document:
    """Return a letter as the API shows it."""
    status = letter.model_dump(mode="json", by_alias=True)
    for field in ("message", "value", "key"):
        status[field] = redacted(status[field])
    status["headers"] = {name: redacted_field(name, value) for name, value in letter.headers.items()}
    status["original"] = _shown(letter)
    created = format_time(letter.refused_time.replace(microsecond=0))
    return {
        "apiVersion": DEAD_LETTER.api_versions[0],
        "kind": DEAD_LETTER.kind,
        "metadata": {"name": str(record.name), "creationTimestamp": created},
        "status": status,
    }


def _shown(letter: DeadLettered) -> str:
    """Return the original without secrets."""
    if letter.original_encoding != _BINARY:
        return redacted(letter.original)
    try:
        raw = base64.b64decode(letter.original).decode("latin-1")
    except binascii.Error:
        return redacted(letter.original)
    clean = redacted(raw)
    return letter.original if clean == raw else base64.b64encode(clean.encode("latin-1")).decode()


def _since_of(request: Request) -> int | None:
    """Return the time from which on letters are wanted, in milliseconds since 1970."""
    text = request.query_params.get(SINCE, "")
    if not text:
        return None
    try:
        when: datetime = parse_time(text)
    except ValueError as error:
        raise bad_request(f"{SINCE}: invalid value {api_errors.shorten(text)!r}: {error}") from None
    return max(0, int(when.timestamp() * 1000))


def _token(rest: Mapping[int, int]) -> str:
    """Return where the next part of a list begins, as clients get it."""
    offsets = [offset for _, offset in sorted(rest.items())]
    return base64.urlsafe_b64encode(orjson.dumps({"v": _FORM, "before": offsets})).decode().rstrip("=")


def _before(text: str, bounds: Mapping[int, range]) -> Mapping[int, int]:
    """Read where an earlier part of a list ended."""
    try:
        found = orjson.loads(base64.b64decode(text.encode() + b"=" * (-len(text) % 4), b"-_", validate=True))
        offsets = found["before"] if found["v"] == _FORM else None
    except (binascii.Error, ValueError, TypeError, KeyError):
        offsets = None
    if not isinstance(offsets, list) or len(offsets) != len(bounds) or not all(_is_offset(one) for one in offsets):
        raise bad_request("invalid continue token: continue key is not valid: it is none of a list of dead letters")
    return dict(zip(sorted(bounds), offsets, strict=True))


def _is_offset(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_DIGITS
