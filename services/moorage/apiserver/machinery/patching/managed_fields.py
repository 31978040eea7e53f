"""`metadata.managedFields`: who set which fields of an object, by which kind of request, and when."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from moorage.apiserver.machinery.patching import field_sets as sets
from moorage.apiserver.machinery.patching.errors import quoted
from moorage.apiserver.machinery.patching.field_sets import FieldSet

APPLY: Final = "Apply"
UPDATE: Final = "Update"

MOST_UPDATES: Final = 10
"""The number of entries of updates that an object keeps. The oldest beyond them become one, as in Kubernetes."""

ANCIENT: Final = "ancient-changes"
"""The manager of the fields whose entries were too old to keep."""

LONGEST_MANAGER: Final = 128
"""Bytes of the name of a manager."""

_EPOCH: Final = "1970-01-01T00:00:00Z"

Key = tuple[str, str, str, str]
"""The identity of an entry: manager, operation, API version (of updates alone) and subresource."""


@dataclass(frozen=True, slots=True)
class ManagedEntry:
    """The fields that one manager has set by one kind of request."""

    manager: str
    operation: str
    """`Apply` or `Update`."""

    api_version: str
    subresource: str
    fields: FieldSet
    time: str
    """When the entry last changed, as RFC 3339 in UTC. Empty if it is unknown."""

    @property
    def key(self) -> Key:
        """Its identity among the entries."""
        version = "" if self.operation == APPLY else self.api_version
        return (self.manager, self.operation, version, self.subresource)

    @property
    def written(self) -> str:
        """The entry as conflicts name it: `"kubectl" using v1`."""
        text = quoted(self.manager)
        if self.subresource:
            text += f" with subresource {quoted(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text

    @property
    def identifier(self) -> str:
        """The key by which Kubernetes sorts conflicts."""
        named = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.key[2],
            "subresource": self.subresource,
        }
        return json.dumps({key: value for key, value in named.items() if value}, separators=(",", ":"))

    def document(self) -> dict[str, Any]:
        """Return the entry as the API shows it."""
        found: dict[str, Any] = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        if self.time:
            found["time"] = self.time
        found["fieldsType"] = "FieldsV1"
        found["fieldsV1"] = self.fields
        if self.subresource:
            found["subresource"] = self.subresource
        return found


Entries = dict[Key, ManagedEntry]


def kept(document: Mapping[str, Any]) -> Entries:
    """Return the entries of a stored object, whose sets are as `field_sets` writes them. Empty if malformed."""
    try:
        return _entries(_listed(document), is_stored=True)
    except ValueError:
        return {}


def sent(document: Mapping[str, Any]) -> Entries | None:
    """Return the entries that a client has sent with an object. None if it sent none, or they are malformed.

    An empty list or one empty entry is the wish to forget all of them, and gives no entries.
    """
    listed = _listed(document)
    if listed in ([], [{}]):
        return {}
    try:
        return _entries(listed, is_stored=False) or None
    except ValueError:
        return None


def listed(entries: Entries) -> list[dict[str, Any]]:
    """Return the entries as the API shows them: appliers first, then by time and name."""
    ordered = sorted(
        entries.values(),
        key=lambda one: (one.operation, one.time or _EPOCH, one.manager, one.api_version, one.subresource),
    )
    return [entry.document() for entry in ordered]


def capped(entries: Entries) -> Entries:
    """Merge the oldest updates of each version into one entry if there are more than `MOST_UPDATES`."""
    updates = [entry for entry in entries.values() if entry.operation == UPDATE]
    if len(updates) <= MOST_UPDATES:
        return entries
    updates.sort(key=lambda one: (one.time or _EPOCH, one.identifier))
    result, left = dict(entries), len(updates)
    first: dict[str, ManagedEntry] = {}
    for entry in updates:
        if left <= MOST_UPDATES:
            break
        earliest = first.setdefault(entry.api_version, entry)
        if earliest is entry:
            continue
        bucket = replace(entry, manager=ANCIENT, subresource="")
        if bucket.key not in result:
            del result[earliest.key]
            result[bucket.key] = replace(bucket, fields=earliest.fields)
        fields = sets.ordered(sets.union(entry.fields, result[bucket.key].fields))
        del result[entry.key]
        result[bucket.key] = replace(bucket, fields=fields)
        left -= 1
    return result


def manager_of(field_manager: str, user_agent: str) -> str:
    """Return the name of the manager of a request: `fieldManager`, otherwise the user agent up to the first slash."""
    if field_manager:
        return field_manager
    name = ""
    for char in user_agent.partition("/")[0]:
        if not char.isprintable():
            continue
        if len((name + char).encode()) > LONGEST_MANAGER:
            break
        name += char
    return name


def rfc3339(now: datetime) -> str:
    """Return an instant in whole seconds, as entries have it."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _listed(document: Mapping[str, Any]) -> Any:
    metadata = document.get("metadata")
    return metadata.get("managedFields") if isinstance(metadata, Mapping) else None


def _entries(listed: Any, *, is_stored: bool) -> Entries:
    if listed is None:
        return {}
    if not isinstance(listed, list):
        raise ValueError("managedFields: must be a list")  # noqa: TRY004 - what a client sends has a wrong value
    found = (_entry(one, is_stored=is_stored) for one in listed)
    return {entry.key: entry for entry in found}


def _entry(one: Any, *, is_stored: bool) -> ManagedEntry:
    if not isinstance(one, Mapping):
        raise ValueError("managedFields: an entry must be an object")  # noqa: TRY004 - as above
    texts = [_text(one, name) for name in ("manager", "operation", "apiVersion", "subresource", "fieldsType", "time")]
    manager, operation, api_version, subresource, fields_type, time = texts
    if operation not in {APPLY, UPDATE} or not api_version or fields_type != "FieldsV1":
        raise ValueError("managedFields: an entry has no valid operation, apiVersion or fieldsType")
    fields = one.get("fieldsV1")
    if not is_stored:
        fields = sets.read({} if fields is None else fields)
        time = rfc3339(datetime.fromisoformat(time)) if time else ""
    return ManagedEntry(manager, operation, api_version, subresource, fields or {}, time)


def _text(one: Mapping[str, Any], name: str) -> str:
    found = one.get(name)
    if found is not None and not isinstance(found, str):
        raise ValueError(f"managedFields: {name} must be a string")
    return found or ""


def owned(entries: Iterable[ManagedEntry]) -> FieldSet:
    """Return the union of all entries' sets."""
    found: FieldSet = {}
    for entry in entries:
        found = sets.union(found, entry.fields)
    return found
