"""Errors that are shown to the user in a line or two, never as a traceback."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

FAILED = 1
"""Exit code: the command is valid, but has failed."""

USAGE = 2
"""Exit code: the command line is invalid."""


def warn(text: str) -> None:
    """Write one line to stderr."""
    typer.echo(text, err=True)


class CliError(Exception):
    """A failure with a message for the user.

    `prefix` is the beginning of the line. The default is kubectl's `error: `.
    """

    def __init__(self, message: str, *, prefix: str = "error: ", code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.prefix = prefix
        self.code = code

    def __str__(self) -> str:
        return f"{self.prefix}{self.message}"


class UsageError(CliError):
    """The command line is invalid. The exit code is 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=USAGE)


class ServerError(CliError):
    """The gateway refused, in kubectl's words: `Error from server (NotFound): nodes "x" not found`.

    `reason`, `message` and `details` are those of the Status object.
    """

    def __init__(self, *, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        if reason == "Unauthorized":
            prefix, message = "error: ", "You must be logged in to the server (Unauthorized)"
        elif reason == "Invalid":
            prefix = "" if message.startswith("The ") else "The "
        else:
            prefix = f"Error from server ({reason}): " if reason else "Error from server: "
        super().__init__(message, prefix=prefix)
        self.status = status
        self.reason = reason
        self.details = details or {}


class UnreachableError(CliError):
    """The gateway does not answer."""

    def __init__(self, server: str, why: str) -> None:
        super().__init__(
            f"the gateway at {server} does not answer ({why}).\n"
            "Start one with `moorage up` or `moorage run gateway`, or name another with --server or MOORAGE_SERVER."
        )
        self.server, self.why = server, why
