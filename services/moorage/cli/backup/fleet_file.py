"""An exported fleet as a file: a first document, one for each record, and a last one, without which it is cut off."""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Self, cast

from moorage.cli.backup.saved_record import DocumentError, json_line

API_VERSION: Final = "moorage.io/export.v1"
BEGIN: Final = "FleetExport"
END: Final = "FleetExportEnd"
STANDARD: Final = Path("-")
"""Stands for standard input and output."""

_SUFFIX: Final = ".yaml"
_UNFINISHED: Final = ".part"

Positions = Mapping[str, Mapping[str, Mapping[int, int]]]
"""The next offsets that consumer groups have not processed: by group without the topics' prefix, topic, partition."""


class FileError(Exception):
    """A file cannot be read or written. The message names it."""


class PipeClosed(Exception):  # noqa: N818 - no error: the reader of standard output has read enough
    """The reader of standard output has closed it."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The first document."""

    taken: str
    """When the ends of the topics were noted."""

    version: str
    """The version of Moorage that has written the file."""

    prefix: str
    partitions: int
    quiet: bool
    """Whether nothing was written to the topics while their ends were noted."""

    secrets: bool
    """Whether Secrets are in the file."""

    def document(self) -> bytes:
        """Return it as text."""
        return _document(
            {
                "apiVersion": API_VERSION,
                "kind": BEGIN,
                "taken": self.taken,
                "version": self.version,
                "prefix": self.prefix,
                "partitions": self.partitions,
                "quiet": self.quiet,
                "secrets": self.secrets,
            }
        )

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Begin:
        """Read it. Raises DocumentError if it is no such document."""
        if found.get("kind") != BEGIN:
            raise DocumentError(
                f"kind: invalid value {found.get('kind')!r}: expected {BEGIN}, as `moorage export --state` writes it"
                "; apply a file of declared objects with `moorage apply -f`"
            )
        if found.get("apiVersion") != API_VERSION:
            raise DocumentError(f"apiVersion: invalid value {found.get('apiVersion')!r}: expected {API_VERSION}")
        partitions = found.get("partitions")
        if type(partitions) is not int or partitions < 1:
            raise DocumentError(f"partitions: invalid value {partitions!r}: expected a whole number from 1")
        return cls(
            str(found.get("taken", "")),
            str(found.get("version", "")),
            str(found.get("prefix", "")),
            partitions,
            found.get("quiet") is True,
            found.get("secrets") is True,
        )


