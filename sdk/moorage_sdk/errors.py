"""Errors of the SDK."""

from __future__ import annotations

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
