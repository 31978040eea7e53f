"""What can go wrong on a real cluster: each kind of fault is a function that does it and undoes it.

How long, how often, to whom is drawn from the round's seed. Each says what it did in `field.notes`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from tests.chaos.faults.cluster import SESSION, Cluster, Node
from tests.chaos.faults.members import Member, Members

from moorage.runtime.kafka.clients import clients
from moorage.runtime.kafka.partition.assignor import StickyAssignor
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import TOPICS

MEMBER_SESSION = 2.0
"""Seconds of silence after which a consumer group forgets a member, in rounds."""

TRANSACTION = 4.0
"""Seconds after which Kafka aborts a transaction that nobody ends, in rounds."""

LAG, RETENTION = 3.0, 4.0
"""Seconds for which compacted topics keep every record and others keep any, where these are made short."""

REST = "rest"
"""The name of the process that runs all that has none of its own."""

_TRANSACTIONS = "__transaction_state"
_INTERNAL = ("__consumer_offsets", _TRANSACTIONS)


@dataclass
class Field:
    """What a fault acts on."""

    cluster: Cluster
    members: Members
    victim: str
    """The service that it is about."""

    copies: list[Member]
    """The processes that run nothing but the victim."""

    side: str
    """The side of the cluster by which the victim's processes connect."""

    settings: Settings
    """The round's, with the addresses that nothing harms."""

    sources: list[str]
    """The topics' names in Kafka that the victim's group reads."""

    chance: random.Random
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        """Say what was done."""
        self.notes.append(text)

    def node(self) -> Node:
        """Any broker."""
        return self.chance.choice(self.cluster.nodes)

    @property
    def topics(self) -> list[str]:
        """The round's topics by their names in Kafka."""
        return [topic.name(self.settings.topic_prefix) for topic in TOPICS]


Fault = Callable[[Field], Awaitable[None]]


async def stand_by(seconds: float) -> None:
    """Let time pass: how long a fault lasts is what is tested, and nothing tells of it."""
    await asyncio.sleep(seconds)


async def kill_service(field: Field) -> None:
    """SIGKILL of the service's processes, each once or twice, and back."""
    for number in range(field.chance.randint(1, 3)):
        copy = field.copies[number % len(field.copies)]
        away = field.chance.choice([0.0, field.chance.uniform(0.2, 1.5), field.chance.uniform(2.0, 4.5)])
        field.note(f"SIGKILL {copy.name}, away {away:.1f} s")
        await copy.kill()
        await stand_by(away)
        await copy.start()
        await stand_by(field.chance.uniform(0.5, 2.5))


async def roll_services(field: Field) -> None:
    """Every service ends, killed or in order, and is back: in any order, some before the last one is back."""
    services = [one for name, one in field.members.all.items() if name != REST]
    field.chance.shuffle(services)
    for one in services:
        killed, away = field.chance.random() < 0.6, field.chance.uniform(0.0, 1.5)
        field.note(f"{'SIGKILL' if killed else 'SIGTERM'} {one.name}, away {away:.1f} s")
        await (one.kill() if killed else one.stop())
        await stand_by(away)
        await one.start()
        await stand_by(field.chance.choice([0.0, field.chance.uniform(0.5, 3.0)]))


async def stop_service(field: Field) -> None:
    """SIGSTOP of the service's only process beyond its session, and back."""
    await _stand_still(field)


async def zombie(field: Field) -> None:
    """SIGSTOP of one of two processes of a service: the other takes over, decides, and then the first comes back."""
    await _stand_still(field)


async def _stand_still(field: Field) -> None:
    beyond = MEMBER_SESSION + field.chance.uniform(0.5, TRANSACTION)
    field.note(f"SIGSTOP {field.copies[0].name} for {beyond:.1f} s")
    field.copies[0].pause()
    await stand_by(beyond)
    field.copies[0].resume()


async def lose_broker(field: Field) -> None:
    """SIGKILL of a broker, and back."""
    node, away = field.node(), field.chance.uniform(0.5, 5.0)
    field.note(f"SIGKILL broker {node.number}, away {away:.1f} s")
    await node.kill()
    await stand_by(away)
    await node.start()


