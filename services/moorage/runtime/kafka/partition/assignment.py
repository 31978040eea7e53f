"""Divides partitions among the workers of a service: sticky, balanced, and with warm standbys.

A partition here is partition p of all of a service's sources, which always has one owner. An owner keeps its partitions
for as long as the balance allows. A partition only moves to a worker that is warm for it, which means that it has read
the partition's tables as a standby; the exceptions are a partition without an owner, and one whose owner has not read
it either, as when several workers start one after the other. Kafka Streams does the same
(KIP-441). So a worker that comes back after a crash first becomes the standby of the partitions that it is to take, and
takes them when it reports that it is warm.

The functions are pure. The leader of the group calls `divide` with what every member has reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Partitions = frozenset[int]
_NONE: Partitions = frozenset()


@dataclass(frozen=True, slots=True)
class WorkerClaim:
    """What a worker reports when it joins."""

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
    """What a worker gets."""

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
        claims: what each worker reports, by its name.
        standbys: the number of standbys of each partition, as far as there are other workers.

    Returns:
        The share of each worker. Every partition has exactly one owner. The numbers of owned partitions differ by at
        most one, once every worker is warm for what it is to take.
    """
    return _Division(partitions, claims).shares(standbys) if claims else {}


class _Division:
    """One division, in the order of its steps.

    Args:
        partitions: the partitions.
        claims: what each worker reports.
    """

    def __init__(self, partitions: Sequence[int], claims: Mapping[str, WorkerClaim]) -> None:
        self._partitions = partitions
        self._claims = claims
        self._workers = sorted(claims)
        self._owners = self._keep()
        self._counts = dict.fromkeys(self._workers, 0)
        for owner in self._owners.values():
            self._counts[owner] += 1
        self._limits = self._shared_limits()
        self._wanted: dict[int, str] = {}
        """The moves that wait until the worker is warm."""

    def shares(self, standbys: int) -> dict[str, WorkerShare]:
        """Take all steps."""
        for partition in self._partitions:
            if partition not in self._owners:
                heir = self._heir(partition)
                self._owners[partition] = heir
                self._counts[heir] += 1
        self._balance()
        found = {worker: WorkerShare() for worker in self._workers}
        for partition, owner in self._owners.items():
            found[owner].owned.add(partition)
        self._add_standbys(found, standbys)
        return found

    def _keep(self) -> dict[int, str]:
        """Return the present owners. Of several that claim a partition, the one of the latest generation owns it."""
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
        """Return whether the partition's owner has not read its tables."""
        return partition in self._claims[self._owners[partition]].cold

    def _heir(self, partition: int) -> str:
        """Return the worker that takes a partition without an owner: a warm one, if there is any, with most room."""

        def order(worker: str) -> tuple[bool, int, str]:
            return (not self._is_warm(worker, partition), self._counts[worker] - self._limits[worker], worker)

        return min(self._workers, key=order)

    def _balance(self) -> None:
        """Move partitions to workers that own too few, if these are warm, or their owners are not.

        Note which moves wait for a warm worker.
        """
        room = {worker: self._limits[worker] - self._counts[worker] for worker in self._workers}
        movable = [partition for partition in self._partitions if room[self._owners[partition]] < 0]
        movable.sort(key=lambda partition: not self._is_cold(partition))
        for warm in (True, False):
            for worker in self._workers:
                for partition in movable:
                    owner = self._owners[partition]
                    if room[worker] <= 0:
                        break
                    if partition in self._wanted or room[owner] >= 0 or self._is_warm(worker, partition) is not warm:
                        continue
                    room[worker] -= 1
                    room[owner] += 1
                    if warm or self._is_cold(partition):
                        self._owners[partition] = worker
                    else:
                        self._wanted[partition] = worker

    def _add_standbys(self, shares: Mapping[str, WorkerShare], standbys: int) -> None:
        """Choose the standbys: first those that are to take the partition, then warm ones, then the least loaded.

        A worker that has its part of all standbys is chosen last, so that memory is shared evenly.
        """
        enough = -(-len(self._owners) * standbys // len(self._workers))
        for partition in self._partitions:

            def order(worker: str, partition: int = partition) -> tuple[bool, bool, bool, int, str]:
                load = len(shares[worker].standby)
                first = self._wanted.get(partition) == worker
                return (not first, load >= enough, not self._is_warm(worker, partition), load, worker)

            others = sorted((worker for worker in self._workers if worker != self._owners[partition]), key=order)
            for worker in others[: max(standbys, partition in self._wanted)]:
                shares[worker].standby.add(partition)
        for partition, worker in self._wanted.items():
            shares[worker].coming.add(partition)
