"""What a bridge reports of its hub: the conditions of its clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from moorage.bridge.leases import Leases
from moorage.bridge.ocm.clusters import SeenCluster, SeenCondition
from moorage.bridge.ocm.hub import CLUSTER
from moorage.bridge.ocm.tables import HubTables
from moorage.bridge.reports import Report
from moorage.core.taints.desired.addons import LABEL_PREFIX
from moorage.core.taints.desired.ocm import BUILT_IN, built_in_taint
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.keys import ResourceKey
from moorage_schemas.refs import TargetKind, TargetRef
from moorage_schemas.resources.names import MANAGED_CLUSTER_AVAILABLE as AVAILABLE

STOPPED: Final = "ManagedClusterLeaseUpdateStopped"
"""The reason of the condition of a cluster that has fallen silent, as in OCM."""

_SILENT: Final = SeenCondition("Unknown", STOPPED, "Registration agent stopped updating its lease.")


class ClusterReportKey(NamedTuple):
    """What a report is about."""

    cluster: str
    type: str

    def __str__(self) -> str:
        return f"{self.cluster}|{self.type}"

    @classmethod
    def parse(cls, key: str) -> ClusterReportKey:
        """Parse a key."""
        cluster, _, kind = key.partition("|")
        return cls(cluster, kind)


class HubObservations:
    """Computes reports from what was seen.

    Args:
        source: of the bridge.
        cluster: returns a cluster as it was last seen. None if it is not there.
        tables: what the topics say.
        leases: which clusters are silent.
        is_mirrored: returns whether an object is in `resources` with a uid, so that it can be reported on.
    """

    def __init__(
        self,
        source: str,
        cluster: Callable[[str], SeenCluster | None],
        tables: HubTables,
        leases: Leases,
        is_mirrored: Callable[[str, str], bool],
    ) -> None:
        self._source = source
        self._cluster = cluster
        self._tables = tables
        self._leases = leases
        self._is_mirrored = is_mirrored

    def of_cluster(self, name: str) -> list[str]:
        """Return the keys of the reports about a cluster."""
        cluster = self._cluster(name)
        types = {*(cluster.conditions if cluster is not None else ()), AVAILABLE}
        return [str(ClusterReportKey(name, one)) for one in sorted(types)]

    def present(self, key: str) -> Report | None:
        """Return what is to be reported under a key. None for nothing."""
        name, kind = ClusterReportKey.parse(key)
        cluster = self._cluster(name)
        if cluster is None or not self._is_mirrored(str(ResourceKey(CLUSTER, "", name)), cluster.uid):
            return None
        silent = kind == AVAILABLE and self._leases.is_silent(name)
        found = _SILENT if silent else cluster.conditions.get(kind)
        if found is None or found.status not in {"True", "False", "Unknown"}:
            return None
        target = TargetRef(kind=TargetKind.MANAGED_CLUSTER, name=name)
        return Report(target, kind, found.status, found.reason, found.message)

    def is_known(self, key: str, report: Report) -> bool:
        """Return whether the topics say what a report says."""
        cluster = self._cluster(ClusterReportKey.parse(key).cluster)
        return cluster is not None and self._tables.is_said(report, cluster.uid, self._source)

    def is_taken_over(self, key: str) -> bool:
        """Return whether somebody else has reported a condition of a cluster last."""
        name, kind = ClusterReportKey.parse(key)
        return self._tables.is_taken_over(name, kind, self._source)

    def was_silent(self, cluster: SeenCluster) -> bool:
        """Return whether the topics say that a cluster has fallen silent, as a bridge saw it.

        It stays so for a bridge that starts, until its Lease is renewed.
        """
        return self._tables.was_said_last(cluster.name, cluster.uid, AVAILABLE, source=self._source, reason=STOPPED)

    def is_settled(self, cluster: SeenCluster) -> bool:
        """Return whether the topics say of a cluster what was seen of it, and what follows for its taints.

        Before that, a cluster that is just mirrored counts as one of which nothing is known.
        """
        if not self._is_mirrored(str(ResourceKey(CLUSTER, "", cluster.name)), cluster.uid):
            return True  # it was refused, so nothing is decided on it
        tainted = self._tables.taints.get(cluster.name)
        if tainted is None or tainted.target_uid not in {"", cluster.uid}:
            return False
        report = self.present(str(ClusterReportKey(cluster.name, AVAILABLE)))
        record = self._tables.condition_of(cluster.name, cluster.uid, AVAILABLE)
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
