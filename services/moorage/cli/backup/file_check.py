"""Checks an exported file whole, before anything is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from moorage.cli.backup.fleet_file import END, Begin, End, FileReader
from moorage.cli.backup.saved_record import DocumentError, SavedRecord, parsed, record_of
from moorage.cli.backup.saved_topics import SAVED, flaw_of

_SHOWN = 20
"""The number of errors after which a check ends."""


class InvalidFileError(Exception):
    """A file is wrong. Each line of the message is `FILE: document N (TOPIC KEY): FIELD: problem: expected X`."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file without errors."""

    begin: Begin
    end: End


def check(reader: FileReader, progress: Callable[[int], None] = lambda _count: None) -> CheckedFile:
    """Check every document of a file.

    Args:
        reader: the file.
        progress: called with the number of documents that were checked.

    Raises:
        InvalidFileError: a document is wrong.
        FileError: the file cannot be read.
    """
    return _Check(progress).run(reader)


class _Check:
    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress = progress
        self._errors: list[str] = []
        self._begin: Begin | None = None
        self._end: End | None = None
        self._counts: Counter[str] = Counter()
        self._offsets: dict[tuple[str, int], int] = {}

    def run(self, reader: FileReader) -> CheckedFile:
        count = 0
        for place, lines in reader:
            count += 1
            about = ""
            try:
                found, data = parsed(lines)
                about = f" ({found['topic']} {found.get('key')!s:.200})" if "topic" in found else ""
                self._document(found, data)
            except DocumentError as error:
                self._errors.append(f"{place}{about}: {error}")
                if self._begin is None or len(self._errors) > _SHOWN:
                    break
            self._progress(count)
        return self._result(reader, count)

    def _document(self, found: dict[str, object], data: bytes | None) -> None:
        if self._begin is None:
            self._begin = Begin.of(found)
        elif self._end is not None:
            raise DocumentError(f"document: comes after {END}: expected the end of the file")
        elif found.get("kind") == END:
            self._end = End.of(found)
        else:
            self._record(record_of(found, data, self._begin.partitions), self._begin.partitions)

    def _record(self, record: SavedRecord, partitions: int) -> None:
        topic, place = record.topic, (record.topic.short, record.partition)
        self._counts[topic.short] += 1
        if topic not in SAVED:
            raise DocumentError(f"topic: invalid value {topic.short!r}: expected a topic that is exported")
        if record.offset <= self._offsets.get(place, -1):
            raise DocumentError(
                f"place: offset {record.offset} is not after that of the record before it in its partition"
            )
        self._offsets[place] = record.offset
        if flaw := flaw_of(record, partitions):
            raise DocumentError(flaw)

    def _result(self, reader: FileReader, count: int) -> CheckedFile:
        name = reader.name or reader.path.name
        if not count:
            self._errors.append(f"{name}: empty: expected the documents of `moorage export --state`")
        if not self._errors:
            if self._end is None:
                self._errors.append(f"{name}: {END}: missing: expected it as the last document; the file is cut off")
            elif (expected := dict(self._end.records)) != dict(self._counts):
                wrong = next(
                    short
                    for short in sorted({*expected, *self._counts})
                    if expected.get(short, 0) != self._counts[short]
                )
                self._errors.append(
                    f"{name}: {END}: records.{wrong}: invalid value {expected.get(wrong, 0)}: "
                    f"expected {self._counts[wrong]}, the number of its documents"
                )
        if self._errors:
            more = [f"more errors follow after the first {_SHOWN}"] if len(self._errors) > _SHOWN else []
            raise InvalidFileError("\n".join([*self._errors[:_SHOWN], *more]))
        if self._begin is None or self._end is None:
            raise RuntimeError("a file without errors has a first and a last document")
        return CheckedFile(self._begin, self._end)
