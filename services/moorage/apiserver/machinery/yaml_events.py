"""Limits of a YAML text: it may not nest without end, or grow by aliases.

An alias stands for all that its anchor marks, so a text of nine short lines can stand for a billion values. Merge keys
(`<<`) grow in the same way, and take the time for it while they are read. So the parser's events are counted before
anything is made of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import yaml

MOST_BY_ALIASES: Final = 100_000
"""The number of values that a text may stand for by its aliases, beyond those that are written in it."""

DEEPEST: Final = 1_000
"""Levels of nesting that a text may have. A reader calls itself for each."""

EXCESSIVE: Final = "document contains excessive aliasing"
"""The message of upstream's parser."""


class TooLargeYamlError(yaml.YAMLError):
    """A text stands for more than may be read."""


class DepthError(TooLargeYamlError):
    """A text is nested too deeply."""


def check_events(events: Iterable[Any], deepest: int = DEEPEST, *, documents: int | None = None) -> None:
    """Check the events of a YAML parser.

    `deepest` are levels of nesting. `documents` is how many are read; None means all.

    Raises:
        DepthError: a document is nested too deeply.
        TooLargeYamlError: a document has too many values by its aliases.
        YAMLError: the text is no YAML.
    """
    document, left = _Document(deepest), documents
    for event in events:
        if isinstance(event, yaml.DocumentEndEvent):
            document, left = _Document(deepest), None if left is None else left - 1
            if left == 0:
                return
        else:
            document.see(event)


class _Document:
    """Counts the values of one document."""

    def __init__(self, deepest: int) -> None:
        self._deepest = deepest
        self._sizes: dict[str | None, int] = {}
        """How many values an anchor stands for."""

        self._open: list[tuple[str | None, int]] = []
        """The anchors of the collections that are open, and how many values they have so far, with all aliases."""

        self._by_aliases = 0

    def see(self, event: Any) -> None:
        """Count an event."""
        match event:
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._open.append((event.anchor, 1))
                if len(self._open) > self._deepest:
                    raise DepthError(f"must be at most {self._deepest} levels deep")
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._add(*self._open.pop())
            case yaml.ScalarEvent():
                self._add(event.anchor, 1)
            case yaml.AliasEvent():
                # One that is not known, or that is within its own anchor, is an error when the document is made.
                size = self._sizes.get(event.anchor, 1)
                self._by_aliases += size
                if self._by_aliases > MOST_BY_ALIASES:
                    raise TooLargeYamlError(EXCESSIVE)
                self._add(None, size)

    def _add(self, anchor: str | None, size: int) -> None:
        """Add values to the collection around them."""
        if anchor is not None:
            self._sizes[anchor] = size
        if self._open:
            above, before = self._open[-1]
            self._open[-1] = (above, before + size)
