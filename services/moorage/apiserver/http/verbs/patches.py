"""The verb `patch`: a request that changes a part of an object, in one of the forms that its content type names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from moorage.apiserver.admission import field_owners
from moorage.apiserver.http.backend import Backend
from moorage.apiserver.http.messages import bodies, decoding
from moorage.apiserver.http.messages.answers import note_warnings, warn
from moorage.apiserver.http.messages.decoding import Expected
from moorage.apiserver.http.messages.negotiation import media_type
from moorage.apiserver.http.messages.options import write_options
from moorage.apiserver.http.paths import ResourcePath
from moorage.apiserver.http.verbs.writing import caller, manager, written
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import Cause, StatusError, bad_request
from moorage.apiserver.machinery.openapi import registry, strict
from moorage.apiserver.machinery.openapi.built_in import DecodeError, conversion_flaw, json_type, repeated
from moorage.apiserver.machinery.patching import errors as patching_errors
from moorage.apiserver.machinery.patching import json_patch, merge_patch, strategic_merge
from moorage.apiserver.machinery.patching.errors import PatchError
from moorage.apiserver.machinery.schema import Schema
from moorage.decide.kubernetes.field_errors import invalid

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
STRATEGIC: Final = "application/strategic-merge-patch+json"

_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_UNPROCESSABLE: Final = 422
_SHOWN: Final = 1024  # characters of a document that are shown in an error

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Apply:
    """The user, the time and the manner of an apply."""

    manager: str
    now: datetime
    force: bool
    """Whether fields of others are taken over."""

    warnings: list[str]
    """Takes the warnings for the sender."""


@dataclass(frozen=True, slots=True)
class SentPatch:
    """A patch, and the type of what it patches."""

    media: str
    content: Any
    expected: Expected
    validation: str
    """`Ignore`, `Warn` or `Strict`: what becomes of unknown and repeated fields."""

    subresource: str = ""
    """The subresource that is written. Empty for the object itself."""

    def made_of(self, shown: Document, warnings: list[str]) -> Document:
        """Return the object that the patch makes of one.

        Raises:
            StatusError: the patch does not fit the object, or its result is none of its kind.
        """
        try:
            result = self._patched(shown)
        except PatchError as error:
            raise status_of(error) from None
        if self.subresource:
            _check_same_object(self.expected, shown, result)
        return self.decoded(result, shown, warnings)

    def decoded(self, result: Any, shown: Mapping[str, Any], warnings: list[str]) -> Document:
        """Return the result of a patch as an object of its kind. `warnings` takes those for its sender.

        Raises:
            StatusError: 422 if it is none.
        """
        expected = self.expected
        # Upstream shows what it decodes: the result, or after a strategic merge patch the patch.
        decoded = patching_errors.shown(self.content) if self.media == STRATEGIC else _json(result)
        if not isinstance(result, Mapping):
            raise _no_object(decoded, f"json: cannot unmarshal into Go value of type {expected.kind}")
        if flaw := self._other_type(result):
            raise _no_object(decoded, flaw)
        try:
            found = strict.decode_document(
                expected.group, expected.version, expected.kind, result, subresource=self.subresource
            )
        except DecodeError as error:
            why = conversion_flaw(error) if self.media == STRATEGIC else error.reason
            raise _no_object(decoded, why) from None
        known = decoding.problems_of(expected, shown)
        new = (*repeated(self.content, ""), *(one for one in found.problems if one not in known))
        if new and self.validation == decoding.STRICT:
            raise _no_object(decoded, strict.strict_message(new))
        sent = decoding.checked(strict.Decoded(found.document, new, found.violations), expected, self.validation)
        warnings += sent.warnings
        return sent.document

    def _other_type(self, result: Mapping[str, Any]) -> str:
        """Return why the result of a merge or a JSON patch is of another type than the object. Empty if it is not."""
        expected = self.expected
        if self.media not in {MERGE, JSON_PATCH} or STRATEGIC not in media_of(expected):
            return ""
        said = expected.other_type(result)
        return "" if said is None else bodies.type_flaw(expected.group, expected.kind, *said)

    def _patched(self, shown: Document) -> Any:
        if self.media == JSON_PATCH:
            return json_patch.applied(shown, self.content)
        if self.media == STRATEGIC:
            result = strategic_merge.applied(shown, self.content, self._schema())
            # A built-in object has the type of its resource, whatever the patch contains.
            typed = {name: shown[name] for name in ("apiVersion", "kind") if name in shown}
            return {**result, **typed}
        return merge_patch.applied(shown, self.content)

    def _schema(self) -> Schema:
        return registry.schema_of(self.expected.group, self.expected.version, self.expected.kind)


class PatchVerb:
    """Answers requests that patch an object."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def patch(self, request: Request, path: ResourcePath) -> Response:
        """Change a part of an object.

        Raises:
            StatusError: the patch cannot be read or applied, or its result breaks a rule or cannot be written.
        """
        is_apply = patch_media(request, Expected.of(path.kind), takes_apply=True) == APPLY
        options = write_options(request.query_params, "PatchOptions", is_apply=is_apply)
        representation = self._backend.representation(request, path.kind)
        sent = await self._read(request, path, options.field_validation)
        warnings: list[str] = []
        note_warnings(request, warnings)
        change: list[Document] = []
        who, now = manager(request), self._backend.clock.now()

        def patched(shown: Document) -> Document:
            present = dict(path.kind.converted(shown))
            if is_apply:
                result = applied(path, sent, present, Apply(who, now, options.force, warnings))
            else:
                result = bodies.check_identity(sent.made_of(present, warnings), path.kind, path.namespace, path.name)
            change[:] = [present, result]
            return result if is_apply else field_owners.recorded(path.kind, present, result, who, now)

        code, verb = 200, "apply" if is_apply else "patch"
        try:
            shown = await self._backend.writer.change(
                path.kind, path.object_id, patched, verb, caller(request), dry_run=options.dry_run
            )
        except StatusError as error:
            if not is_apply or error.code != _NOT_FOUND:
                raise
            new = self._applied_anew(path, sent, Apply(who, now, options.force, warnings))
            shown = await self._backend.writer.create(path.kind, new, caller(request), dry_run=options.dry_run)
            change.clear()
            code = 201
        content = sent.content if isinstance(sent.content, dict) else {}
        response = written(self._backend, path.kind, shown, representation, sent=content, code=code, change=change)
        warn(response, dict.fromkeys(warnings))
        return response

    @staticmethod
    def _applied_anew(path: ResourcePath, sent: SentPatch, how: Apply) -> Document:
        """Return an object that an apply creates. Its version, if it names one, means nothing."""
        metadata = sent.content.get("metadata")
        if not isinstance(metadata, Mapping) or not metadata.get("name"):
            raise bodies.without_name(path.name)
        named = {key: value for key, value in metadata.items() if key != "resourceVersion"}
        new = applied(path, replace(sent, content={**sent.content, "metadata": named}), None, how)
        if uid := metadata.get("uid"):
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise api_errors.conflict(path.kind.group, path.kind.plural, path.name, why)
        return new

    async def _read(self, request: Request, path: ResourcePath, validation: str) -> SentPatch:
        """Read a patch. As in Kubernetes, a missing object is reported before a body that is no patch."""
        try:
            return await read_patch(request, Expected.of(path.kind), validation, takes_apply=True)
        except StatusError as error:
            if error.code == _BAD_REQUEST and media_type(request) != APPLY:
                self._backend.present(path)
            raise


