"""HTTP answers: one document or a stream of pieces, compressed if the client accepts that, and warnings."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from moorage.apiserver.admission.validation import warning_header
from moorage.apiserver.http.messages.negotiation import JSON, AnswerForm, form_of_errors
from moorage.apiserver.http.messages.representations import encoded
from moorage.apiserver.machinery.api_errors import StatusError

COMPRESSED_FROM: Final = 128 * 1024
"""Bytes from which an answer is compressed, as in a kube-apiserver."""

_LEVEL: Final = 1  # of gzip: faster than the network, and four fifths of what the highest level saves
_GZIP: Final = 16 + zlib.MAX_WBITS


def answer(code: int, document: Mapping[str, Any] | bytes, media_type: str = JSON) -> Response:
    """Return an answer of one document, or of its bytes."""
    content = document if isinstance(document, bytes) else orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
    return Response(content, code, media_type=media_type)


def in_form(code: int, document: Mapping[str, Any], form: AnswerForm) -> Response:
    """Return an answer of one document in the form that the request accepts."""
    return Response(encoded(document, form), code, media_type=form.media)


def failure(request: Request, error: StatusError) -> Response:
    """Return the answer of a request that has failed."""
    response = in_form(error.code, error.document(), form_of_errors(request))
    if error.retry_after:
        response.headers["retry-after"] = str(error.retry_after)
    return response


async def in_pieces(request: Request, pieces: Iterator[bytes], media_type: str) -> Response:
    """Return an answer of pieces. Others get the processor between two of them.

    A small answer is sent whole.
    """
    first, size = [], 0
    for piece in pieces:
        first.append(piece)
        size += len(piece)
        if size >= COMPRESSED_FROM:
            return _stream(request, b"".join(first), pieces, media_type)
        await asyncio.sleep(0)
    return Response(b"".join(first), media_type=media_type)


def _stream(request: Request, first: bytes, rest: Iterator[bytes], media_type: str) -> Response:
    if not _takes_gzip(request):
        return StreamingResponse(_plain(first, rest), media_type=media_type)
    headers = {"content-encoding": "gzip", "vary": "Accept-Encoding"}
    return StreamingResponse(_compressed(first, rest), media_type=media_type, headers=headers)


async def _plain(first: bytes, rest: Iterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    for piece in rest:
        if piece:
            yield piece
        await asyncio.sleep(0)


async def _compressed(first: bytes, rest: Iterator[bytes]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    async for piece in _plain(first, rest):
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def _takes_gzip(request: Request) -> bool:
    offered = request.headers.get("accept-encoding", "").lower().split(",")
    return any(one.split(";")[0].strip() == "gzip" for one in offered)


MOST_WARNED: Final = 4096
"""Characters of all warnings of an answer together."""

MOST_WARNINGS: Final = 64
"""Warnings of an answer. Python's own client takes 100 headers."""

_SHORT_WARNING: Final = 256  # characters of one that would be too much


def warn(response: Response, texts: Iterable[str]) -> None:
    """Add warnings to an answer, which kubectl shows.

    Clients limit the headers of an answer, in number and size. So what is beyond `MOST_WARNED` characters is cut as
    in Kubernetes, and what is beyond `MOST_WARNINGS` is left out.
    """
    there = response.headers.getlist("warning")
    number, told = len(there), sum(map(len, there))
    for text in texts:
        header = warning_header(text)
        if told + len(header) > MOST_WARNED:
            header = warning_header(text[:_SHORT_WARNING])
        if number == MOST_WARNINGS or told + len(header) > MOST_WARNED:
            return
        number, told = number + 1, told + len(header)
        response.headers.append("warning", header)


def note_warnings(request: Request, warnings: Sequence[str]) -> None:
    """Note warnings about a request for its answer, also if the request fails."""
    request.state.warnings = warnings


def warnings_of(request: Request) -> Sequence[str]:
    """Return the warnings that `note_warnings` has noted."""
    found: Sequence[str] = getattr(request.state, "warnings", ())
    return found
