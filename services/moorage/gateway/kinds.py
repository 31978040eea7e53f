"""What the gateway serves: each kind at each of its API versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from moorage.kinds import binding, kind, placement_decision, resource_binding, workload_placement
from moorage.kinds.kind import Kind

BINDING_KIND = resource_binding.KIND.kind
DECISION_KIND = placement_decision.KIND.kind
PLACED_KIND = workload_placement.KIND.kind

VIEW_API_VERSION = binding.KIND.api_versions[0]
"""The API version of the read-only kinds that are Moorage's own."""


@dataclass(frozen=True, slots=True)
class ServedKind:
    """One kind at one API version."""

    definition: Kind[Any]
    version: str

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.definition.group

    @property
    def kind(self) -> str:
        """As objects name it: `Node`."""
        return self.definition.kind

    @property
    def plural(self) -> str:
        """As paths name it: `nodes`."""
        return self.definition.plural

    @property
    def namespaced(self) -> bool:
        """Whether its objects are in namespaces."""
        return self.definition.namespaced

    @property
    def api_version(self) -> str:
        """`group/version`; the core group has no prefix."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def verbs(self) -> list[str]:
        """What can be done with it, as discovery says it."""
        reading = ["get", "list", "watch"]
        return reading if self.definition.read_only else sorted(["create", "delete", "patch", "update", *reading])

    def converted(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """A stored object in the words of this version."""
        return self.definition.converted(document, self.version)


def served() -> tuple[ServedKind, ...]:
    """Every kind at every version, in the order of discovery."""
    return _served(kind.discovered())


def served_at(group: str, version: str, plural: str) -> ServedKind | None:
    """What a path names; None when nothing is served there."""
    return _by_path(kind.discovered()).get((group, version, plural))


def is_view(name: str) -> bool:
    """Whether the services alone write objects of a kind."""
    found = kind.named(name)
    return found is not None and found.read_only


@cache
def _served(kinds: tuple[Kind[Any], ...]) -> tuple[ServedKind, ...]:
    return tuple(ServedKind(one, version) for one in kinds for version in one.versions)


@cache
def _by_path(kinds: tuple[Kind[Any], ...]) -> dict[tuple[str, str, str], ServedKind]:
    return {(one.group, one.version, one.plural): one for one in _served(kinds)}
