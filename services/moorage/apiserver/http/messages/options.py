"""The options of lists and watches, of writes, and of deletions. They are checked as Kubernetes checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.datastructures import QueryParams

from moorage.apiserver.admission.deletion import DeleteOptions
from moorage.apiserver.machinery import api_errors
from moorage.apiserver.machinery.api_errors import StatusError, bad_request
from moorage.apiserver.machinery.openapi.built_in import json_type
from moorage.apiserver.writing.writer import Preconditions
from moorage.decide.kubernetes.field_errors import ErrorKind, FieldError, forbidden, invalid, not_supported, required

_GROUP: Final = "meta.k8s.io"
_FALSE: Final = frozenset({"false", "0"})
_LONGEST_MANAGER: Final = 128
_INT64: Final = 2**63 - 1
_DIGITS: Final = 19
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_MATCHES: Final = ("Exact", "NotOlderThan", "")
_POLICIES: Final = ("Foreground", "Background", "Orphan", "nil")

LONGEST_WATCH: Final = 3600
"""Seconds after which a watch ends at the latest. Clients that want to go on start again where they stopped."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a creation, a change or a patch."""

    dry_run: bool = False
    """Whether nothing is written."""

    field_validation: str = "Warn"
    """The treatment of unknown and duplicate fields: `Ignore`, `Warn` or `Strict`."""

    field_manager: str = ""
    """The manager of the written fields. Empty if the request does not name it."""

    force: bool = False
    """Whether an apply takes fields over that belong to others."""


@dataclass(frozen=True, slots=True)
class DeletionRequest:
    """A request to delete objects."""

    options: DeleteOptions = field(default_factory=DeleteOptions)
    preconditions: Preconditions = field(default_factory=Preconditions)
    dry_run: bool = False
    """Whether nothing is written."""

    cascades: bool = False
    """Whether `orphanDependents` is false. Then the answer shows whether the object was removed."""


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a list or a watch."""

    is_watch: bool = False
    labels: str = ""
    fields: str = ""
    limit: int = 0
    """The most objects in one answer. 0 means all."""

    token: str = ""
    """Where an earlier answer ended (`continue`)."""

    version: str = ""
    match: str = ""
    """How a list's version relates to `version`: `Exact` or `NotOlderThan`."""

    timeout: int = 0
    """Seconds after which a watch ends. 0 leaves it to the gateway."""

    bookmarks: bool = False
    initial_events: bool | None = None


def is_true(query: Mapping[str, str], name: str) -> bool:
    """Return whether a flag of a query is set. Everything but `false` and `0` sets it, as in Kubernetes."""
    value = query.get(name)
    return value is not None and value.lower() not in _FALSE


def write_options(query: QueryParams, kind: str, *, is_apply: bool = False) -> WriteOptions:
    """Read the options of a write. `kind` names them in messages: `CreateOptions`, `UpdateOptions` or `PatchOptions`.

    Raises:
        StatusError: 422 with a cause for each option that is not allowed.
    """
    found: list[FieldError] = []
    manager, force = query.get("fieldManager", ""), query.get("force")
    if is_apply and not manager:
        found.append(required("fieldManager", "is required for apply patch"))
    if force is not None and not is_apply and kind == "PatchOptions":
        found.append(forbidden("force", "may not be specified for non-apply patch"))
    found += _manager(manager)
    dry_run = query.getlist("dryRun")
    found += _dry_run(dry_run)
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        found.append(not_supported("fieldValidation", validation, _VALIDATIONS))
    _refuse(kind, found)
    return WriteOptions(bool(dry_run), validation or "Warn", manager, is_true(query, "force"))


def delete_options(query: QueryParams, sent: Mapping[str, Any] | None) -> DeletionRequest:
    """Read the options of a deletion. Those in its body, if it has one, count alone.

    Raises:
        StatusError: 400 if an option has a wrong type, 422 if it is not allowed.
    """
    options = _from_query(query) if sent is None else sent
    found: list[FieldError] = []
    grace = _typed(options, "gracePeriodSeconds", int)
    orphan = _typed(options, "orphanDependents", bool)
    policy = _typed(options, "propagationPolicy", str)
    dry_run = _typed(options, "dryRun", list) or []
    if policy is not None and orphan is not None:
        rule = "orphanDependents and deletionPropagation cannot be both set"
        found.append(invalid("propagationPolicy", policy, rule))
    elif policy is not None and policy not in _POLICIES[:-1]:
        found.append(not_supported("propagationPolicy", policy, _POLICIES))
    found += _dry_run(dry_run)
    _refuse("DeleteOptions", found)
    wanted = _typed(options, "preconditions", dict) or {}
    conditions = Preconditions(
        _typed(wanted, "uid", str, "preconditions.") or "",
        _typed(wanted, "resourceVersion", str, "preconditions.") or "",
    )
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    # Kubernetes takes a negative grace period as the shortest one.
    seconds = 1 if grace is not None and grace < 0 else grace
    return DeletionRequest(DeleteOptions(policy or "", seconds), conditions, bool(dry_run), cascades=orphan is False)