async def freeze_broker(field: Field) -> None:
    """SIGSTOP of a broker, for less or for longer than its session with the controller, and back."""
    node, frozen = field.node(), field.chance.uniform(1.0, SESSION + 3.0)
    field.note(f"SIGSTOP broker {node.number} for {frozen:.1f} s")
    node.pause()
    await stand_by(frozen)
    node.resume()


async def move_leaders(field: Field) -> None:
    """Other brokers lead every partition, coordinators' included, several times over."""
    for _ in range(field.chance.randint(2, 4)):
        by = field.chance.randint(1, 2)
        moved = await field.cluster.move_leaders([*field.topics, *_INTERNAL], by)
        field.note(f"{moved} partitions have another leader")
        await stand_by(field.chance.uniform(0.3, 2.0))


async def restart_brokers(field: Field) -> None:
    """Every broker is stopped in order and started again, one after the other, as an upgrade does."""
    nodes = list(field.cluster.nodes)
    field.chance.shuffle(nodes)
    for node in nodes:
        field.note(f"broker {node.number} restarted")
        await node.stop()
        await node.start()
        await node.until_answers()
        await field.cluster.until_whole()


def _links(field: Field) -> list[tuple[Node, str]]:
    """The links to harm: to one broker or to all, of the victim or of everybody."""
    nodes = field.cluster.nodes if field.chance.random() < 0.5 else [field.node()]
    sides = [field.side] if field.chance.random() < 0.6 else sorted(nodes[0].proxies)
    links = [(node, side) for node in nodes for side in sides]
    whose = field.victim if len(sides) == 1 else "everybody"
    field.note(f"links of {whose} to brokers {', '.join(str(node.number) for node in nodes)}")
    return links


async def cut_link(field: Field) -> None:
    """Links are cut: connections are reset, new ones refused; and back."""
    links, lasts = _links(field), field.chance.uniform(0.5, MEMBER_SESSION + 3.0)
    field.note(f"cut for {lasts:.1f} s")
    for node, side in links:
        await node.proxies[side].cut()
    await stand_by(lasts)
    for node, side in links:
        await node.proxies[side].heal()


async def silence_link(field: Field) -> None:
    """Links fall silent: what is open stays open and carries nothing; then the rest comes late, or is reset."""
    links, lasts = _links(field), field.chance.uniform(1.0, MEMBER_SESSION + 4.0)
    reset = field.chance.random() < 0.5
    field.note(f"silent for {lasts:.1f} s, then {'reset' if reset else 'all that was held back'}")
    for node, side in links:
        node.proxies[side].silence()
    await stand_by(lasts)
    for node, side in links:
        await node.proxies[side].heal(reset=reset)


async def slow_link(field: Field) -> None:
    """Links are slow, in latency and in bandwidth; and back."""
    links, lasts = _links(field), field.chance.uniform(3.0, 7.0)
    latency, bandwidth = field.chance.uniform(0.05, 0.6), field.chance.choice([0.0, 20_000.0, 100_000.0])
    field.note(f"{latency * 1000:.0f} ms and {bandwidth / 1000:.0f} kB/s (0: any) for {lasts:.1f} s")
    for node, side in links:
        node.proxies[side].slow(latency=latency, bandwidth=bandwidth)
    await stand_by(lasts)
    for node, side in links:
        await node.proxies[side].heal()


async def fill_disk(field: Field) -> None:
    """A broker's disk is full, of which Kafka's brokers die; room is made, and it is back."""
    node = next((one for one in field.cluster.nodes if one.disk), None)
    if node is None:
        field.note("no disk can be filled here: nothing can be mounted, and nothing limits the files of a process")
        return
    full = field.chance.uniform(1.0, 5.0)
    field.note(f"broker {node.number}: {node.fill_disk()} is full for {full:.1f} s")
    died = await node.until_ended(full)
    field.note("the broker ended by itself" if died else "the broker went on")
    node.free_disk()
    if not died:
        await node.kill()  # one whose disk was full is not to be trusted before it has read its files again
    await node.start()
    await node.until_answers()
    await field.cluster.until_whole()
    # A coordinator gives up a transaction whose marker such a broker answered with an unknown error. What an operator
    # is advised to do then (docs/operations.md): twice, because a first move may leave a partition where it is.
    for _ in range(2):
        moved = await field.cluster.move_leaders([_TRANSACTIONS], 1)
        field.note(f"{moved} partitions of {_TRANSACTIONS} have another leader")


