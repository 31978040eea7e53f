"""One round: services on the cluster, a seeded load, a fault, and what the checker says of all that was written."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.faults import skewed
from tests.chaos.faults.cluster import SIDES, Cluster, quick_cleaning
from tests.chaos.faults.kinds import LAG, MEMBER_SESSION, REST, RETENTION, TRANSACTION, Field, Kind
from tests.chaos.faults.load import Load, differing
from tests.chaos.faults.members import Member, Members
from tests.chaos.faults.record import Recorder
from tests.chaos.seeded.checker import check
from tests.chaos.seeded.history import History
from tests.chaos.seeded.saved import dumps
from tests.support import forks

from moorage.cli.local import services
from moorage.cli.local.stack import free_ports
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.topics import CONDITION_REPORTS, TOPICS, Cleanup

PARTITIONS = 3
STILL = 6.0
"""Seconds without a new record after which a round has come to rest."""

HISTORY = "history.json"
"""The file with a round's history, in the folder that it leaves."""

_QUIET_WITHIN = 60.0
_READY_WITHIN = 90.0
_MOST_SKEW = 3.0  # seconds by which a clock may be off

RULES = {
    "MOORAGE_NODE_EVICTION_RATE": "2",
    "MOORAGE_SECONDARY_NODE_EVICTION_RATE": "2",
    "MOORAGE_NODE_MONITOR_PERIOD": "1s",
    "MOORAGE_NODE_MONITOR_GRACE_PERIOD": "0",
}
"""What the services of every round run with, in place of the defaults."""

