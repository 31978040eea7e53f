"""Which form of an answer a request accepts (`Accept`), and which form its body has (`Content-Type`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from starlette.requests import Request

from moorage.apiserver.machinery.api_errors import StatusError

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"

_META: Final = "meta.k8s.io"
_META_VERSIONS: Final = frozenset({"v1", "v1beta1"})
_BROWSERS: Final = ("curl", "Wget", "Mozilla/")
"""Programs whose users read the answer themselves. They get it indented, as a kube-apiserver does it."""

_TRUE: Final = frozenset({"true", "1", "t", "T", "TRUE", "True"})
_CLAUSES: Final = 64
"""Alternatives of `Accept` that are looked at."""


class ObjectView(Enum):
    """The parts of objects that are shown."""

    WHOLE = ""
    """The objects as they are."""

    TABLE = "Table"
    """A row of cells for each object."""

    METADATA = "PartialObjectMetadata"
    """The metadata of one object."""

    METADATA_LIST = "PartialObjectMetadataList"
    """The metadata of the objects of a list."""


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form of an answer."""

    media: str = JSON
    view: ObjectView = ObjectView.WHOLE
    version: str = "v1"
    """The version of the view, in the group meta.k8s.io."""

    is_pretty: bool = False
    """Whether JSON is indented, for people."""


PLAIN: Final = AnswerForm()
"""Whole objects as JSON."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One alternative of `Accept`."""

    media: str
    parameters: Mapping[str, str]
    quality: float


def clauses(header: str) -> list[Clause]:
    """Return the alternatives of an `Accept`, the preferred one first (RFC 9110)."""
    found = []
    for text in header.split(",")[:_CLAUSES]:
        media, *rest = (part.strip() for part in text.split(";"))
        named = [part.partition("=") for part in rest]
        parameters = {name.strip().lower(): value.strip().strip('"') for name, _, value in named}
        quality = _quality(parameters.pop("q", "1"))
        if media and quality > 0:
            found.append(Clause(media.lower(), parameters, quality))
    return sorted(found, key=lambda clause: -clause.quality)


def accepted(request: Request, media: Iterable[str], views: Iterable[ObjectView] = (ObjectView.WHOLE,)) -> AnswerForm:
    """Return the form that a request prefers. `media` are the types that can be sent, the default first.

    Raises:
        StatusError: 406 if none of the accepted forms can be sent.
    """
    offered, shown = tuple(media), frozenset(views)
    pretty = _is_pretty(request)
    header = ",".join(request.headers.getlist("accept"))
    if not header.strip():
        return AnswerForm(offered[0], is_pretty=pretty)
    wanted = clauses(header)
    for clause in wanted:
        for one in offered:
            if clause.media in {one, "*/*"} and (found := _with_view(clause, one, shown, is_pretty=pretty)):
                return found
    # Of custom resources, upstream offers protobuf here too, for what is shown of them.
    known = f"{JSON}, {YAML}, {PROTOBUF}"
    if PROTOBUF not in offered or any(clause.media in {*offered, "*/*"} for clause in wanted):
        raise StatusError(406, f"only the following media types are accepted: {known}")
    raise StatusError(406, f"406: Not Acceptable\n\nAvailable representations: {known}", details={})


def form_of_errors(request: Request) -> AnswerForm:
    """Return the form in which a request gets an error: the one that it accepts, JSON if that cannot be sent."""
    try:
        return accepted(request, (JSON, YAML, PROTOBUF), ObjectView)
    except StatusError:
        return AnswerForm()


def media_type(request: Request) -> str:
    """Return the content type without parameters, in lower case. JSON if there is none."""
    header = request.headers.get("content-type", "").strip()
    return header.partition(";")[0].strip().lower() if header else JSON


def body_media(request: Request, offered: Iterable[str]) -> str:
    """Return the content type of a body. Raises StatusError: 415 if it is none of the offered ones."""
    known, found = tuple(offered), media_type(request)
    if found not in known:
        raise StatusError(
            415, "the body of the request was in an unknown format - accepted media types include: " + ", ".join(known)
        )
    return found


def _with_view(clause: Clause, media: str, views: frozenset[ObjectView], *, is_pretty: bool) -> AnswerForm | None:
    parameters = clause.parameters
    if parameters.get("charset", "utf-8").lower() != "utf-8":
        return None
    pretty = is_pretty or parameters.get("pretty") == "1"
    name = parameters.get("as", "")
    if not name:
        return AnswerForm(media, is_pretty=pretty) if "g" not in parameters and "v" not in parameters else None
    if name == ObjectView.TABLE.value and media == PROTOBUF:
        return None  # a table has no protobuf
    view = next((one for one in views if one.value == name), None)
    version = parameters.get("v", "")
    if view is None or parameters.get("g") != _META or version not in _META_VERSIONS:
        return None
    return AnswerForm(media, view, version, pretty)


def _quality(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        return 0.0
    return found if 0 <= found <= 1 else 0.0


def _is_pretty(request: Request) -> bool:
    asked = request.query_params.get("pretty")
    if asked is not None:
        return asked in _TRUE
    return request.headers.get("user-agent", "").startswith(_BROWSERS)
