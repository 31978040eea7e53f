"""The tables of the views: targets of one kind, evictions, and the latest value of each key.

Every process holds all targets, so they are kept as the text of their records. A parsed declaration with its taints
takes 10 KB, and its text 1 KB. It is parsed again when the taints of the target change, which is rare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

from msgspec import Struct

from moorage.decide.taints.desired.from_conditions import belongs_to_state, desired_taints
from moorage.decide.taints.desired.taint_reconciliation import newer_taints
from moorage.runtime.service import Input
from moorage_schemas.envelope import Meta
from moorage_schemas.eviction import EvictionDecided, EvictionState
from moorage_schemas.keys import EvictionKey
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Taint, TargetTainted


class Declaration(Enum):
    """The effect of a declaration on its target's entry."""

    STALE = auto()
    """No effect: it is older than the last declaration, or deletes a target without an entry."""

    DELETED = auto()
    NEW = auto()
    """The target is new."""

    CHANGED = auto()
    REPLACED = auto()
    """The target was deleted and created again under its name."""


class _KeptDeclaration(Struct, frozen=True, gc=False):
    """A declaration without its model."""

    uid: str
    version: int
    value: bytes


class _KeptTaints(Struct, frozen=True, gc=False):
    """A record of taints without its model."""

    target_uid: str
    generation: int
    value: bytes


class TargetTable:
    """Targets by name. A record that is not newer than the last one changes nothing."""

    def __init__(self) -> None:
        self._declared: dict[str, _KeptDeclaration] = {}
        self._tainted: dict[str, _KeptTaints] = {}
        self._latest: ResourceDeclared | None = None
        """The last declaration that was folded in. It is usually read right after that."""

    def declare(self, name: str, event: ResourceDeclared | None) -> Declaration:
        """Fold in a target that is declared, or deleted (None)."""
        known = self._declared.get(name)
        if event is None:
            if known is None:
                return Declaration.STALE
            del self._declared[name]
            return Declaration.DELETED
        uid = event.uid
        if known is not None and known.uid == uid and event.version < known.version:
            return Declaration.STALE
        self._declared[name] = _KeptDeclaration(uid, event.version, event.__pydantic_serializer__.to_json(event))
        self._latest = event
        if known is None:
            return Declaration.NEW
        return Declaration.CHANGED if known.uid == uid else Declaration.REPLACED

    def taint(self, name: str, event: TargetTainted | None) -> None:
        """Fold in the taints of a target; None for a tombstone."""
        if event is None:
            self._tainted.pop(name, None)
        elif newer_taints(event, self._tainted.get(name)):
            value = event.__pydantic_serializer__.to_json(event)
            self._tainted[name] = _KeptTaints(event.target_uid, event.generation, value)

    def uid(self, name: str) -> str | None:
        """Return the uid of a target; None when there is no such target."""
        known = self._declared.get(name)
        return None if known is None else known.uid

    def declared(self, name: str) -> ResourceDeclared | None:
        """Return the declaration of a target; None when there is no such target."""
        known = self._declared.get(name)
        if known is None:
            return None
        latest = self._latest
        if latest is not None and latest.version == known.version and latest.uid == known.uid and latest.name == name:
            return latest
        return ResourceDeclared.model_validate_json(known.value)

    def tainted(self, name: str) -> TargetTainted | None:
        """Return the last record of a target's taints, even if it is about an earlier target of that name."""
        known = self._tainted.get(name)
        return None if known is None else TargetTainted.model_validate_json(known.value)

    def taint_generation(self, name: str) -> int:
        """Return the generation of the last record of a target's taints; 0 when there is none."""
        known = self._tainted.get(name)
        return 0 if known is None else known.generation


def present_taints(resource: ResourceDeclared, tainted: TargetTainted | None) -> tuple[Taint, ...]:
    """Return the taints that keep new pods away now: those in force, and people's unapplied edits.

    A node's declaration may be read before the taint-manager has processed it. A taint that it adds counts at once, so
    that no pod is placed in between. A taint that it removes counts until its removal. People cannot add built-in
    taints. Until the taint-manager has decided on a target, only the taints that follow from its declaration count; a
    managed cluster is then unreachable. These taints have no times, because placement needs none.
    """
    if tainted is not None and tainted.target_uid not in {"", resource.uid}:
        tainted = None
    found: dict[tuple[str, str], Taint] = {}
    applied = 0
    if tainted is not None:
        applied = tainted.wishes_applied
        found = {record.identity: record.as_taint() for record in tainted.taints}
    else:
        found = {t.identity: Taint(key=t.key, value=t.value, effect=t.effect) for t in desired_taints(resource, {})}
    for edit in sorted(resource.wishes, key=lambda edit: edit.generation):
        built_in = belongs_to_state(resource.object, edit.key, edit.effect, edit.value)
        if edit.present and edit.generation > applied and not built_in:
            found[edit.key, edit.effect] = Taint(
                key=edit.key, value=edit.value, effect=edit.effect, time_added=edit.time
            )
    return tuple(found.values())


