"""What a guard looks at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moorage.apiserver.kinds.kind import ServedKind


@dataclass(frozen=True, slots=True)
class GuardedWrite:
    """A write that is checked against what its writer may do."""

    kind: ServedKind
    namespace: str
    """Empty for what is in no namespace."""

    before: Mapping[str, Any] | None
    """The object as it is shown. None if it is created."""

    after: Mapping[str, Any]
    """The object as it is wanted."""

    @property
    def name(self) -> str:
        """The name of the object."""
        return str(self.after["metadata"].get("name") or "")

    @property
    def named(self) -> str:
        """The name that the request names: none if it creates the object."""
        return self.name if self.before is not None else ""