_RUNNING = {
    "MOORAGE_PARTITIONS": str(PARTITIONS),
    "MOORAGE_SESSION_TIMEOUT_MS": str(int(MEMBER_SESSION * 1000)),
    "MOORAGE_HEARTBEAT_INTERVAL_MS": "400",
    "MOORAGE_TRANSACTION_TIMEOUT_MS": str(int(TRANSACTION * 1000)),
    "MOORAGE_LOG_FORMAT": "json",
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a round went."""

    kind: str
    seed: int
    victim: str
    notes: Sequence[str]
    """What was done."""

    violations: Sequence[str]
    quiet: bool
    """Whether it came to rest."""

    records: int
    taken: int
    """How many of them compaction and retention took away."""

    crashes: dict[str, list[int]]
    """Exit codes of processes that ended by themselves."""

    seconds: float
    history: History

    @property
    def failed(self) -> bool:
        """Whether anything was broken."""
        return bool(self.violations) or not self.quiet

    def __str__(self) -> str:
        said = [f"{self.kind} seed {self.seed}, {self.victim}: {'; '.join(self.notes)}"]
        if not self.quiet:
            said.append(f"it did not come to rest within {_QUIET_WITHIN:.0f} s")
        if self.crashes:
            said.append(f"processes that ended: {self.crashes}")
        return "\n  ".join([*said, *self.violations])

    def save(self, folder: Path) -> Path:
        """Write everything about it into a folder of its own."""
        place = folder / f"{self.kind}-{self.seed}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "round.txt").write_text(f"{self}\n")
        (place / HISTORY).write_text(dumps(self.history, str(self)))
        return place


async def play(
    cluster: Cluster, kind: Kind, seed: int, folder: Path, *, victim: str = "", load_for: float = 0.0
) -> Outcome:
    """Play one round and check it.

    Args:
        cluster: whole; it is whole again afterwards.
        kind: the fault.
        seed: decides on everything that is drawn.
        folder: for the logs of its processes.
        victim: the service that the fault is about; drawn when empty.
        load_for: seconds of inputs, when that is more than the kind needs.
    """
    began = time.time()
    chance = random.Random(f"{kind.name} {seed}")  # noqa: S311 - a seed must draw the same again
    drawn = chance.choice([*services.names(), "eviction", "taint-manager"])
    victim = victim or drawn
    prefix = f"f{time.time_ns() // 1_000_000:x}-{kind.name}-{seed}"
    settings = Settings(bootstrap_servers=cluster.bootstrap, topic_prefix=prefix, partitions=PARTITIONS)
    rules = {**RULES, "MOORAGE_TAINT_ADD_HOLD": chance.choice(["0", "0", "1s"])}
    offset = chance.choice([-1, 1]) * round(chance.uniform(0.5, _MOST_SKEW), 2) if kind.skewed else 0.0
    many = chance.choice(kind.copies)
    rules_and_prefix = {**rules, "MOORAGE_TOPIC_PREFIX": prefix}
    copies, rest, server = _processes(
        cluster, folder, kind, rules=rules_and_prefix, victim=victim, copies=many, offset=offset
    )
    try:
        async with Members([*rest, *copies]) as members:
            await ensure_topics(settings)
            if kind.cleaning:
                await _clean_quickly(cluster, prefix, victim)
            load = Load([server], cluster.bootstrap, prefix, PARTITIONS, random.Random(seed))  # noqa: S311 - as above
            async with load, Recorder(cluster.bootstrap, prefix, PARTITIONS, load.heard) as recorder:
                await members.until_ready(_READY_WITHIN)
                field = Field(
                    cluster=cluster,
                    members=members,
                    victim=victim,
                    copies=copies,
                    side=SIDES[0],
                    settings=settings,
                    sources=[topic.name(prefix) for topic in services.make(victim, settings).sources],
                    chance=chance,
                )
                if offset:
                    field.note(f"the clock of {victim} is off by {offset:g} s")
                await load.settle_in()
                await _load_and_fault(field, kind, load, max(kind.load, load_for))
                await cluster.mend()
                await load.settle()
                await members.until_ready(_READY_WITHIN)
                quiet = await recorder.until_still(STILL, _QUIET_WITHIN)
                await recorder.complete()
                history = recorder.history(
                    began=began,
                    quiet=quiet,
                    skew=abs(offset),
                    settings=differing(rules),
                    places=load.acknowledged,
                    told=load.told,
                )
                field.notes += [f"never accepted: {one}" for one in load.lost]
                crashes = members.crashes()
    finally:
        await cluster.mend()
        await cluster.delete_topics(prefix)
    return Outcome(
        kind=kind.name,
        seed=seed,
        victim=victim,
        notes=field.notes,
        violations=[str(one) for one in check(history)],
        quiet=quiet,
        records=len(history.entries),
        taken=recorder.taken,
        crashes=crashes,
        seconds=time.time() - began,
        history=history,
    )


async def _load_and_fault(field: Field, kind: Kind, load: Load, seconds: float) -> None:
    """The fault somewhere within the load; the load goes on until the fault is over."""

    async def harm() -> None:
        await asyncio.sleep(field.chance.uniform(0.3, 2.0))
        await kind.fault(field)

    async with asyncio.TaskGroup() as tasks:
        fault = tasks.create_task(harm())
        tasks.create_task(load.go_on(seconds))
    assert fault.done()


def _processes(
    cluster: Cluster,
    folder: Path,
    kind: Kind,
    *,
    rules: Mapping[str, str],
    victim: str,
    copies: int,
    offset: float,
) -> tuple[list[Member], list[Member], str]:
    """The victim's processes by side A, those of the other services and the gateway by side B, and its address."""
    folder.mkdir(parents=True, exist_ok=True)
    others = [name for name in services.names() if name != victim]
    apart = [[name] for name in others] if kind.apart else []
    gateway, *ports = free_ports(1 + copies + 1 + len(apart))

    def member(name: str, chosen: Sequence[str], side: str, *, offset: float = 0.0) -> Member:
        port = ports.pop()
        environment = {
            **_RUNNING,
            **rules,
            "MOORAGE_BOOTSTRAP_SERVERS": cluster.bootstrap_of(side),
            "MOORAGE_HTTP_PORT": str(port),
            "MOORAGE_GATEWAY_PORT": str(gateway),
        }
        return Member(
            name=name,
            launch=skewed.launch if offset else forks.launch,
            arguments=(str(offset), *chosen) if offset else ("run", "--with-parent", *chosen),
            environment=environment,
            url=f"http://127.0.0.1:{gateway if chosen == [services.GATEWAY] else port}/readyz",
            log=folder / f"{name}.log",
        )

    together = [services.GATEWAY] if kind.apart else [*others, services.GATEWAY]
    rest = [member(REST, together, SIDES[1]), *(member(names[0], names, SIDES[1]) for names in apart)]
    mine = [member(f"{victim}-{number}", [victim], SIDES[0], offset=offset) for number in range(1, copies + 1)]
    return mine, rest, f"http://127.0.0.1:{gateway}"


async def _clean_quickly(cluster: Cluster, prefix: str, victim: str) -> None:
    """Make compaction and retention short.

    Not for what comes from outside to a service that is away: a report that Kafka takes away before anybody could read
    it is lost, and nothing that Moorage does could change that.
    """
    compact, delete = quick_cleaning(LAG, RETENTION)
    kept = {CONDITION_REPORTS} if victim == "condition-ingest" else set()
    await cluster.configure(
        {
            topic.name(prefix): {**topic.config(), **(compact if topic.cleanup is Cleanup.COMPACT else delete)}
            for topic in TOPICS
            if topic not in kept
        }
    )
