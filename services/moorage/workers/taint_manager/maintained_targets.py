"""The targets that a maintenance keeps out of service now, and their taints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moorage.decide.disruption.eviction_reasons import MAINTENANCE_TAINT
from moorage.decide.disruption.maintenance import OUT_OF_SERVICE
from moorage.decide.taints.desired.from_conditions import DesiredTaint
from moorage.runtime.service import Input
from moorage_schemas.envelope import Meta
from moorage_schemas.maintenance import MaintenanceProgressed
from moorage_schemas.taint import TaintEffect, TaintOrigin, TargetTainted

_EFFECTS = (TaintEffect.NO_SCHEDULE.value, TaintEffect.NO_EXECUTE.value)


class MaintainedTargets:
    """The targets of all maintenances that are out of service, by the records of the governor."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, tuple[DesiredTaint, ...]]] = {}  # by maintenance, then by target
        self.meta: Meta | None = None
        """The last record of a maintenance."""

        self.version = 0
        """Increases with each record."""

    def apply(self, record: Input) -> None:
        """Fold in the state of a maintenance."""
        self.version += 1
        self.meta = record.meta
        event = record.event
        if not isinstance(event, MaintenanceProgressed):
            self._of.pop(record.key, None)
            return
        self._of[record.key] = {
            f"{event.kind}/{one.name}": tuple(
                DesiredTaint(
                    MAINTENANCE_TAINT, effect, event.name, TaintOrigin.SYSTEM, f"Maintenance {event.name}", one.since
                )
                for effect in _EFFECTS
            )
            for one in event.targets
            if one.stage in OUT_OF_SERVICE
        }

    def taints_of(self, target: str) -> Sequence[DesiredTaint]:
        """Return the taints that a target must have now. Of several maintenances, the first by name counts."""
        for name in sorted(self._of) if self._of else ():
            if (found := self._of[name].get(target)) is not None:
                return found
        return ()

    def targets(self) -> set[str]:
        """Return the targets that are out of service."""
        return {target for found in self._of.values() for target in found}


def has_taint(event: TargetTainted) -> bool:
    """Return whether a target has the taint of a maintenance."""
    return any(one.key == MAINTENANCE_TAINT and TaintOrigin.SYSTEM in one.origins for one in event.taints)


def differing(maintained: MaintainedTargets, known: Iterable[str]) -> list[str]:
    """Return the targets to check again: those out of service now, and those that were."""
    return sorted(maintained.targets() | set(known))