@dataclass(frozen=True, slots=True)
class End:
    """The last document."""

    records: Mapping[str, int]
    """The number of records of each topic."""

    positions: Positions
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of objects that were left out, by kind."""

    def document(self) -> bytes:
        """Return it as text."""
        positions = {
            group: {topic: {str(part): offset for part, offset in parts.items()} for topic, parts in topics.items()}
            for group, topics in self.positions.items()
        }
        return _document(
            {
                "kind": END,
                "records": dict(self.records),
                "positions": positions,
                "leftOut": dict(self.left_out),
            }
        )

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> End:
        """Read it. Raises DocumentError if a field is wrong."""
        records, left_out = found.get("records"), found.get("leftOut") or {}
        for name, counts in (("records", records), ("leftOut", left_out)):
            if not isinstance(counts, dict) or any(type(one) is not int or one < 0 for one in counts.values()):
                raise DocumentError(f"{name}: invalid value {counts!r:.80}: expected whole numbers by name")
        positions: dict[str, dict[str, dict[int, int]]] = {}
        groups = found.get("positions")
        for group, topics in groups.items() if isinstance(groups, dict) else [("", None)]:
            for topic, parts in topics.items() if isinstance(topics, dict) else [("", None)]:
                numbers = _numbers(parts)
                if numbers is None:
                    where = ".".join(part for part in ("positions", str(group), str(topic)) if part)
                    raise DocumentError(f"{where}: invalid value: expected offsets by partition")
                positions.setdefault(str(group), {})[str(topic)] = numbers
        return cls(records or {}, positions, left_out)


def _numbers(found: Any) -> dict[int, int] | None:
    """Return offsets by partition. None if they are something else."""
    if not isinstance(found, dict) or any(type(one) is not int or one < 0 for one in found.values()):
        return None
    try:
        return {int(part): offset for part, offset in found.items()}
    except (TypeError, ValueError):
        return None


def _document(fields: Mapping[str, Any]) -> bytes:
    return b"---\n" + b"".join(b"%s: %s\n" % (name.encode(), json_line(value)) for name, value in fields.items())


# Writing.


class FileWriter:
    """Writes documents to standard output, a file, or a folder with one file for each part.

    A file has its name only when it is whole.

    Args:
        target: a file, `-`, or a folder, which exists or ends with a slash.
    """

    def __init__(self, target: str) -> None:
        self._target = Path(target)
        self._in_folder = target.endswith("/") or self._target.is_dir()
        self._stack = contextlib.ExitStack()
        self._out: IO[bytes] | None = None
        self._parts: list[Path] = []
        self.bytes = 0
        """The number of bytes that were written, before they were compressed."""

    def __enter__(self) -> Self:
        with _named(self._target):
            if self._in_folder:
                self._target.mkdir(parents=True, exist_ok=True)
                if any(self._target.iterdir()):
                    raise FileError(f"{self._target}: not empty: expected an empty folder")
            elif self._target == STANDARD:
                self._out = sys.stdout.buffer
            else:
                self._open(self._target)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stack.close()
        if self._target == STANDARD and self._out is not None:
            self._out.flush()
        for path in self._parts:
            unfinished = path.with_name(path.name + _UNFINISHED)
            if error is None:
                unfinished.replace(path)
            else:
                unfinished.unlink(missing_ok=True)

    def part(self, name: str) -> None:
        """Begin a part. In a folder it is a file of its own, in the order in which the parts begin."""
        if self._in_folder:
            with _named(self._target):
                self._stack.close()
                self._open(self._target / f"{len(self._parts):02}-{name}{_SUFFIX}")

    def write(self, text: bytes) -> None:
        """Write documents."""
        if self._out is None:
            raise RuntimeError("a FileWriter is used inside `with`, and in a folder after `part`")
        self.bytes += len(text)
        with _named(self._target):
            self._out.write(text)

    def _open(self, path: Path) -> None:
        """Open a file that only this user can read, because it may hold everything of the fleet."""
        self._parts.append(path)
        unfinished = path.with_name(path.name + _UNFINISHED)
        unfinished.unlink(missing_ok=True)
        unfinished.touch(mode=0o600)
        raw: IO[bytes] = self._stack.enter_context(unfinished.open("wb"))
        if path.suffix == ".gz":
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=5)
            raw = cast("IO[bytes]", self._stack.enter_context(packed))
        self._out = raw


# Reading.


@dataclass(frozen=True, slots=True)
class DocumentPlace:
    """The place of a document."""

    file: str
    number: int
    """The number of the document in its file, from 1."""

    def __str__(self) -> str:
        return f"{self.file}: document {self.number}"


@dataclass(slots=True)
class FileReader:
    """Reads the documents of a file, or of the files of a folder in the order of their names."""

    path: Path
    name: str = ""
    """The name of the file for messages, if it has another one than its path."""

    read: int = 0
    """The number of bytes that were read, as they are on the disk."""

    def __iter__(self) -> Iterator[tuple[DocumentPlace, list[bytes]]]:
        """Yield the lines of each document. Each iteration begins at the beginning.

        Raises:
            FileError: a file cannot be read.
        """
        self.read = 0
        for path in self._files():
            with _named(path), path.open("rb") as raw:
                counted = _Counted(raw, self)
                packed = path.suffix == ".gz"
                with gzip.open(counted, "rb") if packed else io.BufferedReader(counted) as lines:
                    for number, document in enumerate(_split(lines), 1):
                        yield DocumentPlace(self.name or path.name, number), document

    @property
    def size(self) -> int:
        """The number of bytes of the files. Raises FileError if one cannot be read."""
        with _named(self.path):
            return sum(path.stat().st_size for path in self._files())

    def _files(self) -> list[Path]:
        if not self.path.is_dir():
            return [self.path]
        found = sorted(self.path.glob(f"*{_SUFFIX}"))
        if not found:
            raise FileError(f"{self.path}: has no *{_SUFFIX}: expected the folder that `moorage export` has written")
        return found


class _Counted(io.RawIOBase):
    """A file that counts what is read of it."""

    def __init__(self, raw: IO[bytes], reader: FileReader) -> None:
        self._raw = raw
        self._reader = reader

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        found = self._raw.read(len(into))
        into[: len(found)] = found
        self._reader.read += len(found)
        return len(found)


def _split(lines: Any) -> Iterator[list[bytes]]:
    """Yield the lines of each document that has any, without comments before it."""
    document: list[bytes] = []
    for line in lines:
        text = line.rstrip(b"\r\n")
        if text == b"---" or text.startswith(b"--- "):
            if document:
                yield document
            document = [text[4:]] if text[4:].strip() else []
        elif text and (document or not text.startswith(b"#")):
            document.append(text)
    if document:
        yield document


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise PipeClosed from None
    except (OSError, EOFError) as error:
        raise FileError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
