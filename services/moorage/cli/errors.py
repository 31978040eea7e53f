"""What goes wrong for a user: told in one line, never as a traceback."""

from __future__ import annotations

import typer

FAILED = 1
"""Exit code: the command was understood and could not be done."""

USAGE = 2
"""Exit code: the command line itself is wrong."""


def warn(text: str) -> None:
    """Write one line to stderr."""
    typer.echo(text, err=True)


class CliError(Exception):
    """A failure that a person can read.

    Args:
        message: what to write to stderr, without the prefix `error: `.
        prefix: how the line begins; kubectl's `error: ` unless the server speaks.
        code: the exit code.
    """

    def __init__(self, message: str, *, prefix: str = "error: ", code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.prefix = prefix
        self.code = code

    def __str__(self) -> str:
        return f"{self.prefix}{self.message}"


class UsageError(CliError):
    """The command line is wrong: exit code 2."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code=USAGE)


class ServerError(CliError):
    """The gateway refused, in kubectl's words: `Error from server (NotFound): nodes "x" not found`.

    Args:
        status: the HTTP status code.
        reason: the `reason` of the Status object, such as `NotFound`.
        message: its `message`.
    """

    def __init__(self, *, status: int, reason: str, message: str) -> None:
        if reason == "Invalid":
            prefix = "" if message.startswith("The ") else "The "
        else:
            prefix = f"Error from server ({reason}): " if reason else "Error from server: "
        super().__init__(message, prefix=prefix)
        self.status = status
        self.reason = reason


class UnreachableError(CliError):
    """Nobody answers at the gateway's address.

    Args:
        server: the address that was tried.
        why: the transport's reason.
    """

    def __init__(self, server: str, why: str) -> None:
        super().__init__(
            f"the gateway at {server} does not answer ({why}).\n"
            "Start one with `moorage up`, or name another with --server or MOORAGE_SERVER."
        )
