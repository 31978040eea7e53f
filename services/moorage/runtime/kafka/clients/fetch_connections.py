"""The connections on which a consumer fetches, so that no fetch without news delays anything else.

A broker answers the requests of a connection one after the other, and it may hold an empty fetch for
`clients.FETCH_MAX_WAIT_MS`. aiokafka 0.14 sends everything on one connection for each broker, and has one fetch in
flight for each broker. So requests for offsets or metadata would wait behind it, and a partition that has become wanted
meanwhile (resumed, sought, given out, or with this broker as its new leader) would be fetched only afterwards.

Fetches therefore have connections of their own. A fetch that lacks a partition that has become wanted is cut: the
consumer no longer waits for its answer, and sends the next one on a second connection. When both wait for answers, the
older connection is closed.

Partitions can rest for a moment: then fetches ask for the others only, and what comes meanwhile is fetched at once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.fetcher import Fetcher
from aiokafka.protocol.fetch import FetchRequest, FetchResponse_v11

from moorage.runtime.kafka.clients.fetch_sessions import FetchSession, SessionFetchRequest

_Function = Callable[..., Any]

_GROUPS: Final = (10, 11)
"""aiokafka's numbers of the connections to a broker. It has 0 and 1 itself."""

_OWN: Final = "moorage_fetches"
_REFRESHED: Final = "moorage_refreshed"
_RESTING: Final = "moorage_resting"
_IDLE_SECONDS: Final = 2.0
"""Seconds after which the fetching task checks without an event whether there is something to do."""


