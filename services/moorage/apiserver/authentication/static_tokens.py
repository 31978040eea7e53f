"""Static tokens: a file of tokens and users, in the form of a kube-apiserver's `--token-auth-file`."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping
from typing import Final

from moorage.apiserver.authentication.changing_file import ChangingFile
from moorage.decide.kubernetes.attributes import User

_LEAST: Final = 3  # token, user, uid


def read_tokens(text: str) -> Mapping[bytes, User]:
    """Return the users of a token file by the hashes of their tokens.

    Each line is `token,user,uid`, optionally followed by a quoted list of groups.

    Raises:
        ValueError: a line is invalid. The message names it, and never shows a token.
    """
    found: dict[bytes, User] = {}
    for number, row in enumerate(csv.reader(text.splitlines(), skipinitialspace=True), 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < _LEAST:
            raise ValueError(f"line {number}: must have a token, a user and a uid, separated by commas")
        token, name, uid, *more = (part.strip() for part in row)
        if not token or not name:
            raise ValueError(f"line {number}: {'the token' if not token else 'the user'} must not be empty")
        if digest(token) in found:
            raise ValueError(f"line {number}: an earlier line has the same token")
        groups = tuple(part.strip() for part in more[0].split(",") if part.strip()) if more else ()
        found[digest(token)] = User(name, groups, uid)
    return found


def digest(token: str) -> bytes:
    """Return the hash by which a token is looked up, so that the time which that takes says nothing about tokens."""
    return hashlib.sha256(token.encode()).digest()


class StaticTokens:
    """The users of a token file.

    Args:
        file: its path.

    Raises:
        OSError: it cannot be read.
        ValueError: it has an invalid line.
    """

    def __init__(self, file: str) -> None:
        self._file = ChangingFile(file, read_tokens)

    def find(self, token: str) -> User | None:
        """Return whose token it is. None if it is nobody's."""
        return self._file.content.get(digest(token))
