"""A file that is read again when it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog

from moorage.runtime.process.shared_files import stamp_of

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class ChangingFile(Generic[T]):
    """The content of a file. If a changed file cannot be read, what was read before stays, and the log says why.

    Args:
        path: the file.
        read: returns what is in a text.

    Raises:
        OSError: the file cannot be read now.
        ValueError: from `read`.
    """

    def __init__(self, path: str, read: Callable[[str], T]) -> None:
        self._path = Path(path)
        self._read = read
        self._seen = stamp_of([self._path])
        self._content = read(self._path.read_text("utf-8"))

    @property
    def content(self) -> T:
        """What is in the file now."""
        try:
            stamp = stamp_of([self._path])
            if stamp != self._seen:
                self._seen = stamp
                self._content = self._read(self._path.read_text("utf-8"))
                _log.info("authentication.file_read", file=str(self._path))
        except (OSError, ValueError) as error:
            _log.warning("authentication.file_unreadable", file=str(self._path), problem=str(error))
        return self._content