def applied(path: ResourcePath, sent: SentPatch, present: Document | None, how: Apply) -> Document:
    """Return an object after a server-side apply.

    `present` is the object as it is shown, in the version of the path. None if it is created.

    Raises:
        StatusError: what is applied does not fit, or has fields of others.
    """
    metadata = sent.content.get("metadata")
    named = {"name": path.name, **metadata} if isinstance(metadata, dict) else {"name": path.name}
    if path.namespace:
        named.setdefault("namespace", path.namespace)
    config = _without_null_times({**sent.content, "metadata": named})
    management = field_owners.management(path.kind, path.subresource)
    try:
        result = management.applied(present, config, how.manager, how.now, force=how.force)
    except PatchError as error:
        raise status_of(error) from None
    bodies.check_identity(config, path.kind, path.namespace, path.name)
    decoded = sent.decoded(result, present or {}, how.warnings)
    return bodies.check_identity(decoded, path.kind, path.namespace, path.name)


def _without_null_times(value: Any) -> Any:
    """Return an applied value without null creation times, which older clients print."""
    if isinstance(value, dict):
        return {
            key: _without_null_times(one) for key, one in value.items() if key != "creationTimestamp" or one is not None
        }
    return [_without_null_times(one) for one in value] if isinstance(value, list) else value


