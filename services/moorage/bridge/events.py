"""Events about objects of a real cluster, as `kubectl describe` shows them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from moorage_schemas.resources.names import DEFAULT_NAMESPACE

NORMAL: Final = "Normal"
WARNING: Final = "Warning"
CONTRADICTED: Final = "MoorageContradicted"
"""The reason of an event about what somebody else undoes."""

_COMPONENT: Final = "moorage-bridge"
_LONGEST_NAME: Final = 253
_LONGEST_MESSAGE: Final = 1024
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9.-]")

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Regarding:
        """Return what names an object."""
        metadata = found["metadata"]
        return cls(
            str(found.get("apiVersion") or ""),
            str(found["kind"]),
            str(metadata.get("namespace") or ""),
            str(metadata["name"]),
            str(metadata.get("uid") or ""),
        )

    @property
    def reference(self) -> JsonObject:
        """The object as an event names it."""
        found = {"apiVersion": self.api_version, "kind": self.kind, "namespace": self.namespace}
        return {name: value for name, value in (found | {"name": self.name, "uid": self.uid}).items() if value}


def event(about: Regarding, kind: str, reason: str, message: str) -> JsonObject:
    """Return an event about an object as of now. The same event has the same name, so it is there once.

    Args:
        about: the object.
        kind: `NORMAL` or `WARNING`.
        reason: one word.
        message: one sentence. What is too long is cut off.
    """
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    suffix = "." + hashlib.blake2b(f"{about.uid}\0{reason}\0{message}".encode(), digest_size=8).hexdigest()
    # Names of some kinds, such as ClusterRole, have characters that those of events may not have.
    name = _NOT_IN_NAMES.sub("-", about.name.lower())[: _LONGEST_NAME - len(suffix)] + suffix
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about.namespace or DEFAULT_NAMESPACE},
        "involvedObject": about.reference,
        "type": kind,
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "reportingInstance": _COMPONENT,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def contradicted(about: Regarding, what: str) -> JsonObject:
    """Return the event that somebody else undoes what a bridge writes to an object.

    Args:
        about: the object.
        what: is written and undone, such as `taints`.
    """
    message = f"Somebody else undoes the {what} that Moorage writes. They are written again less and less often."
    return event(about, WARNING, CONTRADICTED, message)