class Fetches:
    """The fetches of one consumer from one broker."""

    def __init__(self) -> None:
        self.session = FetchSession()
        self._busy: dict[int, asyncio.Future[Any]] = {}
        """The connections that wait for an answer, the older one first."""

        self._cut: asyncio.Future[None] | None = None

    def lacks(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether a fetch is waiting that does not fetch a partition from an offset."""
        return self._cut is not None and not self.session.includes(topic, partition, offset)

    def cut(self) -> None:
        """Wait no longer for the answer of the fetch that is waiting, if there is one."""
        if self._cut is not None and not self._cut.done():
            self._cut.set_result(None)

    async def send(
        self, request: SessionFetchRequest, send: Callable[[int], Awaitable[Any]], close: Callable[[int], None]
    ) -> Any:
        """Send a fetch and return its answer; an empty answer when it is cut.

        Args:
            request: the fetch, made by `session`.
            send: sends the request on a connection, and returns the answer.
            close: closes a connection.

        Raises:
            KafkaError: there is no answer, or it is an error.
        """
        group = next((one for one in _GROUPS if one not in self._busy), None)
        if group is None:
            group = next(iter(self._busy))
            del self._busy[group]
            close(group)
        sent = self._busy[group] = asyncio.ensure_future(send(group))
        sent.add_done_callback(lambda done: self._ended(group, done))
        cut = self._cut = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((sent, cut), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._cut = None
            if not sent.done():
                self.session.lost()
                if not request.is_sent:
                    sent.cancel()
        if not sent.done():
            return FetchResponse_v11(0, 0, 0, [])
        try:
            response = sent.result()
        except BaseException:
            self.session.lost()
            raise
        self.session.answered(response)
        return response

    def _ended(self, group: int, sent: asyncio.Future[Any]) -> None:
        if not sent.cancelled():
            sent.exception()  # read, because that of a cut fetch has no other reader
        if self._busy.get(group) is sent:
            del self._busy[group]


def fetches_of(fetcher: Fetcher, node_id: int) -> Fetches:
    """Return the fetches of a consumer from a broker."""
    found: dict[int, Fetches] = fetcher.__dict__.setdefault(_OWN, {})
    made = found.get(node_id)
    if made is None:
        made = found[node_id] = Fetches()
    return made


def cut_for(fetcher: Fetcher, tps: Iterable[TopicPartition]) -> None:
    """Cut the fetches that lack partitions that are wanted now."""
    known: dict[int, Fetches] = fetcher.__dict__.get(_OWN, {})
    subscription = fetcher._subscriptions.subscription  # noqa: SLF001 - aiokafka has no public way
    assignment = None if subscription is None else subscription.assignment
    if not known or assignment is None:
        return
    for tp in tps:
        if tp not in assignment.tps or tp in fetcher._records:  # noqa: SLF001 - as above
            continue
        state = assignment.state_value(tp)
        fetches = known.get(fetcher._select_read_replica(tp))  # noqa: SLF001 - as above
        if fetches is None or state.paused:
            continue
        if not state.has_valid_position or fetches.lacks(tp.topic, tp.partition, state.position):
            fetches.cut()


class _Rest(NamedTuple):
    """Partitions that are not fetched until a time of the loop."""

    tps: frozenset[TopicPartition]
    until: float


class _Awake:
    """An assignment, as the fetching task sees it, without the partitions that rest."""

    def __init__(self, assignment: Any, resting: frozenset[TopicPartition]) -> None:
        self.tps = assignment.tps - resting
        self.state_value = assignment.state_value


def rest(consumer: AIOKafkaConsumer, tps: Iterable[TopicPartition], seconds: float) -> None:
    """Fetch nothing of some partitions for a moment, but for what is being fetched. A rest is not extended."""
    fetcher = consumer._fetcher  # noqa: SLF001 - aiokafka has no public way
    if fetcher is not None and _rest_of(fetcher) is None:
        fetcher.__dict__[_RESTING] = _Rest(frozenset(tps), asyncio.get_running_loop().time() + seconds)


def hurry(consumer: AIOKafkaConsumer, tps: Iterable[TopicPartition]) -> None:
    """Fetch all partitions at once if one of these rests."""
    fetcher = consumer._fetcher  # noqa: SLF001 - as above
    resting = None if fetcher is None else _rest_of(fetcher)
    if resting is not None and not resting.tps.isdisjoint(tps):
        del fetcher.__dict__[_RESTING]
        cut_for(fetcher, resting.tps)


def _rest_of(fetcher: Fetcher) -> _Rest | None:
    found: _Rest | None = fetcher.__dict__.get(_RESTING)
    if found is not None and asyncio.get_running_loop().time() >= found.until:
        del fetcher.__dict__[_RESTING]
        return None
    return found


# Replacements of functions of aiokafka.


def fetch_in_sessions(fetch: _Function) -> _Function:
    """Return a replacement of `Fetcher._proc_fetch_request`, which sends a fetch and takes its answer."""

    async def fetching(self: Fetcher, assignment: Any, node_id: int, request: FetchRequest) -> Any:
        fetches = fetches_of(self, node_id)
        made = fetches.session.request(request, assignment)
        made.fetches = fetches
        return await fetch(self, assignment, node_id, made)

    return fetching


def send_apart(send: _Function) -> _Function:
    """Return a replacement of `AIOKafkaClient.send`, which sends a request and returns its answer."""

    async def sending(self: AIOKafkaClient, node_id: int, request: Any, **options: Any) -> Any:
        if not isinstance(request, SessionFetchRequest):
            return await send(self, node_id, request, **options)

        def close(group: int) -> None:
            connection = self._conns.pop((node_id, group), None)
            if connection is not None:
                connection.close()

        return await request.fetches.send(
            request, lambda group: send(self, node_id, request, **options | {"group": group}), close
        )

    return sending


def cut_when_sought(seek: _Function) -> _Function:
    """Return a replacement of `Fetcher.seek_to`, which moves a position."""

    def seeking(self: Fetcher, tp: TopicPartition, offset: int) -> None:
        seek(self, tp, offset)
        cut_for(self, (tp,))

    return seeking


def cut_when_reset(reset: _Function) -> _Function:
    """Return a replacement of `Fetcher.request_offset_reset`, which lets positions be found anew."""

    def resetting(self: Fetcher, tps: Iterable[TopicPartition], strategy: int) -> Any:
        wanted = list(tps)
        found = reset(self, wanted, strategy)
        cut_for(self, wanted)
        return found

    return resetting


def cut_when_resumed(resume: _Function) -> _Function:
    """Return a replacement of `AIOKafkaConsumer.resume`."""

    def resuming(self: AIOKafkaConsumer, *partitions: TopicPartition) -> None:
        resume(self, *partitions)
        if self._fetcher is not None:
            cut_for(self._fetcher, partitions)

    return resuming


def cut_when_taken(fetch: _Function) -> _Function:
    """Return a replacement of `Fetcher.fetched_records`, which gives out what was fetched."""

    async def fetching(self: Fetcher, *args: Any, **options: Any) -> Any:
        before = set(self._records)  # "positions" calls this function only when it does not wait
        found = await fetch(self, *args, **options)
        if taken := before - self._records.keys():
            cut_for(self, taken)
        return found

    return fetching


def rest_longer(choose: _Function) -> _Function:
    """Return a replacement of `Fetcher._get_actions_per_node`, which also returns how long the fetching task rests.

    A partition may have another leader after each refresh of the metadata. A fetch that waits there lacks it. While
    partitions rest, a fetch of the others waits no longer than they do.
    """

    def choosing(self: Fetcher, assignment: Any) -> Any:
        self._fetcher_timeout = _IDLE_SECONDS
        refreshed = self._client.cluster._last_successful_refresh_ms  # noqa: SLF001 - aiokafka has no public way
        if self.__dict__.get(_REFRESHED) != refreshed:
            self.__dict__[_REFRESHED] = refreshed
            cut_for(self, assignment.tps)
        resting = _rest_of(self)
        if resting is None:
            return choose(self, assignment)
        left = resting.until - asyncio.get_running_loop().time()
        self._fetcher_timeout = left
        whole, self._fetch_max_wait_ms = self._fetch_max_wait_ms, math.ceil(1000 * left)
        try:
            return choose(self, _Awake(assignment, resting.tps - self._records.keys()))
        finally:
            self._fetch_max_wait_ms = whole

    return choosing
