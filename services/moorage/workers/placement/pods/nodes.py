"""The nodes of the view: their declarations together with their taints."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from moorage.decide.kubernetes.quantities import QuantityError, whole
from moorage.decide.scheduling.nodes.fleet import TAKEN_AS_ENOUGH, UNLIMITED, Fleet, NodeFacts
from moorage.runtime.process.memory import Pool
from moorage.workers.placement.engine.view_tables import Declaration, TargetTable, present_taints
from moorage_schemas.resource import ResourceDeclared
from moorage_schemas.taint import TargetTainted

_SHAPES: Final = 4096
"""How many distinct amounts of resources are remembered, to be shared. Nodes of a type offer the same."""


@dataclass(frozen=True, slots=True)
class _Offer:
    """The resources that a node offers to pods, and the time since which it does."""

    allocatable: Mapping[str, int]
    since: datetime | None


class NodeTable:
    """Declared nodes and their taints, folded into a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.targets = TargetTable()
        self._offers: dict[str, _Offer] = {}
        self._labelled: dict[str, datetime] = {}
        """The time since which a node has its present labels, where that is known."""

        self._amounts: Pool[Mapping[str, int]] = Pool(_SHAPES)

    def declare(self, name: str, event: ResourceDeclared | None, time: datetime | None) -> bool | None:
        """Fold in a node that is declared, or deleted (None). Return the same as `taint`."""
        found = self.targets.declare(name, event)
        if found is Declaration.STALE:
            return None
        if event is None:
            del self._offers[name]
            self._labelled.pop(name, None)
            self._fleet.remove(name)
            return False
        labelled = time
        status = event.object.get("status")
        own = allocatable(status if isinstance(status, Mapping) else {})
        offered = self._amounts.shared(tuple(own.items()), own)
        known = self._offers.get(name)
        if found is Declaration.CHANGED and known is not None and known.allocatable == offered:
            time = known.since  # it still offers the same
        self._offers[name] = _Offer(offered, time)
        before = self._fleet.facts(name)
        opened = self._fold(name)
        after = self._fleet.facts(name)
        if labelled is not None and after is not None and (before is None or before.labels != after.labels):
            self._labelled[name] = labelled
        return opened

    def taint(self, name: str, event: TargetTainted | None) -> bool | None:
        """Fold in a node's taints; None for a tombstone.

        Returns:
            None when the node has not changed; True when pods may fit now that did not fit before; False for any other
            change.
        """
        self.targets.taint(name, event)
        return self._fold(name)

    def declared_at(self, name: str) -> datetime | None:
        """Return the time since which a node offers its present resources; None when unknown."""
        known = self._offers.get(name)
        return None if known is None else known.since

    def labelled_at(self, name: str) -> datetime | None:
        """Return the time since which a node has its present labels; None when unknown."""
        return self._labelled.get(name)

    def room(self, name: str) -> dict[str, int]:
        """Return all resources that a node offers to pods."""
        known = self._offers.get(name)
        enough = dict.fromkeys(TAKEN_AS_ENOUGH, UNLIMITED)
        return enough if known is None else {**enough, **known.allocatable}

    def _fold(self, name: str) -> bool | None:
        known = self.targets.declared(name)
        if known is None:
            return None
        labels = known.object.get("metadata", {}).get("labels") or {}
        spec = known.object.get("spec") or {}
        after = NodeFacts(
            name=name,
            labels={_interned(label): _interned(value) for label, value in labels.items()},
            taints=present_taints(known, self.targets.tainted(name)),
            unschedulable=spec.get("unschedulable") is True,
            allocatable=self._offers[name].allocatable,
        )
        before = self._fleet.facts(name)
        if not self._fleet.put(after):
            return None
        return before is None or _better(before, after)


def _interned(text: Any) -> Any:
    """Return the one object for a text. Nodes have few distinct labels, and share most of their values."""
    return sys.intern(text) if type(text) is str else text


def allocatable(status: Mapping[str, Any]) -> dict[str, int]:
    """Return a node's resources in whole units: its allocatable resources, or its capacity without them.

    The gateway refuses values that are not quantities. A resource with such a value is not offered.
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
    """Return whether a pod may fit now that did not fit before."""
    same = before.labels == after.labels and before.allocatable == after.allocatable
    return not same or not set(before.taints) <= set(after.taints) or (before.unschedulable and not after.unschedulable)
