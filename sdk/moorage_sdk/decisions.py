"""The rule of a deployer: what is to run where, from the topics `bindings` and `evictions`.

It is the rule of the contract (schemas/README.md, "For a deployer"), without I/O. Both topics are kept as tables. What
is to run follows from the two tables alone, so it does not matter which of them is ahead of the other, which older
records have been compacted away, or how often a record is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import EvictionKey, binding_key
from moorage_schemas.placement import WorkloadBound
from moorage_schemas.refs import TargetRef, WorkloadRef

BINDING_ENDED = "BindingEnded"
"""The reason of a removal without an eviction, also on an eviction that ended because of it."""

GRACEFULLY = "Gracefully"
"""The purge mode of work that keeps running until its binding ends."""

REPLACED = "Replaced"
"""The reason of a removal because another workload has the name now."""


@dataclass(frozen=True, slots=True)
class Running:
    """A workload that runs on a target, as the platform of a deployer knows it.

    A deployer stores these values of the binding beside the work, for example as labels. They tell it after a
    restart for which binding the work was started.
    """

    workload: WorkloadRef
    target: TargetRef
    uid: str
    """The uid of the binding. A workload that is created again under its name has another one."""

    generation: int
    """The generation of the binding for which it was started, or last adopted."""

    revision: int = 1
    """The revision of the binding that was last applied to it."""

    preserved: bool = False
    """Whether it stays when its binding ends, unless it was evicted."""

    @property
    def key(self) -> str:
        """The record key of its binding."""
        return binding_key(self.workload, self.target)

    @classmethod
    def of(cls, bound: WorkloadBound) -> Running:
        """Work that runs once a binding has been carried out."""
        return cls(bound.workload, bound.target, bound.uid, bound.generation, bound.revision, bound.preserved)


@dataclass(frozen=True, slots=True)
class Place:
    """The workload is to run on the target: start it, or apply what has changed."""

    bound: WorkloadBound


@dataclass(frozen=True, slots=True)
class Remove:
    """Work on the target has to leave it."""

    running: Running
    reason: str
    """`UntoleratedTaint`, `TolerationExpired` …, the reason of the eviction; else `BindingEnded` or `Replaced`."""

    message: str = ""
    eviction: EvictionDecided | None = None
    """The eviction that requests it. None if the binding has ended for another reason."""


Step = Place | Remove


class Decisions:
    """The two tables, and what follows from them.

    Records of one key are folded in in their order. The caller reads both topics to the end that they have at its
    start before it takes the first step.
    """

    def __init__(self) -> None:
        self._bindings: dict[str, WorkloadBound] = {}
        self._evictions: dict[str, dict[int, EvictionDecided]] = {}

    def fold_binding(self, key: str, event: WorkloadBound | None) -> None:
        """Fold in a record of `bindings`. None is a tombstone."""
        if event is None:
            self._bindings.pop(key, None)
            return
        known = self._bindings.get(key)
        if known is None or known.uid != event.uid or _version(known) <= _version(event):
            self._bindings[key] = event

    def fold_eviction(self, key: str, event: EvictionDecided | None) -> EvictionDecided | None:
        """Fold in a record of `evictions`. None is a tombstone. Returns the previous record of the key."""
        parsed = EvictionKey.parse(key)
        mine = self._evictions.setdefault(parsed.binding, {})
        before = mine.get(parsed.generation)
        if event is not None:
            mine[parsed.generation] = event
            return before
        mine.pop(parsed.generation, None)
        if not mine:
            del self._evictions[parsed.binding]
        return before

    @property
    def keys(self) -> set[str]:
        """The keys of the bindings that have not ended."""
        return set(self._bindings)

    @property
    def evictions(self) -> list[EvictionDecided]:
        """The evictions that are known, in no particular order."""
        return [event for mine in self._evictions.values() for event in mine.values()]

    def binding(self, key: str) -> WorkloadBound | None:
        """The present binding of a key, whether it is evicted or not."""
        return self._bindings.get(key)

    def eviction(self, bound: WorkloadBound) -> EvictionDecided | None:
        """The eviction of exactly this binding, in whatever state it is."""
        event = self._evictions.get(binding_key(bound.workload, bound.target), {}).get(bound.generation)
        return event if event is not None and event.workload_uid in {"", bound.uid} else None

    def unacknowledged(self, key: str) -> list[EvictionDecided]:
        """The evictions of a key for which the control plane waits until a deployer has acknowledged them."""
        return [
            event
            for event in self._evictions.get(key, {}).values()
            if event.deployer and event.acknowledged is None and _is_requested(event)
        ]

    def wanted(self, key: str) -> WorkloadBound | None:
        """Return the binding of a key if the workload is to run. None without a binding, or if it has to leave."""
        bound = self._bindings.get(key)
        if bound is None:
            return None
        event = self.eviction(bound)
        return bound if event is None or not must_leave(event) else None

    def step(self, key: str, running: Running | None) -> Step | None:
        """Return the step for a key, given the work that runs. None if nothing is to be done."""
        bound, wanted = self._bindings.get(key), self.wanted(key)
        if running is not None:
            if bound is not None and bound.uid == running.uid and bound.generation < running.generation:
                return None  # the table is older than what runs
            if wanted is None or wanted.uid != running.uid:
                return self._removal(running, bound)
        if wanted is None or wanted.suspended:
            return None
        if running is not None and (running.generation, running.revision) >= _version(wanted):
            return None
        return Place(wanted)

    def _removal(self, running: Running, bound: WorkloadBound | None) -> Remove | None:
        event = self._evictions.get(running.key, {}).get(running.generation)
        stays = running.preserved and bound is None
        if event is not None and event.workload_uid in {"", running.uid} and must_leave(event):
            # One that was cancelled because the binding has ended was no eviction in the end.
            return None if stays and event.state is EvictionState.CANCELLED else _evicted(running, event)
        if stays:
            return None
        if bound is not None and bound.uid != running.uid:
            return Remove(running, REPLACED, f"{running.workload} was created again under its name")
        return Remove(running, BINDING_ENDED, "the binding has ended")


def _evicted(running: Running, event: EvictionDecided) -> Remove:
    return Remove(running, event.reason, event.message, event)


def must_leave(event: EvictionDecided) -> bool:
    """Whether an eviction means that its binding must not run any more."""
    if _is_requested(event):
        return True
    return event.state is EvictionState.COMPLETED or (
        event.state is EvictionState.CANCELLED and event.reason == BINDING_ENDED
    )


def _is_requested(event: EvictionDecided) -> bool:
    """Whether the work is to be removed now. What leaves gracefully runs until its binding ends."""
    return event.state is EvictionState.REQUESTED and event.purge_mode != GRACEFULLY


def is_same_step(one: Step | None, other: Step | None) -> bool:
    """Whether two steps ask for the same. What was reported of an eviction since does not make it another one."""
    if not isinstance(one, Remove) or not isinstance(other, Remove):
        return one == other
    return (one.running, one.reason, _identity(one.eviction)) == (
        other.running,
        other.reason,
        _identity(other.eviction),
    )


def _identity(event: EvictionDecided | None) -> tuple[str, int, EvictionState] | None:
    return None if event is None else (event.workload_uid, event.generation, event.state)


def _version(bound: WorkloadBound) -> tuple[int, int]:
    return bound.generation, bound.revision