V = TypeVar("V")


class Overlay(Generic[V]):
    """Keeps values that count from the moment of their decision, before they are in the log.

    Args:
        reaches: returns whether a value from the log is the assumed one, or a later one.
    """

    def __init__(self, reaches: Callable[[V, V], bool]) -> None:
        self._reaches = reaches
        self._logged: dict[str, V] = {}
        self._assumed: dict[str, tuple[object, V | None]] = {}

    @property
    def logged(self) -> Mapping[str, V]:
        """The values in the log."""
        return self._logged

    def get(self, key: str) -> V | None:
        """Return the present value; None when there is none."""
        assumed = self._assumed.get(key)
        return assumed[1] if assumed is not None else self._logged.get(key)

    def arrive(self, key: str, value: V | None) -> bool:
        """Fold in a value from the log; None when it was deleted. Return whether it confirms an assumption."""
        if value is None:
            self._logged.pop(key, None)
        else:
            self._logged[key] = value
        return self.confirm(key, value)

    def confirm(self, key: str, value: V | None) -> bool:
        """Drop the assumption that a value from the log confirms. Return whether there was one."""
        if key not in self._assumed:
            return False
        assumed = self._assumed[key][1]
        confirmed = assumed is value if assumed is None or value is None else self._reaches(value, assumed)
        if confirmed:
            del self._assumed[key]
        return confirmed

    def assume(self, key: str, value: V | None, by: object) -> None:
        """Count a value, or a tombstone (None), that is about to be written."""
        self._assumed[key] = (by, value)

    def assumption(self, key: str) -> tuple[object, V | None] | None:
        """Return the assumption for a key with the partition that made it; None if there is none."""
        return self._assumed.get(key)

    def put_back(self, key: str, assumption: tuple[object, V | None] | None) -> None:
        """Restore the assumption of a key that `assumption` returned."""
        if assumption is None:
            self._assumed.pop(key, None)
        else:
            self._assumed[key] = assumption

    def assumed_by(self, who: object) -> list[str]:
        """Return the keys of the values that a partition has assumed."""
        return [key for key, (by, _) in self._assumed.items() if by is who]


@dataclass(frozen=True, slots=True)
class Requested:
    """An eviction that is requested."""

    event: EvictionDecided
    meta: Meta

    @property
    def waits(self) -> bool:
        """Whether the deployer has still to acknowledge it, so that the binding has to stay."""
        return bool(self.event.deployer) and self.event.acknowledged is None


class EvictionTable:
    """The evictions from the targets of one kind."""

    def __init__(self) -> None:
        self._requested: dict[str, dict[str, Requested]] = {}
        self._highest: dict[str, int] = {}
        """The highest generation of the evictions of each workload that has any."""

        self._floor = 0
        """The highest generation of all evictions that were removed."""

    def fold(self, record: Input) -> Requested | None:
        """Fold in a record of `evictions`. Return the eviction if it is requested."""
        workload, _, generation = EvictionKey.parse(record.key)
        event = record.event if isinstance(record.event, EvictionDecided) else None
        if event is not None:
            self._highest[workload] = max(self._highest.get(workload, 0), generation)
        else:
            # The record of the floor is in the same transaction, but in another topic, and may be read later.
            self.raise_floor(generation)
            if self._highest.get(workload, 0) <= generation:
                self._highest.pop(workload, None)
        if event is not None and event.state is EvictionState.REQUESTED:
            found = Requested(event, record.meta)
            self._requested.setdefault(workload, {})[record.key] = found
            return found
        mine = self._requested.get(workload, {})
        if mine.pop(record.key, None) is not None and not mine:
            del self._requested[workload]
        return None

    def requested(self, workload: str, uid: str, target: str, generation: int) -> Requested | None:
        """Return the eviction that requests the end of exactly this binding; None when there is none."""
        for one in self._requested.get(workload, {}).values():
            event = one.event
            same_life = not event.workload_uid or event.workload_uid == uid
            if same_life and event.target.name == target and event.generation == generation:
                return one
        return None

    def ends(self, workload: str, target: str, generation: int) -> bool:
        """Return whether an eviction requests the end of a binding."""
        found = self._requested.get(workload)
        return found is not None and any(
            one.event.target.name == target and one.event.generation == generation for one in found.values()
        )

    def raise_floor(self, generation: int) -> None:
        """Note the highest generation of evictions that were removed."""
        self._floor = max(self._floor, generation)

    def next_generation(self, workload: str, known: int | None) -> int:
        """Return the generation of the next decision on a workload, and of its next binding.

        It is above that of every binding of the workload, and of every eviction of one. Removed ones are below the
        floor.

        Args:
            workload: the key of the workload.
            known: the generation of the last decision; None without one.
        """
        return max(self._highest.get(workload, 0), self._floor if known is None else known) + 1
