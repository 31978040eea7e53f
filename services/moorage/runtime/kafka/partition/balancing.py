"""Divides partitions among the workers of a service: sticky, balanced, and with warm standbys.

A partition here is partition p of all of a service's sources, which is always owned by one worker. A worker keeps its
partitions for as long as the balance allows. A partition only moves to a warm worker, which has read the partition's
tables as a standby. The exceptions are a partition without a worker, and one whose worker has not read it either, as
when several workers start one after the other. Kafka Streams does the same (KIP-441). So a worker that returns after a
crash first becomes the standby of its future partitions, and takes them when it reports that it is warm.

The functions are pure. The leader of the group calls `divide` with the reports of all members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Partitions = frozenset[int]
_NONE: Partitions = frozenset()


@dataclass(frozen=True, slots=True)
class WorkerClaim:
    """The report of a worker that joins."""

    owned: Partitions = _NONE
    """The partitions that it owned until now."""

    warm: Partitions = _NONE
    """The partitions for which it is a standby that has read the tables."""

    cold: Partitions = _NONE
    """Those that it owned and had not read yet. Another worker would have to read as much."""

    generation: int = -1
    """The group's generation in which it owned them. Of two workers that claim a partition, the later one is right."""


@dataclass(slots=True)
class WorkerShare:
    """The share of a worker."""

    owned: set[int] = field(default_factory=set)
    standby: set[int] = field(default_factory=set)
    """The partitions whose tables it reads, to be able to take them."""

    coming: set[int] = field(default_factory=set)
    """Those of them that it is to own once it is warm for them."""


def divide(
    partitions: Sequence[int], claims: Mapping[str, WorkerClaim], *, standbys: int = 1
) -> dict[str, WorkerShare]:
    """Divide partitions among workers.

    Args:
        partitions: the partitions.
        claims: the report of each worker, by its name.
        standbys: the number of standbys of each partition, if enough other workers exist.

    Returns:
        The share of each worker. Every partition has exactly one worker. The numbers of owned partitions differ by at
    most one, once every worker is warm for its share.
    """
    return _Division(partitions, claims).shares(standbys) if claims else {}


class _Division:
    """One division, in the order of its steps.

    Args:
        claims: the report of each worker.
    """

    def __init__(self, partitions: Sequence[int], claims: Mapping[str, WorkerClaim]) -> None:
        self._partitions = partitions
        self._claims = claims
        self._workers = sorted(claims)
        self._holders = self._keep()
        self._counts = dict.fromkeys(self._workers, 0)
        for holder in self._holders.values():
            self._counts[holder] += 1
        self._limits = self._shared_limits()
        self._wanted: dict[int, str] = {}
        """The moves that wait until the worker is warm."""

    def shares(self, standbys: int) -> dict[str, WorkerShare]:
        """Take all steps."""
        for partition in self._partitions:
            if partition not in self._holders:
                heir = self._heir(partition)
                self._holders[partition] = heir
                self._counts[heir] += 1
        self._balance()
        found = {worker: WorkerShare() for worker in self._workers}
        for partition, holder in self._holders.items():
            found[holder].owned.add(partition)
        self._add_standbys(found, standbys)
        return found

    def _keep(self) -> dict[int, str]:
        """Return the present worker of each partition. Of several claims, the one of the latest generation counts."""
        latest: dict[int, tuple[int, str]] = {}
        for worker in self._workers:
            for partition in self._claims[worker].owned:
                generation = self._claims[worker].generation
                if partition not in latest or generation > latest[partition][0]:
                    latest[partition] = (generation, worker)
        return {partition: latest[partition][1] for partition in self._partitions if partition in latest}

    def _shared_limits(self) -> dict[str, int]:
        """Return how many partitions each worker is to own. Those that own more now get the larger shares."""
        least, rest = divmod(len(self._partitions), len(self._workers))
        ranked = sorted(self._workers, key=lambda worker: (-self._counts[worker], worker))
        return {worker: least + (place < rest) for place, worker in enumerate(ranked)}

    def _is_warm(self, worker: str, partition: int) -> bool:
        return partition in self._claims[worker].warm

    def _is_cold(self, partition: int) -> bool:
        """Return whether the partition's worker has not read its tables."""
        return partition in self._claims[self._holders[partition]].cold

    def _heir(self, partition: int) -> str:
        """Return the worker for an unowned partition: a warm one, if any, with most room."""

        def order(worker: str) -> tuple[bool, int, str]:
            return (not self._is_warm(worker, partition), self._counts[worker] - self._limits[worker], worker)

        return min(self._workers, key=order)

    def _balance(self) -> None:
        """Move partitions to workers with too few, if these are warm, or the present workers are not.

        Note the moves that wait for a warm worker.
        """
        room = {worker: self._limits[worker] - self._counts[worker] for worker in self._workers}
        movable = [partition for partition in self._partitions if room[self._holders[partition]] < 0]
        movable.sort(key=lambda partition: not self._is_cold(partition))
        for warm in (True, False):
            for worker in self._workers:
                for partition in movable:
                    holder = self._holders[partition]
                    if room[worker] <= 0:
                        break
                    if partition in self._wanted or room[holder] >= 0 or self._is_warm(worker, partition) is not warm:
                        continue
                    room[worker] -= 1
                    room[holder] += 1
                    if warm or self._is_cold(partition):
                        self._holders[partition] = worker
                    else:
                        self._wanted[partition] = worker

    def _add_standbys(self, shares: Mapping[str, WorkerShare], standbys: int) -> None:
        """Choose the standbys: first those that are to take the partition, then warm ones, then the least loaded.

        A worker that has its part of all standbys is chosen last, so that memory is shared evenly.
        """
        enough = -(-len(self._holders) * standbys // len(self._workers))
        for partition in self._partitions:

            def order(worker: str, partition: int = partition) -> tuple[bool, bool, bool, int, str]:
                load = len(shares[worker].standby)
                first = self._wanted.get(partition) == worker
                return (not first, load >= enough, not self._is_warm(worker, partition), load, worker)

            others = sorted((worker for worker in self._workers if worker != self._holders[partition]), key=order)
            for worker in others[: max(standbys, partition in self._wanted)]:
                shares[worker].standby.add(partition)
        for partition, worker in self._wanted.items():
            shares[worker].coming.add(partition)
