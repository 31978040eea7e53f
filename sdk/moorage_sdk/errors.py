"""Errors of the SDK."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


class SdkError(Exception):
    """Something that the program cannot put right by trying again."""


class TransportError(Exception):
    """Moorage cannot be reached, or does not take anything now. It is tried again.

    Args:
        message: what has happened.
        retry_after: seconds after which the other side asks to try again. None if it says nothing.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class PartlySentError(TransportError):
    """Some of the reports were not taken now. Only those are to be sent again.

    Args:
        message: why.
        retry_after: seconds after which the other side asks to try again. None if it says nothing.
        again: the ids of the reports to send again.
        refused: those of the others that do not count.
    """

    def __init__(
        self, message: str, retry_after: float | None, *, again: Collection[str], refused: Sequence[Refusal]
    ) -> None:
        super().__init__(message, retry_after)
        self.again = frozenset(again)
        self.refused = tuple(refused)


class RefusedError(Exception):
    """Raised by a handler that will not carry out a decision. It is not called again for the same decision."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A report that does not count, and why."""

    id: str
    """The id of the report."""

    reason: str
    """The reason as one word, such as `UnknownTarget`."""

    message: str
    """The reason as text, with the field, its value and the rule."""

    subject: str = ""
    """The target, with the type of the condition if it is known: `Node/n1 Ready`."""

    is_ignored: bool = False
    """Whether the report is valid, and changes nothing because a newer one is known."""
