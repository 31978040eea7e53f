"""The log files of `moorage up`: read in the order of time, followed, and kept small.

Each child process appends to a file of its own. When the file is large, its content is copied beside it and the file is
emptied, so that the child keeps its open file. What a child writes between the two steps, a fraction of a millisecond,
may be lost.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

LARGEST: Final = 32 * 1024 * 1024
"""The size in bytes from which a file is rotated. One earlier file is kept."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_CHUNK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of a log, with the time by which it is merged with those of other processes."""

    time: datetime
    """Its own time, or that of the line before if it has none, such as a traceback."""

    process: str
    """The name of the process, which is that of its file."""

    text: str
    fields: dict[str, Any] = field(default_factory=dict)
    """The fields of a JSON line; empty for any other."""


def rotate(path: Path, largest: int = LARGEST) -> bool:
    """Move the content of a file to the one beside it if it is large. Return whether it was.

    Raises:
        OSError: the file cannot be copied, for example because the disk is full. Then it is emptied nevertheless.
    """
    try:
        if path.stat().st_size < largest:
            return False
    except FileNotFoundError:
        return False
    before = earlier(path)
    with path.open("rb") as source:
        try:
            with before.open("wb") as target:
                before.chmod(0o600)
                shutil.copyfileobj(source, target, _CHUNK)
                while rest := source.read(_CHUNK):  # written meanwhile
                    target.write(rest)
        finally:
            os.truncate(path, 0)
    return True


def earlier(path: Path) -> Path:
    """Return the file with the content before the last rotation."""
    return path.with_name(path.name + ".1")


class LogFile:
    """The lines of one process, from its earlier file on.

    Args:
        path: the present file. It need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.process = path.name.removesuffix(".log")
        self._position = 0
        self._rest = b""
        self._time = _LONG_AGO

    def read(self) -> Iterator[LogLine]:
        """Yield the lines so far, those of the earlier file first."""
        with contextlib.suppress(OSError):
            yield from self._lines(earlier(self.path).read_bytes())
        yield from self._parse_rest()
        yield from self.new()

    def new(self) -> Iterator[LogLine]:
        """Yield the complete lines since the last call."""
        try:
            size = self.path.stat().st_size
            if size < self._position:  # rotated, and the bytes from here on are in the earlier file, at the same place
                with contextlib.suppress(OSError):
                    yield from self._lines(_from(earlier(self.path), self._position))
                self._position = 0
            found = _from(self.path, self._position)
        except OSError:
            return
        self._position += len(found)
        yield from self._lines(found)

    def _lines(self, found: bytes) -> Iterator[LogLine]:
        *lines, self._rest = (self._rest + found).split(b"\n")
        for line in lines:
            if line.strip():
                yield self._parse(line.decode("utf-8", "replace"))

    def _parse_rest(self) -> Iterator[LogLine]:
        rest, self._rest = self._rest, b""
        if rest.strip():
            yield self._parse(rest.decode("utf-8", "replace"))

    def _parse(self, text: str) -> LogLine:
        fields: Any = None
        if text.startswith("{"):
            with contextlib.suppress(orjson.JSONDecodeError):
                fields = orjson.loads(text)
        if not isinstance(fields, dict):
            return LogLine(self._time, self.process, text)
        with contextlib.suppress(ValueError, TypeError):
            time = datetime.fromisoformat(fields.get("time") or fields["timestamp"])
            self._time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        return LogLine(self._time, self.process, text, fields)


def merged(files: Iterable[Iterable[LogLine]]) -> Iterator[LogLine]:
    """Yield the lines of several processes by time. Those of one process keep their order."""
    return heapq.merge(*files, key=lambda line: line.time)


def _from(path: Path, position: int) -> bytes:
    with path.open("rb") as file:
        file.seek(position)
        return file.read()
