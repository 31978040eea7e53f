"""Fetch sessions (KIP-227): a broker remembers the partitions that a consumer fetches from it.

Without a session each fetch names all partitions with their offsets, and the answer names all of them again, even if
nothing is new. With one, a fetch names only the partitions that have changed since the last one, and the answer only
those with news. aiokafka 0.14 has no sessions.

A session belongs to one consumer and one broker, and has one fetch at a time. Its epoch grows with each fetch. When an
answer was lost, or the broker has forgotten the session, the next fetch names everything again and begins another. A
broker without room for another session answers such a fetch and remembers nothing, so the next one is like it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from aiokafka.errors import for_code
from aiokafka.protocol.fetch import FetchRequest

Topics: TypeAlias = Sequence[tuple[str, Sequence[tuple[int, int, int]]]]
"""The partitions of a fetch by topic, each with its offset and the most bytes to return."""

_NOT_FOUND: Final = 70
_INVALID_EPOCH: Final = 71
_SESSIONS_SINCE: Final = 7
"""The version of the request that brought sessions."""

_LAST_EPOCH: Final = 2**31 - 1


class FetchSession:
    """The memory of one broker of one consumer's fetches."""

    __slots__ = ("_assignment", "_sent", "epoch", "id")

    def __init__(self) -> None:
        self.id = 0
        """The broker's number of the session; 0 for none."""

        self.epoch = 0
        """The epoch of the next fetch. With 0 the fetch names everything, and the broker drops the session `id`."""

        self._assignment: object = None
        self._sent: dict[tuple[str, int], tuple[int, int]] = {}

    def request(self, whole: FetchRequest, assignment: object) -> SessionFetchRequest:
        """Return the request for a fetch. It counts as sent.

        Args:
            whole: the fetch without a session.
            assignment: the consumer's assignment. A new one has forgotten what answers have stated, so all is named.
        """
        if assignment is not self._assignment:
            self._assignment = assignment
            self.lost()
        sent = self._sent if self.epoch else {}
        wanted: dict[tuple[str, int], tuple[int, int]] = {}
        changed: list[tuple[str, list[tuple[int, int, int]]]] = []
        for topic, partitions in whole.topics:
            news = []
            for entry in partitions:
                place, known = (topic, entry[0]), entry[1:]
                wanted[place] = known
                if sent.get(place) != known:
                    news.append(entry)
            if news:
                changed.append((topic, news))
        forgotten: dict[str, list[int]] = {}
        for topic, partition in sent.keys() - wanted.keys():
            forgotten.setdefault(topic, []).append(partition)
        self._sent = wanted
        return SessionFetchRequest(whole, (self.id, self.epoch), changed, list(forgotten.items()))

    def includes(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether the last request fetches a partition from an offset."""
        known = self._sent.get((topic, partition))
        return known is not None and known[0] == offset

    def answered(self, response: Any) -> None:
        """Note an answer. Raises KafkaError if it is an error that naming everything does not mend."""
        if response.API_VERSION < _SESSIONS_SINCE:
            return
        code = response.error_code
        if code:
            self.epoch = 0
            if code == _NOT_FOUND:
                self.id = 0
            elif code != _INVALID_EPOCH:
                raise for_code(code)
        elif not response.session_id:
            self.id = self.epoch = 0
        else:
            self.id = response.session_id
            self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def lost(self) -> None:
        """Note that there was no answer, so that it is unknown what the broker remembers."""
        self.epoch = 0


class SessionFetchRequest(FetchRequest):  # type: ignore[misc]  # aiokafka publishes no types
    """A fetch that is part of a session, if the broker supports sessions.

    Args:
        whole: the fetch without a session.
        session: the number of its session, and its epoch.
        changed: the partitions that the broker does not remember with the same offset.
        forgotten: the partitions that it is to forget, by topic.
    """

    def __init__(
        self,
        whole: FetchRequest,
        session: tuple[int, int],
        changed: Topics,
        forgotten: Sequence[tuple[str, list[int]]],
    ) -> None:
        self.__dict__.update(whole.__dict__)
        self._topics: Topics = whole.topics
        self.session = session
        self.changed = changed
        self.forgotten = forgotten
        self.is_sent = False
        """Whether it was written to a connection."""

        self.fetches: Any = None
        """The fetches of which it is one."""

    def build(self, request_struct_class: Any) -> Any:
        """Return the request in the broker's version. It is sent next."""
        self.is_sent = True
        if request_struct_class.API_VERSION < _SESSIONS_SINCE:
            return super().build(request_struct_class)
        whole, self._topics = self._topics, self.changed
        built = super().build(request_struct_class)
        self._topics = whole
        built.session_id, built.session_epoch = self.session
        built.forgotten_topics_data = self.forgotten
        return built
