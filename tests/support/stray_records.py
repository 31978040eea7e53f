"""Records that no service would write: bytes, keys, partitions and events of other topics."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson
from tests.support.worlds.flow import START, Record

from moorage_schemas.envelope import Meta, to_headers
from moorage_schemas.topics import CONFIGURATION, TOPICS, Topic, partition_of

Stray = tuple[Topic, int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]

ODD_KEYS: Final = (
    b"",
    b"Node/",
    b"/",
    b"|",
    b"||",
    b"Node/n1|",
    b"|Node/n1",
    b"Node//n1",
    b"Node//",
    b"Pod/default/x",
    b"Pod/default/x|Node/",
    b"Pod/default/x|Node/n1|",
    b"Pod/default/x|Node/n1|-1",
    b"Pod//|Node/n1|1",
    b"paris:Node/n1",
    b"paris:Node//n1",
    b":Node/n1",
    b"PARIS:Node/",
    b"Thing/n1",
    b"Nodes",
    b"a" * 5_000,
    b"\xff\xfe",
    "Node/ü".encode(),
    b"zone",
    b"fleet",
    b"cluster",
    b"0",
    b"999",
)
ODD_VALUES: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    10**30,
    1e300,
    "",
    "x",
    "x" * 70_000,
    [],
    {},
    [None],
    {"": None},
    "2026-13-01T00:00:00Z",
)


def headers_of(topic: Topic, number: int, *, source: str = "stray") -> tuple[tuple[str, bytes], ...]:
    return tuple(to_headers(Meta(id=f"stray-{number}", source=source, type=topic.event_type, time=START)))


def changed(rng: random.Random, value: Any) -> Any:
    """A value that differs at a random place."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(sorted(value))
        return {**value, name: changed(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.7:
        place = rng.randrange(len(value))
        return [*value[:place], changed(rng, value[place]), *value[place + 1 :]]
    return rng.choice(ODD_VALUES)


class Strays:
    """Makes records that no service would write, most of them from those that one has written."""

    def __init__(self, rng: random.Random, known: Sequence[Record], partitions: int) -> None:
        self._rng = rng
        self._partitions = partitions
        self._known = list(known)
        self._of_topic = {topic.short: [one for one in known if one.topic is topic] for topic in TOPICS}
        self._values = [one.value for one in known if one.value]
        self._keys = [one.key for one in known]
        self._kinds: list[Callable[[Topic, int], Stray]] = [
            self.garbage,
            self.tombstone,
            self.wrong_value,
            *[self.elsewhere, self.wrong_key] * 2,
            *[self.mutated] * 3,
        ]

    def some(self, count: int) -> list[Stray]:
        """Records of all topics in turn."""
        found = []
        for number in range(count):
            topic, kind = TOPICS[number % len(TOPICS)], self._rng.choice(self._kinds)
            if topic is CONFIGURATION and kind == self.mutated:
                kind = self.wrong_key  # a sound declaration of other rules counts: it is no stray record
            found.append(kind(topic, number))
        return found

    def garbage(self, topic: Topic, number: int) -> Stray:
        """Bytes."""
        rng = self._rng
        value = rng.choice([rng.randbytes(rng.randrange(200)), b"{}", b"null", b"[]", b"x" * 100_000, None])
        return topic, rng.randrange(self._partitions), self._odd_key(topic), value, self._odd_headers(topic, number)

    def tombstone(self, topic: Topic, number: int) -> Stray:
        """A tombstone of any key anywhere."""
        place = self._rng.randrange(self._partitions)
        return topic, place, self._odd_key(topic), None, self._odd_headers(topic, number)

    def elsewhere(self, topic: Topic, number: int) -> Stray:
        """A sound record in any partition."""
        one = self._one(topic)
        return topic, self._rng.randrange(self._partitions), one.key, one.value, headers_of(topic, number)

    def wrong_key(self, topic: Topic, number: int) -> Stray:
        """A sound value under another key."""
        one, key = self._one(topic), self._odd_key(topic)
        own = partition_of(key.decode(errors="replace"), self._partitions) if key else one.partition
        return topic, self._rng.choice([own, one.partition]), key, one.value, headers_of(topic, number)

    def wrong_value(self, topic: Topic, number: int) -> Stray:
        """An event of another topic."""
        one = self._one(topic)
        return topic, one.partition, one.key, self._rng.choice(self._values), self._odd_headers(topic, number)

    def mutated(self, topic: Topic, number: int) -> Stray:
        """A sound record with other values at a few places."""
        one = self._one(topic)
        value = orjson.loads(one.value) if one.value else {}
        for _ in range(self._rng.randint(1, 3)):
            value = changed(self._rng, value)
        return topic, one.partition, one.key, json.dumps(value).encode(), headers_of(topic, number)

    def _one(self, topic: Topic) -> Record:
        return self._rng.choice(self._of_topic[topic.short] or self._known)

    def _odd_key(self, topic: Topic) -> bytes | None:
        own = [one.key for one in self._of_topic[topic.short]] or self._keys
        choose = self._rng.choice
        return choose([None, choose(ODD_KEYS), choose(self._keys), choose(own), self._rng.randbytes(8)])

    def _odd_headers(self, topic: Topic, number: int) -> tuple[tuple[str, bytes], ...]:
        good, rng = headers_of(topic, number), self._rng
        return rng.choice(
            [
                *[good] * 3,
                (),
                good[: rng.randrange(len(good))],
                (*good, ("ce_time", b"yesterday")),
                (*good, ("moorage-sources", b"resources=99999999999,conditions=-1,x=y")),
                headers_of(topic, number, source="moorage/eviction"),
                tuple((name, rng.randbytes(5)) for name, _ in good),
                headers_of(rng.choice(TOPICS), number),
            ]
        )
