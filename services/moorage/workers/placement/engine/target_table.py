"""Targets of one kind: what is declared of them, and their taints."""

from __future__ import annotations

from enum import Enum, auto

from moorage.core.taints.desired.from_conditions import belongs_to_state, desired_taints
from moorage.core.taints.desired.reconcile import newer_taints
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Taint, TargetTainted


class Declaration(Enum):
    """What a declaration means to what is known of its target."""

    STALE = auto()
    """Nothing: it is older than what is known, or deletes what is not known."""

    DELETED = auto()
    NEW = auto()
    """The target was not known."""

    CHANGED = auto()
    REPLACED = auto()
    """The target was deleted and made again under its name."""


class TargetTable:
    """Targets by name. A record that is not newer than what is known changes nothing."""

    def __init__(self) -> None:
        self._declared: dict[str, ResourceDeclared] = {}
        self._tainted: dict[str, TargetTainted] = {}

    def declare(self, name: str, event: ResourceDeclared | None) -> Declaration:
        """A target is declared, or deleted (None)."""
        known = self._declared.get(name)
        if event is None:
            if known is None:
                return Declaration.STALE
            del self._declared[name]
            return Declaration.DELETED
        if known is not None and known.uid == event.uid and event.version < known.version:
            return Declaration.STALE
        self._declared[name] = event
        if known is None:
            return Declaration.NEW
        return Declaration.CHANGED if known.uid == event.uid else Declaration.REPLACED

    def taint(self, name: str, event: TargetTainted | None) -> None:
        """The taints of a target change, or are forgotten (None)."""
        if event is None:
            self._tainted.pop(name, None)
        elif newer_taints(event, self._tainted.get(name)):
            self._tainted[name] = event

    def declared(self, name: str) -> ResourceDeclared | None:
        """What is declared of a target; None when there is no such target."""
        return self._declared.get(name)

    def tainted(self, name: str) -> TargetTainted | None:
        """The last record of a target's taints, whichever target of that name it is about."""
        return self._tainted.get(name)


def present_taints(resource: ResourceDeclared, tainted: TargetTainted | None) -> tuple[Taint, ...]:
    """The taints that keep new pods away now: those in force, and those that are asked for and still on their way.

    A node's declaration may be seen before the taint-manager has worked it in; what it asks for counts at
    once, so that no pod slips in between. What it asks to take away counts until it is gone. What is built in is not
    people's to ask for. While nothing was decided about a target, what its declaration alone says holds: a managed
    cluster is unreachable. Without times, for placement needs none.
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