async def read_patch(
    request: Request, expected: Expected, validation: str, *, takes_apply: bool = False, subresource: str = ""
) -> SentPatch:
    """Read a patch. Raises StatusError: 415 if the kind does not take this form of patch, 400 if it cannot be read."""
    media = patch_media(request, expected, takes_apply=takes_apply)
    content = decoding.parsed(await bodies.read_body(request), is_yaml=media == APPLY)
    if content is None and media in {JSON_PATCH, STRATEGIC}:  # it changes nothing
        content = [] if media == JSON_PATCH else {}
    _check_form(media, content, validation)
    return SentPatch(media, content, expected, validation, subresource)


def _check_form(media: str, content: Any, validation: str) -> None:
    """Check that a patch is an object, or a JSON patch a list. The words depend on who looks first, as upstream."""
    is_ignored = validation == decoding.IGNORE
    if media == JSON_PATCH:
        if not isinstance(content, list) and is_ignored:
            raise bad_request(f"json: cannot unmarshal {json_type(content)} into Go value of type jsonpatch.Patch")
        return
    if isinstance(content, dict):
        return
    what = f"json: cannot unmarshal {json_type(content)} into Go value of type map[string]interface {{}}"
    if media == MERGE:
        what = "Invalid JSON Patch" if is_ignored or content is None else f"error decoding patch: {what}"
    elif media == APPLY:
        what = f"error decoding patch: {what}"
    raise bad_request(what)


def patch_media(request: Request, expected: Expected, *, takes_apply: bool = False) -> str:
    """Return the form of a patch. Raises StatusError: 415 if the kind does not take it."""
    media, known = media_type(request), (*media_of(expected), *((APPLY,) if takes_apply else ()))
    if media in known:
        return media
    if STRATEGIC in known:
        raise StatusError(415, "415: Unsupported Media Type", details={})
    raise StatusError(
        415, f"the body of the request was in an unknown format - accepted media types include: {', '.join(known)}"
    )


def media_of(expected: Expected) -> tuple[str, ...]:
    """Return the forms of patches that a kind takes."""
    strategic = registry.origin_of(expected.group, expected.kind).merges_strategically
    return (JSON_PATCH, MERGE, STRATEGIC) if strategic else (JSON_PATCH, MERGE)


def _check_same_object(expected: Expected, shown: Mapping[str, Any], result: Any) -> None:
    """Check that a patch of a part leaves the uid as it is. Of a whole object, that is one of the rules."""
    before, after = ((one.get("metadata") if isinstance(one, Mapping) else None) or {} for one in (shown, result))
    uid = after.get("uid") if isinstance(after, Mapping) else None
    if isinstance(uid, str) and uid not in {"", before.get("uid", uid)}:
        rule = invalid("metadata.uid", uid, "field is immutable")
        raise api_errors.invalid(expected.group, expected.kind, str(before.get("name", "")), [rule])


def _no_object(decoded: str, why: str) -> StatusError:
    """422: what a patch makes of an object is none of its kind."""
    return api_errors.invalid("", "", "", [invalid("patch", decoded[:_SHOWN], why)])


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)


def status_of(error: PatchError, worded: Callable[[str], str] = str) -> StatusError:
    """Return the answer to a patch that cannot be applied.

    `worded` makes the words of the answer from those of the error.
    """
    return StatusError(
        error.code,
        worded(error.message),
        reason=error.reason,
        details={} if error.code == _UNPROCESSABLE and not error.causes else None,
        causes=[Cause(one.reason, worded(one.message), one.field) for one in error.causes],
    )
