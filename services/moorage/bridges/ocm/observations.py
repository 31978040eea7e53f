"""What a bridge reports of its hub: the conditions of its clusters."""

from __future__ import annotations

from collections.abc import Iterable

from typing_extensions import override

from moorage.bridges.engine.observations import ReportKey, TargetObservations
from moorage.bridges.engine.reports import Report
from moorage.bridges.engine.targets import SeenCondition
from moorage.bridges.ocm.hub import HubState, SeenCluster
from moorage.bridges.ocm.tables import HubTables
from moorage.decide.taints.desired.addons import LABEL_PREFIX
from moorage.decide.taints.desired.ocm import BUILT_IN, built_in_taint
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.refs import TargetKind
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE as AVAILABLE


class HubObservations(TargetObservations[HubState, HubTables]):
    """Computes reports from what was seen. See `TargetObservations`."""

    kind = TargetKind.MANAGED_CLUSTER
    ready = AVAILABLE
    judged = (AVAILABLE,)
    silent = SeenCondition(
        "Unknown", "ManagedClusterLeaseUpdateStopped", "Registration agent stopped updating its lease."
    )  # as in OCM

    @override
    def is_urgent(self, key: str) -> bool:
        return False  # there are no others

    @override
    def is_settled(self, target: SeenCluster) -> bool:
        # Before that, a cluster that was just mirrored counts as one of which nothing is known.
        if not self._has(target):
            return True  # it was refused, so nothing is decided on it
        tainted = self._tables.taints.get(target.name)
        if tainted is None or tainted.target_uid not in {"", target.uid}:
            return False
        report = self.present(str(ReportKey(self.about, target.name, AVAILABLE)))
        record = self._tables.condition_of(target.name, target.uid, AVAILABLE)
        if report is not None and not _says(record, report, self._source):
            return False
        if tainted.settles_at is not None or tainted.held:
            return True
        # The record of the taints may be older than that of the condition.
        wanted = built_in_taint(record.status.value if record is not None else None)
        present = {one.identity for one in tainted.taints if not one.value} & {one.identity for one in BUILT_IN}
        return not present if wanted is None else wanted.identity in present

    def has_labels(self, cluster: SeenCluster, add_ons: Iterable[str]) -> bool:
        """Return whether the topics have a label for each of a cluster's add-ons."""
        tainted = self._tables.taints.get(cluster.name)
        labels = tainted.labels if tainted is not None else {}
        return all(f"{LABEL_PREFIX}{name}" in labels for name in add_ons)


def _says(record: ConditionChanged | None, report: Report, source: str) -> bool:
    """Whether a condition has the status that a bridge reports, or somebody else has reported another one since."""
    return record is not None and (record.source != source or record.status.value == report.status)
