"""The nodes of the view: what is declared of them together with their taints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moorage.core.apimachinery.quantities import QuantityError, whole
from moorage.core.scheduling.nodes.fleet import TAKEN_AS_ENOUGH, UNLIMITED, Fleet, NodeFacts
from moorage.core.taints.desired.from_conditions import belongs_to_state
from moorage.core.taints.desired.reconcile import newer_taints, wanted_taints
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import Taint, TargetTainted


@dataclass(frozen=True, slots=True)
class _Declared:
    event: ResourceDeclared
    time: datetime | None
    allocatable: Mapping[str, int]


class NodeTable:
    """Declared nodes and their taints, folded into a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._declared: dict[str, _Declared] = {}
        self._tainted: dict[str, TargetTainted] = {}

    def declare(self, name: str, event: ResourceDeclared | None, time: datetime | None) -> bool | None:
        """A node is declared, or deleted (None). What comes back is as of `taint`."""
        known = self._declared.get(name)
        if event is None:
            if known is None:
                return None
            del self._declared[name]
            self._fleet.remove(name)
            return False
        if known is not None and known.event.uid == event.uid and event.version < known.event.version:
            return None
        status = event.object.get("status")
        offered = allocatable(status if isinstance(status, Mapping) else {})
        if known is not None and known.event.uid == event.uid and known.allocatable == offered:
            time = known.time  # what it offers is as old as it was
        self._declared[name] = _Declared(event, time, offered)
        return self._fold(name)

    def taint(self, name: str, event: TargetTainted | None) -> bool | None:
        """A node's taints change, or are forgotten (None).

        Returns:
            None when the node is as it was; True when pods may fit now that did not; False when it only got worse.
        """
        if event is None:
            self._tainted.pop(name, None)
        elif newer_taints(event, self._tainted.get(name)):
            self._tainted[name] = event
        return self._fold(name)

    def uid(self, name: str) -> str | None:
        """The uid of a node; None when there is no such node."""
        known = self._declared.get(name)
        return None if known is None else known.event.uid

    def declared_at(self, name: str) -> datetime | None:
        """When a node began to offer what it offers; None when unknown."""
        known = self._declared.get(name)
        return None if known is None else known.time

    def room(self, name: str) -> dict[str, int]:
        """All that a node has for pods to take."""
        known = self._declared.get(name)
        enough = dict.fromkeys(TAKEN_AS_ENOUGH, UNLIMITED)
        return enough if known is None else {**enough, **known.allocatable}

    def tainted(self, name: str) -> TargetTainted | None:
        """The last word on a node's taints."""
        return self._tainted.get(name)

    def _fold(self, name: str) -> bool | None:
        known = self._declared.get(name)
        if known is None:
            return None
        labels = known.event.object.get("metadata", {}).get("labels") or {}
        spec = known.event.object.get("spec") or {}
        after = NodeFacts(
            name=name,
            labels=labels,
            taints=present_taints(known.event, self._tainted.get(name)),
            unschedulable=spec.get("unschedulable") is True,
            allocatable=known.allocatable,
        )
        before = self._fleet.facts(name)
        if not self._fleet.put(after):
            return None
        return before is None or _better(before, after)


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
        found = {t.identity: Taint(key=t.key, value=t.value, effect=t.effect) for t in wanted_taints(resource, {})}
    for wish in sorted(resource.wishes, key=lambda wish: wish.generation):
        built_in = belongs_to_state(resource.object, wish.key, wish.effect, wish.value)
        if wish.present and wish.generation > applied and not built_in:
            found[wish.key, wish.effect] = Taint(
                key=wish.key, value=wish.value, effect=wish.effect, time_added=wish.time
            )
    return tuple(found.values())


def allocatable(status: Mapping[str, Any]) -> dict[str, int]:
    """What a node offers, in whole units: what is allocatable, the capacity when that is absent.

    The gateway has refused what is no quantity; should one be here all the same, the resource is not offered.
    """
    offered = status.get("allocatable")
    if not isinstance(offered, Mapping):
        offered = status.get("capacity")
    result = {}
    for resource, value in (offered if isinstance(offered, Mapping) else {}).items():
        try:
            result[str(resource)] = whole(str(resource), value, f"status.allocatable[{resource}]")
        except (QuantityError, TypeError):
            result[str(resource)] = 0
    return result


def _better(before: NodeFacts, after: NodeFacts) -> bool:
    """Whether some pod may fit now that did not before."""
    same = before.labels == after.labels and before.allocatable == after.allocatable
    return not same or not set(before.taints) <= set(after.taints) or (before.unschedulable and not after.unschedulable)
