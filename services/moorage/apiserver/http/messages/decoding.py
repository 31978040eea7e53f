"""Objects from the bodies of requests: JSON, YAML or protobuf, decoded by the structure of their kind.

Unknown and repeated fields are refused, warned of or ignored, by `fieldValidation`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request

from moorage.apiserver.http.messages.answers import note_warnings
from moorage.apiserver.http.messages.bodies import of_another_type, read_body
from moorage.apiserver.http.messages.negotiation import JSON, PROTOBUF, YAML, body_media
from moorage.apiserver.kinds.kind import ServedKind
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import StatusError, bad_request
from moorage.apiserver.machinery.openapi import registry, strict
from moorage.apiserver.machinery.openapi.built_in import DecodeError
from moorage.apiserver.machinery.openapi.json_values import ParseError
from moorage.apiserver.machinery.openapi.parsing import parse
from moorage.apiserver.machinery.protobuf import messages
from moorage.decide.kubernetes.field_errors import quote

Document = dict[str, Any]

IGNORE: Final = "Ignore"
STRICT: Final = "Strict"


@dataclass(frozen=True, slots=True)
class Sent:
    """The document that a request has sent."""

    document: Document
    warnings: tuple[str, ...] = ()
    """Warnings about it for the sender."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The type of the object in a body."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, served: ServedKind) -> Expected:
        """Return an object of a kind."""
        return cls(served.group, served.version, served.kind)

    @property
    def api_version(self) -> str:
        """`group/version`. The core group has no prefix."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def other_type(self, document: Any) -> tuple[str, str] | None:
        """Return the type that an object names if it is not this one. Upstream decodes the object by that type."""
        if not isinstance(document, Mapping):
            return None
        said = str(document.get("apiVersion") or self.api_version), str(document.get("kind") or self.kind)
        return None if said == (self.api_version, self.kind) else said

    @property
    def media(self) -> tuple[str, ...]:
        """The media types in which it may be sent, the default first."""
        has_protobuf = registry.origin_of(self.group, self.kind).has_protobuf
        return (JSON, YAML, PROTOBUF) if has_protobuf else (JSON, YAML)


async def read_object(
    request: Request,
    expected: Expected,
    validation: str = "Warn",
    *,
    known: Mapping[str, Any] | None = None,
    subresource: str = "",
) -> Sent:
    """Read an object from a request's body.

    `validation` is `Ignore`, `Warn` or `Strict`. What is unknown in `known`, the object as it is shown, may be sent
    back.

    Raises:
        StatusError: 400 if it cannot be decoded, or has unknown or repeated fields and these are refused; 413 if it is
            too large; 415 if it has another form; 422 if its definition does not allow it.
    """
    media = body_media(request, expected.media)
    body = await read_body(request)
    if media == PROTOBUF:
        return Sent(_from_protobuf(body, expected))
    try:
        found = strict.decode(
            expected.group, expected.version, expected.kind, body, is_yaml=media == YAML, subresource=subresource
        )
    except DecodeError as error:
        if (said := expected.other_type(_parsed_or_nothing(body, is_yaml=media == YAML))) is not None:
            raise of_another_type(expected.group, expected.kind, *said) from None
        raise bad_request(str(error)) from None
    if expected.other_type(found.document) is not None:  # the caller refuses it for that
        return Sent(found.document)
    already = problems_of(expected, known)
    if found.violations and validation != IGNORE:
        note_warnings(request, [one for one in found.problems if one not in already])
    return checked(found, expected, validation, already)


def _parsed_or_nothing(body: bytes, *, is_yaml: bool) -> Any:
    try:
        return parse(body, is_yaml=is_yaml).document
    except ParseError:
        return None


def check_type(document: Mapping[str, Any], expected: Expected, *, older: str = "") -> None:
    """Check that an object is of the type that is expected, as far as it names its type.

    `older` is an older version of it that clients still send. Empty if there is none.

    Raises:
        StatusError: 400 if it is of another one.
    """
    if (other := expected.other_type(document)) is None:
        return
    said, kind = other
    if kind == expected.kind and older and said == f"{expected.group}/{older}":
        return
    short = quote(str(api_errors.shorten(kind)))
    why = f"no kind {short} is registered for version {quote(str(api_errors.shorten(said)))}"
    version = quote(str(api_errors.shorten(said.rpartition("/")[2])))
    raise bad_request(f"{api_errors.shorten(kind)} in version {version} cannot be handled as a {expected.kind}: {why}")


def checked(found: strict.Decoded, expected: Expected, validation: str, known: Iterable[str] = ()) -> Sent:
    """Return a decoded object, or refuse it. `known` is what was found in the object that is there already.

    Raises:
        StatusError: 400 if it has unknown or repeated fields and these are refused, 422 if its definition does not
            allow it.
    """
    already = frozenset(known)
    problems = tuple(one for one in found.problems if one not in already)
    if problems and validation == STRICT:
        raise bad_request(
            f'{expected.kind} in version "{expected.version}" cannot be handled as a {expected.kind}: '
            f"{strict.strict_message(problems)}"
        )
    if found.violations:
        metadata = found.document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else ""
        raise api_errors.invalid(expected.group, expected.kind, str(name or ""), found.violations)
    return Sent(found.document, () if validation == IGNORE else problems)


def problems_of(expected: Expected, document: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the unknown fields of an object that is shown: those that Moorage adds to Kubernetes' own."""
    if document is None:
        return ()
    try:
        return strict.decode_document(expected.group, expected.version, expected.kind, document).problems
    except DecodeError:
        return ()


def parsed(body: bytes, *, is_yaml: bool = False) -> Any:
    """Return a document of any type, such as a patch. Raises StatusError: 400 if it cannot be read."""
    try:
        return parse(body, is_yaml=is_yaml).document
    except ParseError as error:
        why = f"error decoding patch: error converting YAML to JSON: {error}"
        raise bad_request(why if is_yaml else "invalid JSON patch") from None


def options_in(request: Request, body: bytes, kind: str) -> Document:
    """Return the options in a request's body, such as `DeleteOptions`.

    Raises:
        StatusError: 400 if they cannot be decoded, 415 if they have another form.
    """
    media = body_media(request, (JSON, YAML, PROTOBUF))
    if media == PROTOBUF:
        return _from_protobuf(body, Expected("", "v1", kind))
    try:
        found = parse(body, is_yaml=media == YAML).document
    except ParseError as error:
        raise bad_request(f"couldn't get version/kind; {error}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise bad_request("couldn't get version/kind; json parse error: it must be a JSON object")
    said = str(api_errors.shorten(str(found.get("kind") or kind)))
    if said != kind:
        version = str(api_errors.shorten(str(found.get("apiVersion") or "v1")))
        raise bad_request(f"no kind {quote(said)} is registered for version {quote(version)}")
    return found


def _from_protobuf(body: bytes, expected: Expected) -> Document:
    try:
        return messages.decode_object(body, expected.group, expected.version, expected.kind)
    except (DecodeError, LookupError) as error:
        raise StatusError(
            400, f"the object provided is unrecognized (must be of type {expected.kind}): {error}"
        ) from None
