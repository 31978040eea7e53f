"""Passwords that are read from their file when a connection needs them.

aiokafka takes a password as text, once for the life of a client. Here it gets an object instead, which is read when a
connection authenticates (`aiokafka_patches`).
"""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr


class SecretFileError(OSError):
    """A file with a secret cannot be read. The message names it."""


class Password:
    """A password, from the settings or from a file."""

    def __init__(self, text: SecretStr, file: str = "") -> None:
        self._text = text
        self._file = file

    def now(self) -> str:
        """Return the password. A line end at the end of the file does not count.

        Raises:
            SecretFileError: the file cannot be read.
        """
        if self._file:
            return read_secret(self._file)
        return self._text.get_secret_value()


def read_secret(file: str) -> str:
    """Return the secret that a file holds, without the line end that an editor adds.

    Raises:
        SecretFileError: the file cannot be read, or holds no text.
    """
    try:
        found = Path(file).read_text("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise SecretFileError(f"{file} is not text in UTF-8") from None
    except OSError as error:
        raise SecretFileError(f"{file} cannot be read: {error.strerror}") from None
    if not found:
        raise SecretFileError(f"{file} is empty")
    return found
