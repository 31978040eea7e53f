"""The table of bugs, and how one is planted into the code of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

Change = tuple[Any, str, Any]
"""Of what, which attribute, and what it is to be."""


@dataclass(frozen=True, slots=True)
class Bug:
    """One thing done wrong on purpose."""

    name: str
    what: str
    """In one sentence."""

    changes: Callable[[], list[Change]]
    themes: tuple[str, ...] = ()
    """The themes of the stories that are the likeliest to find it; none where any will do."""

    acknowledging: bool = False
    """Whether it shows only with a deployer that acknowledges evictions."""

    chained: bool = False
    """Whether it shows only where services run as a chain."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Put it into the code of this process for a while."""
        before = []
        try:
            for owner, name, value in self.changes():
                before.append((owner, name, vars(owner)[name]))
                setattr(owner, name, value)
            yield
        finally:
            for owner, name, value in reversed(before):
                setattr(owner, name, value)


BUGS: Final[dict[str, Bug]] = {}
"""All of them, by name."""


def bug(
    name: str, what: str, *themes: str, acknowledging: bool = False, chained: bool = False
) -> Callable[[Callable[[], list[Change]]], Callable[[], list[Change]]]:
    """Register a bug; the function gives the changes."""

    def register(changes: Callable[[], list[Change]]) -> Callable[[], list[Change]]:
        BUGS[name] = Bug(name, what, changes, themes, acknowledging, chained)
        return changes

    return register
