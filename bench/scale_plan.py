"""What the slopes of `bench/scale.py` mean for a large fleet. `make bench-page` writes it into `docs/scale.md`.

Everything is computed from the last recorded run and the assumptions below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench import history

Json = Mapping[str, Any]

COUNTS: Final = {
    "node": 1_000_000,
    "workload": 50_000_000,
    "cluster": 50_000,
    "managed cluster": 50_000,
    "OCM placement": 10_000,
    "eviction": 50_000,
}
"""The fleet: how many of each unit there are. Extra conditions are left out, because nodes have their own."""

RESOLUTION: Final = 150
"""Slopes below this number of bytes are within the noise of one run, and count as 0."""

GIB: Final = 2**30

FLEET_WIDE: Final = frozenset({"governor partition"})
"""States of partitions that hold the whole fleet, because their topics have a single partition in use."""


ONE_PROCESS: Final = FLEET_WIDE | {"gateway view"}
"""States that one process of the fleet holds, whole."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """A number that is not measured."""

    value: float
    text: str


PROCESS_GIB: Final = Assumption(16, "GiB of memory that a process may use")
CORE_SHARE: Final = Assumption(0.5, "of a core that a process may use on average, so that it can catch up")
SOCKETS: Final = Assumption(2, "times the measured processor time, for sockets, event loop and transactions")
RESTORE_S: Final = Assumption(60, "seconds in which a partition must be restored")
READY_S: Final = Assumption(10, "seconds between two reports of a node's Ready condition")
OTHERS_S: Final = Assumption(300, "seconds between two reports of each other condition of a node")
CLUSTER_S: Final = Assumption(60, "seconds between two reports of a cluster")
RECORDED: Final = Assumption(0.075, "of the heartbeats become records of `conditions` (2,260 of 30,000, `5b24008`)")
HEARTBEAT_BYTES: Final = Assumption(639, "bytes in all topics for each heartbeat (`5b24008`)")
LIFE_S: Final = Assumption(86_400, "seconds that a workload stays where it is: each is replaced once a day")
LOST: Final = Assumption(0.001, "of the nodes are lost each day, with all of their workloads")
REPLICAS: Final = Assumption(3, "copies of each partition")
BROKER_MB: Final = Assumption(50, "MB that a broker writes per second, copies included")
BROKER_GIB: Final = Assumption(1000, "GiB of disk in a broker")
GARBAGE: Final = Assumption(2, "times the compacted size that a topic takes, until it is compacted")
BALANCE: Final = Assumption(4, "partitions for each worker, so that work can be divided evenly")

ASSUMPTIONS: Final = (
    PROCESS_GIB,
    CORE_SHARE,
    SOCKETS,
    RESTORE_S,
    READY_S,
    OTHERS_S,
    CLUSTER_S,
    RECORDED,
    HEARTBEAT_BYTES,
    LIFE_S,
    LOST,
    REPLICAS,
    BROKER_MB,
    BROKER_GIB,
    GARBAGE,
    BALANCE,
)


@dataclass(frozen=True, slots=True)
class Whole:
    """What one state takes for the whole fleet."""

    place: str
    gib: float
    restore_s: float
    """Processor seconds to restore it."""

    @property
    def partitioned(self) -> bool:
        """Whether it is divided among workers."""
        return self.place.endswith(" partition") and self.place not in FLEET_WIDE

    @property
    def service(self) -> str:
        """The service whose state it is."""
        return self.place.rpartition(" ")[0]


def significant(size: float) -> float:
    """Return a slope in bytes, or 0 if it is within the noise."""
    return size if size >= RESOLUTION else 0


def whole(run: Json) -> list[Whole]:
    """What each state takes for the whole fleet, without states that keep nothing."""
    found = []
    for place, slopes in run["figures"]["slopes"].items():
        held = {unit: count for unit, count in COUNTS.items() if unit in slopes}
        size = sum(count * significant(slopes[unit]["bytes"]) for unit, count in held.items())
        busy = sum(count * slopes[unit]["us"] for unit, count in held.items()) / 1e6
        if size:
            found.append(Whole(place, size / GIB, busy))
    return found


def rates() -> dict[str, float]:
    """Events per second."""
    nodes, clusters = COUNTS["node"], COUNTS["cluster"] + COUNTS["managed cluster"]
    pods_a_node = COUNTS["workload"] / nodes
    return {
        "heartbeats": nodes / READY_S.value + 4 * nodes / OTHERS_S.value + clusters / CLUSTER_S.value,
        "workloads placed": COUNTS["workload"] / LIFE_S.value,
        "evictions": nodes * LOST.value * pods_a_node / 86_400,
    }


def cores(run: Json) -> dict[str, float]:
    """The cores that each service needs for those events, on average."""
    decisions = run["figures"]["decisions"]
    us = {name: large for name, (_, large) in decisions["us"].items()}
    read, write = decisions["read_us"], decisions["write_us"]
    rate = rates()
    recorded = rate["heartbeats"] * RECORDED.value
    placed, evicted = rate["workloads placed"], rate["evictions"]
    beat = us["heartbeat that changes nothing, condition-ingest"]
    needed = {
        "condition-ingest": rate["heartbeats"] * (read + beat) + recorded * write,
        "taint-manager": recorded * (read + us["condition that changes, taint-manager"]),
        "placement": placed * (read + us["pod placed, placement"] + 2 * write)
        + evicted * (read + us["evicted pod placed again, placement"] + 2 * write),
        "eviction": placed * read
        + evicted
        * (
            2 * read
            + us["eviction scheduled, eviction"]
            + us["eviction requested, eviction"]
            + 3 * write  # the decision twice, and a timer
        ),
        "timer": evicted * (read + us["timer fired, timer"] + write),
    }
    return {name: busy * SOCKETS.value / 1e6 for name, busy in needed.items()}


@dataclass(frozen=True, slots=True)
class Workers:
    """The processes of one service."""

    service: str
    by_memory: int
    by_cores: int
    partitions: int
    """The partitions so that each is restored in time."""

    @property
    def count(self) -> int:
        """How many are needed."""
        return max(self.by_memory, self.by_cores)


def workers(run: Json) -> list[Workers]:
    """The processes of each service whose state is divided. What every process holds whole is not counted here."""
    needed = cores(run)
    return [
        Workers(
            one.service,
            by_memory=math.ceil(one.gib / PROCESS_GIB.value),
            by_cores=math.ceil(needed.get(one.service, 0.0) / CORE_SHARE.value),
            partitions=math.ceil(one.restore_s / RESTORE_S.value),
        )
        for one in whole(run)
        if one.partitioned
    ]


def partitions(run: Json) -> int:
    """The number of partitions, the same for every topic: a power of two that suffices for all services."""
    most = max(max(one.partitions, round(BALANCE.value * one.count)) for one in workers(run))
    return int(2 ** math.ceil(math.log2(most)))


@dataclass(frozen=True, slots=True)
class Brokers:
    """What Kafka needs."""

    table_gib: float
    """The last records of all tables, one copy."""

    disk_gib: float
    write_mb: float
    """MB per second, all copies."""

    by_disk: int
    by_writes: int

    @property
    def count(self) -> int:
        """How many brokers are needed."""
        return max(self.by_disk, self.by_writes, round(REPLICAS.value))


def brokers(run: Json) -> Brokers:
    """What Kafka needs for the tables and the events."""
    log = run["figures"]["log_bytes"]
    tables = sum(count * sum(log[unit].values()) for unit, count in COUNTS.items()) / GIB
    rate = rates()
    placed = log["workload"]["placements"] + 2 * log["workload"]["bindings"]  # the end of a binding, too
    evicted = 2 * log["eviction"]["evictions"] + 2 * log["eviction"]["timers"] + placed
    each = (
        rate["heartbeats"] * HEARTBEAT_BYTES.value
        + rate["workloads placed"] * (placed + log["workload"]["workload-conditions"])
        + rate["evictions"] * evicted
    )
    reports_gib = rate["heartbeats"] * HEARTBEAT_BYTES.value * 86_400 / GIB  # they are kept for a day
    disk = (tables * GARBAGE.value + reports_gib) * REPLICAS.value
    write = each * REPLICAS.value / 1e6
    return Brokers(
        table_gib=tables,
        disk_gib=disk,
        write_mb=write,
        by_disk=math.ceil(disk / BROKER_GIB.value),
        by_writes=math.ceil(write / BROKER_MB.value),
    )


# Tables of the page.


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines: list[Sequence[str]] = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _slopes(run: Json, field: str, shown: Callable[[float], float] = lambda one: one) -> str:
    units = list(run["figures"]["units"])
    rows = [
        (place, *(f"{shown(slopes[unit][field]):,.0f}" if unit in slopes else "" for unit in units))
        for place, slopes in run["figures"]["slopes"].items()
    ]
    return _table(("state", *units), rows)


def _log(run: Json) -> str:
    log = run["figures"]["log_bytes"]
    topics = list(dict.fromkeys(topic for found in log.values() for topic in found))
    rows = [(topic, *(f"{found[topic]:,}" if topic in found else "" for found in log.values())) for topic in topics]
    rows.append(("all", *(f"{sum(found.values()):,}" for found in log.values())))
    return _table(("topic", *log), rows)


def _decisions(run: Json) -> str:
    decisions = run["figures"]["decisions"]
    rows = [(name, f"{small:,.0f}", f"{large:,.0f}") for name, (small, large) in decisions["us"].items()]
    rows.append(("a binding read", f"{decisions['read_us']:,.0f}", f"{decisions['read_us']:,.0f}"))
    rows.append(("a binding written", f"{decisions['write_us']:,.0f}", f"{decisions['write_us']:,.0f}"))
    few, many = decisions["nodes"]
    return _table(("decision, and the service that takes it", f"{few:,} nodes", f"{many:,} nodes"), rows)


def _states(run: Json) -> str:
    rows = []
    for one in sorted(whole(run), key=lambda one: (one.partitioned, -one.gib)):
        held = (
            "divided among workers"
            if one.partitioned
            else "one process"
            if one.place in ONE_PROCESS
            else "each process"
        )
        fits = "" if one.partitioned else f"{PROCESS_GIB.value / one.gib:,.2f}"
        rows.append((one.place, held, f"{one.gib:,.1f}", f"{one.restore_s:,.0f}", fits))
    head = ("state", "held by", "GiB", "processor seconds to restore", f"fleets in {PROCESS_GIB.value:.0f} GiB")
    return _table(head, rows)


def _workers(run: Json) -> str:
    needed = cores(run)
    rows = [
        (
            one.service,
            str(one.by_memory),
            f"{needed.get(one.service, 0.0):,.1f}",
            str(one.by_cores),
            str(one.count),
            str(one.partitions),
        )
        for one in workers(run)
    ]
    head = (
        "service",
        "workers by memory",
        "cores",
        "workers by cores",
        "workers",
        f"partitions to restore one in {RESTORE_S.value:.0f} s",
    )
    return _table(head, rows)


def _kafka(run: Json) -> str:
    found, rate = brokers(run), rates()
    rows = [
        *((f"{name} a second", f"{each:,.1f}") for name, each in rate.items()),
        ("partitions of each topic", f"{partitions(run):,}"),
        ("tables, one copy", f"{found.table_gib:,.0f} GiB"),
        ("disk, all copies", f"{found.disk_gib:,.0f} GiB"),
        ("written, all copies", f"{found.write_mb:,.0f} MB/s"),
        ("brokers by disk", f"{found.by_disk}"),
        ("brokers by writes", f"{found.by_writes}"),
        ("brokers", f"{found.count}"),
    ]
    return _table(("what", "how much"), rows)


def _limits(run: Json) -> str:
    nodes = COUNTS["node"]
    pods = COUNTS["workload"]
    rows = []
    for one in sorted((one for one in whole(run) if not one.partitioned), key=lambda one: -one.gib):
        share = PROCESS_GIB.value / one.gib
        rows.append((one.place, f"{min(share, 1) * nodes:,.0f}", f"{min(share, 1) * pods:,.0f}"))
    return _table(("state", "nodes", "workloads"), rows)


def _assumed(_: Json) -> str:
    counts = [(f"{count:,}", f"of the unit “{unit}”") for unit, count in COUNTS.items()]
    return _table(("value", "assumption"), counts + [(f"{one.value:,g}", one.text) for one in ASSUMPTIONS])


def _measured(run: Json) -> str:
    machine, load = run["machine"], run["load"]
    return (
        f"Measured on {run['date'][:10]} with commit `{run['commit']}`"
        f"{' and changes' if run['dirty'] else ''}, on {machine['cpu']} with {machine['cores']} cores and Python "
        f"{machine['python']}.\nOther processes used {load['others']:.0%} of the machine.\n"
    )


PARTS: Final = {
    "measured": _measured,
    "memory": lambda run: _slopes(run, "bytes", significant),
    "restore": lambda run: _slopes(run, "us"),
    "log": _log,
    "decisions": _decisions,
    "assumptions": _assumed,
    "states": _states,
    "limits": _limits,
    "workers": _workers,
    "kafka": _kafka,
}
"""The generated parts of the page, by name."""


def parts(folder: Path = history.FOLDER) -> dict[str, str]:
    """Return the generated parts of the page, from the last recorded run that measured everything."""
    runs = [run for run in history.read("scale", folder) if "decisions" in run["figures"]]
    return {name: made(runs[-1]) if runs else "No run is recorded.\n" for name, made in PARTS.items()}
