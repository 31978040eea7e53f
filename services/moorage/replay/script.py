"""An engine's book in a replay: what was found then is given again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from moorage.replay.recording import RecordedRecord, Recording
from moorage.runtime.engine.journal import Flag, Taken, time_of
from moorage.runtime.engine.requests import Bounded, Bounds, Refresh, Request
from moorage.runtime.service import Freshness
from moorage_schemas.topics import Topic


class MisfitError(Exception):
    """The engine does otherwise than it did: it asks for something else, or comes by in another order."""


class MissingError(Exception):
    """A record that was read then is not in the recording."""


def records_of(recording: Recording, topic: Topic, partition: int, offsets: Sequence[int]) -> list[RecordedRecord]:
    """The records of a stretch of offsets, as the journal writes it.

    Raises:
        MissingError: one is not there.
    """
    there = recording.places.get((topic.short, partition), {})
    found = []
    offset = offsets[0]
    for place, count in enumerate(offsets[1:]):
        if place % 2 == 0:
            for number in range(offset, offset + count):
                record = there.get(number)
                if record is None:
                    raise MissingError(f"{topic.short}/{partition}@{number} was read and is not there any more")
                found.append(record)
        offset += count
    return found


class Script:
    """What one engine found, token by token.

    Args:
        recording: where the records are.
        topics: of the run, by number.
        partition: the engine's.
    """

    heavy = False

    def __init__(self, recording: Recording, topics: Sequence[Topic], partition: int) -> None:
        self._recording = recording
        self._topics = topics
        self._partition = partition
        self._tokens: Sequence[Any] = ()
        self._at = 0

    # For whoever drives the engine.

    def feed(self, tokens: Sequence[Any]) -> None:
        """What it found until others had their turn."""
        self._tokens, self._at = tokens, 0

    def went_on(self) -> bool:
        """Whether it went on at once after it had asked for something."""
        return self._flag("t")

    def end(self) -> None:
        """It has come to a halt.

        Raises:
            MisfitError: it went further then.
        """
        if self._at < len(self._tokens):
            raise MisfitError(f"it ends where it then found {self._tokens[self._at]!r}")

    def answer(self, request: Request) -> Bounded | Freshness | None:
        """What it was told.

        Raises:
            MisfitError: it asked for something else.
        """
        if not isinstance(request, Bounds | Refresh):
            return None
        found = self._next(list, request)
        try:
            if isinstance(request, Bounds):
                begins, ends = found
                return Bounded(
                    dict(zip(request.begin, begins, strict=True)),
                    dict(zip((*request.end, *request.committed), ends, strict=True)),
                )
            if not found:
                return None
            now, ends, lagging = found
            return Freshness(
                time_of(now),
                dict(zip(request.needs.tables, ends, strict=True)),
                None if lagging is None else frozenset(lagging),
            )
        except (ValueError, TypeError):
            raise MisfitError(f"it asks {request!r} and was then told {found!r}") from None

    # For the engine.

    def restores(self, committed: Mapping[Topic, int | None], no_later: Mapping[Topic, int]) -> None:
        """It knows."""

    def decides(self, now: datetime) -> int:  # noqa: ARG002 - as of Book
        """Whoever drives it knows the number."""
        return -1

    def resumed(self, request: Request, answer: object) -> None:
        """Whoever drives it has seen to that."""

    def folded(self, topic: Topic, records: Sequence[Any]) -> None:
        """It was told to."""

    def forgot(self) -> None:
        """It was told to."""

    def took(self, take: Callable[[], Taken]) -> Taken:  # noqa: ARG002 - nothing waits here
        """The records that it took then."""
        taken: list[tuple[Topic, Any]] = []
        for number, *offsets in self._next(list, "records"):
            topic = self._topics[number]
            taken += [(topic, record) for record in records_of(self._recording, topic, self._partition, offsets)]
        return taken

    def flag(self, flag: Flag, found: bool) -> bool:  # noqa: ARG002, FBT001 - as of Book
        """Whether it held then."""
        return self._flag(flag.value)

    def slice(self, before: int, found: int) -> int:  # noqa: ARG002 - as of Book
        """How large slices were from here on."""
        token = self._peek()
        if isinstance(token, str) and token.startswith("z"):
            self._at += 1
            return int(token[1:])
        return before

    def passed(self, found: Mapping[Topic, int]) -> Mapping[Topic, int]:  # noqa: ARG002 - as of Book
        """Which markers were passed then."""
        token = self._peek()
        if not isinstance(token, dict):
            return {}
        self._at += 1
        flat = token["m"]
        return {self._topics[flat[place]]: flat[place + 1] for place in range(0, len(flat), 2)}

    def _peek(self) -> Any:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _flag(self, token: str) -> bool:
        if self._peek() == token:
            self._at += 1
            return True
        return False

    def _next(self, kind: type[list[Any]], wanted: object) -> list[Any]:
        token = self._peek()
        if not isinstance(token, kind):
            raise MisfitError(f"it asks for {wanted!r} where it then found {token!r}")
        self._at += 1
        return token
