"""The zones' part of the governor: it turns records about nodes into zone records and grants, each with its cause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial

from moorage.decide.disruption.zones import ZoneRules, ZoneTable
from moorage.runtime.service import Input
from moorage.runtime.settings.process_settings import Settings
from moorage.workers.governor.replies import SOURCE, Write
from moorage_schemas.base import Model
from moorage_schemas.envelope import Meta, event_id
from moorage_schemas.keys import split_cluster
from moorage_schemas.topics import FLEET, ZONE_GRANTS, ZONE_MEMBERS, ZONES, Topic
from moorage_schemas.zone import NoExecuteGranted, ZoneChanged, ZoneMembered


class ZoneBook:
    """All nodes and zones, in the one partition that has them.

    Whether every zone is fully disrupted is a question about one cluster, so each has a book of its own.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._books = {"": ClusterZones(settings)}

    def configure(self, settings: Settings) -> None:
        """Use other rates and thresholds from now on. The next `decide` computes everything again if they differ."""
        if settings is not self._settings:
            self._settings = settings
            for book in self._books.values():
                book.table.use(zone_rules(settings))

    def apply(self, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in a node or a zone."""
        self._book(key).apply(topic, key, event)

    def record(self, name: str) -> ZoneChanged | None:
        """Return the record of a zone; None when it has none."""
        return self._book(name).table.record(name)

    def is_ready(self, target: str) -> bool:
        """Return whether a node is ready. One of which nothing is known is."""
        member = self._book(target).table.member(target)
        return member is None or member.ready

    def not_ready(self) -> Iterator[str]:
        """Yield the nodes that are not ready, by the keys of their targets."""
        for book in self._books.values():
            yield from book.table.not_ready()

    def records(self) -> Iterator[ZoneChanged]:
        """Yield the records of all zones."""
        for book in self._books.values():
            yield from book.table.records

    def note(self, record: Input) -> None:
        """Store the cause of a node's record until `decide`. Call this before the record is folded in."""
        self._book(record.key).note(record)

    def check_again(self) -> None:
        """Make the next `decide` compute everything again."""
        for book in self._books.values():
            book.table.check_again()

    def decide(self, now: datetime, write: Write, declared: Callable[[], Iterable[str]] = tuple) -> None:
        """Write the changes of zones, and grants; `declared` returns the declared nodes of all clusters."""
        for cluster, book in list(self._books.items()):  # a record that is written may be the first of its cluster
            book.decide(now, write, partial(_of_cluster, declared, cluster))

    @property
    def owes(self) -> bool:
        """Whether withdrawals are still to be written."""
        return any(book.table.owes for book in self._books.values())

    def next_wake(self) -> datetime | None:
        """Return when the next node may be granted."""
        times = (book.table.next_wake() for book in self._books.values())
        return min((time for time in times if time is not None), default=None)

    def may_grant(self, now: datetime) -> bool:
        """Return whether any node could be granted now."""
        return any(book.table.may_grant(now) for book in self._books.values())

    def _book(self, key: str) -> ClusterZones:
        """Return the book of the cluster of a node or a zone. Both have it in their keys."""
        cluster = split_cluster(key)[0]
        book = self._books.get(cluster)
        if book is None:
            book = self._books[cluster] = ClusterZones(self._settings)
        return book


class ClusterZones:
    """The nodes and zones of one cluster, or of the home fleet."""

    def __init__(self, settings: Settings) -> None:
        self.table = ZoneTable(zone_rules(settings))
        self._causes: dict[str, Meta] = {}
        self._deleted: dict[str, Meta] = {}
        self._turned: set[str] = set()

    def apply(self, topic: Topic, key: str, event: Model | None) -> None:
        """Fold in a node or a zone."""
        if topic is ZONE_MEMBERS:
            self.table.set_member(key, event if isinstance(event, ZoneMembered) else None)
        elif topic is ZONES:
            self.table.set_record(key, event if isinstance(event, ZoneChanged) else None)

    def note(self, record: Input) -> None:
        """Store the cause of a node's record until `decide`. Call this before the record is folded in."""
        event, known = record.event, self.table.member(record.key)
        if event is None:  # its earlier records may be compacted away, so it need not be known
            self._deleted[record.key] = record.meta
        if isinstance(event, ZoneMembered) and event.tainted:
            had = known is not None and known.tainted
            if not had or known is None or (known.target_uid, known.incident) != (event.target_uid, event.incident):
                self._turned.add(record.key)
        self._causes.pop(record.key, None)  # so that the latest record is last in the order
        self._causes[record.key] = record.meta

    def decide(self, now: datetime, write: Write, declared: Callable[[], Iterable[str]] = tuple) -> None:
        """Write the changes of zones, and grants; `declared` returns the declared nodes.

        The cause of a grant is the record of its node, if that was just read. A grant that is due by time alone,
        possibly after a restart, has durable facts about the node as its cause. So the same topics give the same ids.
        """
        decided = self.table.decide(now, self._turned, declared)
        spoken = next(reversed(self._causes.values()), None)
        for target, meta in self._deleted.items():
            write(ZONE_GRANTS, target, target, None, meta)
        for name, record in decided.zones:
            write(ZONES, name, FLEET, record, spoken or _by_time(name, record, now))
        for grant in decided.grants:
            target = grant.target.key
            cause = self._causes.get(target) if grant.granted else spoken
            write(ZONE_GRANTS, target, target, grant, cause or self._remembered(grant))
        self.table.done()
        self._causes.clear()
        self._deleted.clear()
        self._turned.clear()

    def _remembered(self, grant: NoExecuteGranted) -> Meta:
        member = self.table.member(grant.target.key)
        return Meta(
            id=event_id(ZONE_MEMBERS.short, grant.target.key, grant.target_uid, grant.incident, grant.generation),
            source=SOURCE,
            type=ZONE_MEMBERS.event_type,
            time=grant.granted_time if member is None else member.since,
            subject=grant.target.key,
            correlation_id="" if member is None else member.correlation_id,
            traceparent="" if member is None else member.traceparent,
        )


def _of_cluster(declared: Callable[[], Iterable[str]], cluster: str) -> list[str]:
    return [target for target in declared() if split_cluster(target)[0] == cluster]


def _by_time(name: str, record: ZoneChanged | None, now: datetime) -> Meta:
    generation = 0 if record is None else record.generation
    return Meta(
        id=event_id("time", ZONES.short, name, generation, now.isoformat()),
        source=SOURCE,
        type=ZONES.event_type,
        time=now,
        subject=name,
    )


def zone_rules(settings: Settings) -> ZoneRules:
    """Return the rules of zones that follow from the settings."""
    return ZoneRules(
        rate=settings.node_eviction_rate,
        secondary_rate=settings.secondary_node_eviction_rate,
        threshold=settings.unhealthy_zone_threshold,
        large=settings.large_cluster_size_threshold,
        period=timedelta(seconds=settings.node_monitor_period),
    )
