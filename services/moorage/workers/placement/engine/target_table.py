"""Targets of one kind: their declarations and their taints.

Every process holds all targets, so they are kept as the text of their records. A parsed declaration with its taints
takes 10 KB, and its text 1 KB. It is parsed again when the taints of the target change, which is rare.
"""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct

from moorage.decide.taints.desired.from_conditions import belongs_to_state, desired_taints
from moorage.decide.taints.desired.reconcile import newer_taints
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Taint, TargetTainted


class Declaration(Enum):
    """The effect of a declaration on what is known of its target."""

    STALE = auto()
    """No effect: it is older than the known declaration, or deletes an unknown target."""

    DELETED = auto()
    NEW = auto()
    """The target was not known."""

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
    """Targets by name. A record that is not newer than the known one changes nothing."""

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
    """Return the taints that keep new pods away now: those in force, and people's edits that are not applied yet.

    A node's declaration may be read before the taint-manager has processed it. A taint that it adds counts at once, so
    that no pod is placed in between. A taint that it removes counts until it is gone. People cannot add built-in
    taints. Until the taint-manager has decided on a target, the taints that follow from its declaration alone count; a
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
    for wish in sorted(resource.wishes, key=lambda wish: wish.generation):
        built_in = belongs_to_state(resource.object, wish.key, wish.effect, wish.value)
        if wish.present and wish.generation > applied and not built_in:
            found[wish.key, wish.effect] = Taint(
                key=wish.key, value=wish.value, effect=wish.effect, time_added=wish.time
            )
    return tuple(found.values())
