"""Limits of a document, so that it can be written as JSON and be walked through."""

from __future__ import annotations

from typing import Final

DEEPEST: Final = 100
"""Levels of nesting. Deeper documents are no resources, and would cost recursion."""

TOO_DEEP: Final = f"exceeded max depth: at most {DEEPEST} levels are allowed"
"""The message for a document that is nested deeper."""

INTEGERS: Final = range(-(2**63), 2**63)
"""The integers that every part of the system can keep."""


class ParseError(ValueError):
    """A text that is neither JSON nor YAML. The message is the one of upstream's decoder where it has one."""
