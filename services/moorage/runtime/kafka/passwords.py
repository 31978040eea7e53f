"""Passwords that are read from their file when a connection needs them.

aiokafka 0.14 takes a password as text, once for the life of a client. Here it gets an object instead, which is asked
for the text when a connection authenticates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiokafka.conn import AIOKafkaConnection
from pydantic import SecretStr

_AUTHENTICATORS = ("authenticator_plain", "authenticator_scram")


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


def read_passwords_late() -> None:
    """Make connections ask for the password when they authenticate.

    This changes aiokafka's class, because aiokafka creates its connections itself. Further calls change nothing.
    """
    for name in _AUTHENTICATORS:
        make = getattr(AIOKafkaConnection, name)
        if not hasattr(make, "__wrapped__"):
            setattr(AIOKafkaConnection, name, _reading(make))


def _reading(make: Callable[[AIOKafkaConnection], Any]) -> Callable[[AIOKafkaConnection], Any]:
    @functools.wraps(make)
    def making(self: AIOKafkaConnection) -> Any:
        given = self._sasl_plain_password
        if isinstance(given, Password):
            self._sasl_plain_password = given.now()
            try:
                return make(self)
            finally:
                self._sasl_plain_password = given
        return make(self)

    return making