async def storm(field: Field) -> None:
    """Members come to the victim's group, are given partitions that they do nothing with, and go."""
    turns, every = field.chance.randint(4, 8), range(field.settings.partitions)
    for turn in range(turns):
        member = clients.group_consumer(
            field.settings,
            group=f"{field.settings.topic_prefix}.{field.victim}",
            client_id=f"tests-storm-{turn}",
            assignor=StickyAssignor(owned=tuple, cold=tuple, warm=lambda: every, partitions=len(every), standbys=1),
            session_timeout_ms=field.settings.session_timeout_ms,
        )
        await member.start()
        member.subscribe(field.sources)
        await stand_by(field.chance.uniform(0.1, 1.2))
        await member.stop()
    field.note(f"{turns} members came to {field.victim} and went")


async def run_skewed(field: Field) -> None:
    """The clock of the victim's process is off from its start (`Kind.skewed`); it is killed once, too."""
    await stand_by(field.chance.uniform(1.0, 3.0))
    field.note(f"SIGKILL {field.copies[0].name}")
    await field.copies[0].kill()
    await field.copies[0].start()


async def stay_away(field: Field) -> None:
    """The service is away for longer than compacted topics keep every record and others keep any."""
    away = LAG + RETENTION + field.chance.uniform(1.0, 4.0)
    field.note(f"{field.victim} away {away:.1f} s, compaction lag {LAG:g} s, retention {RETENTION:g} s")
    await asyncio.gather(*(copy.kill() for copy in field.copies))
    await stand_by(away)
    await asyncio.gather(*(copy.start() for copy in field.copies))


async def nothing(field: Field) -> None:
    """No fault at all: what a round shows then is not the fault's doing."""
    field.note("nothing was done")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of fault, and what a round of it needs."""

    name: str
    fault: Fault
    copies: tuple[int, ...] = (1,)
    """How many processes of the victim there may be."""

    apart: bool = False
    """Whether every service has a process of its own."""

    skewed: bool = False
    """Whether the victim's clock is off."""

    cleaning: bool = False
    """Whether compaction and retention are made short."""

    load: float = 5.0
    """Seconds of inputs, at least."""


def in_turn(*kinds: Kind) -> Kind:
    """Faults in one round, one after the other; before the next one the cluster is whole again."""

    async def fault(field: Field) -> None:
        for kind in kinds:
            field.note(kind.name)
            await kind.fault(field)
            await field.cluster.mend()

    return Kind(
        name="_".join(kind.name for kind in kinds),
        fault=fault,
        copies=tuple(set.intersection(*(set(kind.copies) for kind in kinds))),
        apart=any(kind.apart for kind in kinds),
        skewed=any(kind.skewed for kind in kinds),
        cleaning=any(kind.cleaning for kind in kinds),
        load=max(kind.load for kind in kinds),
    )


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="none", fault=nothing, copies=(1, 2), load=5.0),
        Kind(name="service-killed", fault=kill_service, copies=(1, 2)),
        Kind(name="services-rolled", fault=roll_services, apart=True, load=12.0),
        Kind(name="service-stopped", fault=stop_service),
        Kind(name="zombie", fault=zombie, copies=(2,)),
        Kind(name="broker-lost", fault=lose_broker),
        Kind(name="broker-frozen", fault=freeze_broker),
        Kind(name="leaders-moved", fault=move_leaders),
        Kind(name="brokers-restarted", fault=restart_brokers, load=12.0),
        Kind(name="link-cut", fault=cut_link, copies=(1, 2)),
        Kind(name="link-silent", fault=silence_link, copies=(1, 2)),
        Kind(name="link-slow", fault=slow_link),
        Kind(name="disk-full", fault=fill_disk),
        Kind(name="rebalance-storm", fault=storm, copies=(1, 2)),
        Kind(name="clock-off", fault=run_skewed, skewed=True),
        Kind(name="service-away", fault=stay_away, cleaning=True, load=9.0),
    )
}
"""By name."""
