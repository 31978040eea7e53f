"""Targets: the filter by patterns, and the target of a record's key."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

from moorage_schemas.refs import TargetRef
from moorage_schemas.topics import Topic
from moorage_sdk.errors import InvalidValueError


class Targets:
    """The targets of a deployer, as patterns: `Node/n1`, `Node/rack7-*`, `Cluster/*`.

    Args:
        patterns: the patterns. None selects all targets.

    Raises:
        InvalidValueError: a pattern has no kind.
    """

    def __init__(self, patterns: Collection[str] | None) -> None:
        for pattern in patterns or ():
            if "/" not in pattern:
                raise InvalidValueError("targets", pattern, "expected Kind/name, such as Node/n1 or Node/*")
        self.patterns = tuple(patterns) if patterns is not None else None

    def __contains__(self, target: str) -> bool:
        return self.patterns is None or any(fnmatchcase(target, pattern) for pattern in self.patterns)


def target_of(topic: Topic, key: str) -> TargetRef | None:
    """Return the target of a record. None if the topic's keys name none.

    Raises:
        ValueError: the key names no target, although those of the topic do.
    """
    names = topic.key.split("|")
    if "target" not in names:
        return None
    parts = key.split("|")
    place = names.index("target")
    return TargetRef.parse(parts[place] if place < len(parts) else "")
