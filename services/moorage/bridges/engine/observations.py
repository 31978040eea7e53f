"""Reports of a bridge on its cluster: the conditions of its targets, and how the work on them is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from typing_extensions import override

from moorage.bridges.engine.reports import Report
from moorage.bridges.engine.seen_state import SeenState
from moorage.bridges.engine.seen_target import SeenCondition, SeenTarget, identity_of
from moorage.bridges.engine.silence import Leases
from moorage.bridges.engine.target_tables import TargetTables, WorkTables
from moorage_schemas.condition import HEALTHY
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind, TargetRef, WorkloadRef

State = TypeVar("State", bound=SeenState[Any])
Tables = TypeVar("Tables", bound=TargetTables)
HealthTables = TypeVar("HealthTables", bound=WorkTables[Any, Any])


class ReportKey(NamedTuple):
    """The subject of a report."""

    about: str
    """A word for targets, the same of all. Otherwise it depends on the kind of the cluster."""

    name: str
    """The name of a target, or the key of work."""

    type: str

    def __str__(self) -> str:
        return "|".join(self)

    @classmethod
    def parse(cls, key: str) -> ReportKey:
        """Parse a key."""
        return cls(*key.split("|", 2))


@dataclass(eq=False)
class TargetObservations(ABC, Generic[State, Tables]):
    """Reports on targets from what was seen.

    Attributes:
        is_mirrored: returns whether an object is in `resources` with a uid, so that it can be reported on.
        cluster: the name of the cluster in references. Empty for the home fleet.
    """

    kind: ClassVar[TargetKind]
    about: ClassVar[str] = "cluster"
    """The prefix of the keys of reports on targets."""

    ready: ClassVar[str]
    """The type of the condition that states whether a target is silent."""

    judged: ClassVar[tuple[str, ...]]
    """The types of the conditions that become Unknown when a target is silent."""

    silent: ClassVar[SeenCondition]
    """Their status in that case."""

    source: str
    state: State
    tables: Tables
    leases: Leases
    is_mirrored: Callable[[str, str], bool]
    _: KW_ONLY
    cluster: str = ""

    def of_target(self, name: str) -> list[str]:
        """Return the keys of the reports on a target."""
        target: SeenTarget | None = self.state.targets.get(name)
        types = {*(target.conditions if target is not None else ()), *self.judged}
        return [str(ReportKey(self.about, name, one)) for one in sorted(types)]

    def of_work(self, key: str) -> list[str]:  # noqa: ARG002 - for those that report on work
        """Return the keys of the reports on work."""
        return []

    def is_urgent(self, key: str) -> bool:
        """Return whether a report goes before others. Those on targets do: all of their work may have to leave."""
        return ReportKey.parse(key).about == self.about

    def present(self, key: str) -> Report | None:
        """Return what is to be reported under a key. None for nothing."""
        about, name, kind = ReportKey.parse(key)
        target: SeenTarget | None = self.state.targets.get(name)
        if about != self.about or target is None or not self._has(target):
            return None
        found = self._condition(target, kind)
        return Report.of(self._target(name), kind, *found) if found is not None else None

    def is_known(self, key: str, report: Report) -> bool:
        """Return whether the topics contain a report."""
        about, name, _ = ReportKey.parse(key)
        target: SeenTarget | None = self.state.targets.get(name)
        return about == self.about and target is not None and self.tables.is_said(report, target.uid, self.source)

    def is_taken_over(self, key: str) -> bool:
        """Return whether another source has reported a condition of a target last."""
        about, name, kind = ReportKey.parse(key)
        return about == self.about and self.tables.is_taken_over(name, kind, self.source)

    def was_silent(self, name: str) -> bool:
        """Return whether a bridge has reported that a target has fallen silent.

        It stays so for a bridge that starts, until it gives a sign of life.
        """
        target: SeenTarget | None = self.state.targets.get(name)
        return target is not None and self.tables.was_said_last(
            name, target.uid, self.ready, source=self.source, reason=self.silent.reason
        )

    @abstractmethod
    def is_settled(self, target: Any) -> bool:
        """Return whether the topics contain what was seen of a target, and the taints that follow."""

    def _condition(self, target: Any, kind: str) -> SeenCondition | None:
        """Return what is to be reported of a condition of a target. None for nothing."""
        if kind in self.judged and self.leases.is_silent(target.name):
            return self.silent
        found: SeenCondition | None = target.conditions.get(kind)
        return found

    def _has_its_taints(self, target: SeenTarget) -> bool:
        """Return whether the topics contain the taints of a target as its cluster, which decides on them, has them."""
        record = self.tables.resources.get(str(ResourceKey(self.kind.value, "", target.name, self.cluster)))
        tainted = self.tables.taints.get(target.name)
        if record is None or tainted is None or tainted.target_uid not in {"", target.uid}:
            return False
        there = {identity_of(one) for one in target.taints}
        return there - record.wished == {one.identity for one in tainted.taints} - record.wished

    def _has(self, target: SeenTarget) -> bool:
        """Return whether a target is mirrored, so that something can be reported on it."""
        return self.is_mirrored(str(ResourceKey(self.kind.value, "", target.name, self.cluster)), target.uid)

    def _target(self, name: str) -> TargetRef:
        return TargetRef(kind=self.kind, name=name, cluster=self.cluster)


class WorkObservations(TargetObservations[State, HealthTables]):
    """Reports on targets, and on the work on them."""

    @override
    def present(self, key: str) -> Report | None:
        about, name, kind = ReportKey.parse(key)
        return super().present(key) if about == self.about else self._of_work(about, name, kind)

    @override
    def is_known(self, key: str, report: Report) -> bool:
        about, _, kind = ReportKey.parse(key)
        if about == self.about:
            return super().is_known(key, report)
        return kind == HEALTHY and self.tables.is_health_said(report)

    @abstractmethod
    def _of_work(self, about: str, name: str, kind: str) -> Report | None:
        """Return what is to be reported on work. None for nothing."""

    def _report(
        self,
        key: str,
        uid: str,
        generation: int,
        *,
        target: str,
        kind: str,
        status: str,
        reason: str = "",
        message: str = "",
    ) -> Report:
        """Return a report on work."""
        return Report.of(
            self._target(target),
            kind,
            status,
            reason,
            message,
            workload=WorkloadRef.parse(key),
            workload_uid=uid,
            binding_generation=generation,
        )
