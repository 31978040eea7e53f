"""Errors as pages show them: with the code and the message that the API gives for the same."""

from __future__ import annotations

from collections.abc import Iterable


class PageError(Exception):
    """A failed request.

    Args:
        code: the HTTP status.
        message: the message, for people.
        causes: the messages of its causes.
        retry_after: seconds after which it may succeed. 0 if that is not known.
    """

    def __init__(self, code: int, message: str, *, causes: Iterable[str] = (), retry_after: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.causes = tuple(causes)
        self.retry_after = retry_after


def bad_request(message: str) -> PageError:
    """400: the request cannot be understood."""
    return PageError(400, message)
