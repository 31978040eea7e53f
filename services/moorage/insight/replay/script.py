"""An engine's book in a replay: it returns what the engine found in the recorded run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from moorage.insight.replay.recording import RecordedRecord, Recording
from moorage.runtime.engine.journal import Book, Flag, Taken, time_of
from moorage.runtime.engine.requests import Bounded, Bounds, Refresh, Request
from moorage.runtime.service import EVERYTHING, Freshness
from moorage_schemas.topics import Topic


class MisfitError(Exception):
    """The engine deviates from the recorded run: it makes another request, or takes its steps in another order."""


class MissingError(Exception):
    """A record that was read in the recorded run is not in the recording."""


def records_of(recording: Recording, topic: Topic, partition: int, offsets: Sequence[int]) -> list[RecordedRecord]:
    """Return the records of a list of offsets in the journal's notation. Raises MissingError if a record is missing."""
    there = recording.places.get((topic.short, partition), {})
    found = []
    offset = offsets[0]
    for place, count in enumerate(offsets[1:]):
        if place % 2 == 0:
            for number in range(offset, offset + count):
                record = there.get(number)
                if record is None:
                    raise MissingError(f"{topic.short}/{partition}@{number} was read and no longer exists")
                found.append(record)
        offset += count
    return found


def records_below(recording: Recording, topic: Topic, partition: int, end: int) -> list[RecordedRecord]:
    """Return the records of a partition below an offset, in their order."""
    there = recording.places.get((topic.short, partition), {})
    return [there[offset] for offset in sorted(there) if offset < end]


class Script(Book):
    """The part of the recorded run that one engine found, token by token.

    Args:
        topics: the topics of the run, by number.
    """

    def __init__(self, recording: Recording, topics: Sequence[Topic], partition: int) -> None:
        self._recording = recording
        self._topics = topics
        self._partition = partition
        self._tokens: Sequence[Any] = ()
        self._at = 0

    # Called by the player.

    def feed(self, tokens: Sequence[Any]) -> None:
        """Set what the engine found up to the next point where other tasks had their turn."""
        self._tokens, self._at = tokens, 0

    def went_on(self) -> bool:
        """Return whether the engine continued at once after a request."""
        return self._flag("t")

    def end(self) -> None:
        """Check that the engine stops where it stopped in the recorded run.

        Raises:
            MisfitError: in the recorded run it went further.
        """
        if self._at < len(self._tokens):
            raise MisfitError(f"it ends where it then found {self._tokens[self._at]!r}")

    def answer(self, request: Request) -> Bounded | Freshness | None:
        """Return the recorded answer to a request.

        Raises:
            MisfitError: the engine made another request in the recorded run.
        """
        if not isinstance(request, Bounds | Refresh):
            return None
        found = self._next(request)
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
                _lagging(lagging),
                request.needs.keys,
            )
        except (ValueError, TypeError):
            raise MisfitError(f"it asks {request!r} and then received {found!r}") from None

    # Called by the engine. The player starts restores and decisions, and answers requests.

    @override
    def took(self, take: Callable[[], Taken]) -> Taken:
        # Those that the engine took in the recorded run.
        taken: list[tuple[Topic, Any]] = []
        for number, *offsets in self._next("records"):
            topic = self._topics[number]
            taken += [(topic, record) for record in records_of(self._recording, topic, self._partition, offsets)]
        return taken

    @override
    def flag(self, flag: Flag, found: bool) -> bool:
        return self._flag(flag.value)

    @override
    def slice(self, before: int, found: int) -> int:
        token = self._peek()
        if isinstance(token, str) and token.startswith("z"):
            self._at += 1
            return int(token[1:])
        return before

    @override
    def passed(self, found: Mapping[Topic, int]) -> Mapping[Topic, int]:
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

    def _next(self, wanted: object) -> list[Any]:
        token = self._peek()
        if not isinstance(token, list):
            raise MisfitError(f"it requests {wanted!r} where it then found {token!r}")
        self._at += 1
        return token


def _lagging(found: Any) -> dict[str, str]:
    """Return the lagging keys of a recorded read. Those of version 0.1.0 have no service, and None for all."""
    if isinstance(found, dict):
        return found
    return {EVERYTHING: ""} if found is None else dict.fromkeys(found, "")