def list_options(query: QueryParams, *, is_watch: bool = False) -> ListOptions:
    """Read the options of a list or a watch.

    Raises:
        StatusError: 400 if an option cannot be read, 422 if it is not allowed together with others.
    """
    initial = is_true(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    options = ListOptions(
        is_watch=is_watch or is_true(query, "watch"),
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=max(_integer(query.get("limit", "")), 0),
        token=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        timeout=max(_integer(query.get("timeoutSeconds", "")), 0),
        bookmarks=is_true(query, "allowWatchBookmarks"),
        initial_events=initial,
    )
    _refuse("ListOptions", _watch_errors(options) if options.is_watch else _list_errors(options))
    return options


def _watch_errors(options: ListOptions) -> list[FieldError]:
    match, found = options.match, []
    if options.initial_events is None:
        if options.token:
            found.append(
                forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            )
        if match:
            rule = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            found.append(forbidden("resourceVersionMatch", rule))
        if match not in {"", "NotOlderThan"}:
            found.append(not_supported("resourceVersionMatch", match, ["NotOlderThan"]))
        return found
    if match != "NotOlderThan":
        rule = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        found.append(forbidden("resourceVersionMatch", rule))
        if match:
            found.append(not_supported("resourceVersionMatch", match, ["NotOlderThan"]))
    if options.token:
        found.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"))
    return found


def _list_errors(options: ListOptions) -> list[FieldError]:
    match, found = options.match, []
    if match and not options.version:
        rule = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        found.append(forbidden("resourceVersionMatch", rule))
    if match and options.token:
        found.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"))
    if match not in _MATCHES:
        found.append(not_supported("resourceVersionMatch", match, _MATCHES))
    if match == "Exact" and options.version == "0":
        rule = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        found.append(forbidden("resourceVersionMatch", rule))
    if options.initial_events is not None:
        found.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return found


def _refuse(kind: str, found: Sequence[FieldError]) -> None:
    if found:
        raise api_errors.invalid(_GROUP, kind, "", found)


def _manager(name: str) -> list[FieldError]:
    if len(name.encode()) > _LONGEST_MANAGER:
        rule = f"may not be more than {_LONGEST_MANAGER} bytes"
        return [FieldError("fieldManager", ErrorKind.TOO_LONG, None, rule)]
    for place, char in enumerate(name):
        if not char.isprintable():
            return [invalid("fieldManager", name, f"invalid character U+{ord(char):04X} (at position {place})")]
    return []


def _dry_run(values: Sequence[Any]) -> list[FieldError]:
    return [] if all(value == "All" for value in values) else [not_supported("dryRun", list(values), ["All"])]


def _from_query(query: QueryParams) -> dict[str, Any]:
    """Return the options of a deletion without a body."""
    found: dict[str, Any] = {}
    if query.getlist("dryRun"):
        found["dryRun"] = query.getlist("dryRun")
    if text := query.get("gracePeriodSeconds", ""):
        found["gracePeriodSeconds"] = _integer(text)
    if "orphanDependents" in query:
        found["orphanDependents"] = is_true(query, "orphanDependents")
    if text := query.get("propagationPolicy", ""):
        found["propagationPolicy"] = text
    return found


def _typed(options: Mapping[str, Any], name: str, wanted: type, path: str = "") -> Any:
    """Return the value of an option. None if it is not set."""
    value = options.get(name)
    if value is None or (isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))):
        return value
    words: Mapping[type, str] = {int: "int64", bool: "bool", str: "string", list: "[]string", dict: "Preconditions"}
    where = f"Go struct field DeleteOptions.{path}{name} of type {words[wanted]}"
    raise _unreadable(f"json: cannot unmarshal {json_type(value)} into {where}")


def _unreadable(why: str) -> StatusError:
    return bad_request(f'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: {why}')


def _integer(text: str) -> int:
    """Return a number in a query. 0 if it is empty."""
    if not text:
        return 0
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdecimal()):
        raise bad_request(f'strconv.ParseInt: parsing "{api_errors.shorten(text)}": invalid syntax')
    if len(digits.lstrip("0")) > _DIGITS or abs(int(digits)) > _INT64:
        raise bad_request(f'strconv.ParseInt: parsing "{api_errors.shorten(text)}": value out of range')
    return int(text)


def resource_version(text: str, prefix: str = "") -> int:
    """Return a resource version in a request. 0 if it is empty.

    Raises:
        StatusError: 400 if it is none that a gateway has ever given.
    """
    if text and not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        rule = f'strconv.ParseUint: parsing "{api_errors.shorten(text)}": invalid syntax'
        raise bad_request(f"{prefix}{invalid('resourceVersion', api_errors.shorten(text), rule)}")
    return int(text or 0)
