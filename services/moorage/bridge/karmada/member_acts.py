"""Writes to the Clusters of a control plane: the taints that the topics say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.bridge.karmada.members import SeenMember
from moorage.bridge.karmada.plane import CLUSTER, CLUSTERS
from moorage.bridge.karmada.tables import PlaneTables
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.taint_lists import taints_patch, write_taints

JsonObject = dict[str, Any]


class MemberActs:
    """Makes Clusters of the control plane what the topics say.

    Args:
        client: of the control plane.
        tables: what the topics say.
        cluster: returns a cluster as it was last seen. None if it is not there.
        seen: takes a cluster as the control plane has answered, which is faster than the watch.
        is_settled: returns whether the topics know of a cluster what was seen of it.
    """

    def __init__(
        self,
        client: KubeClient,
        tables: PlaneTables,
        cluster: Callable[[str], SeenMember | None],
        *,
        seen: Callable[[JsonObject], None],
        is_settled: Callable[[SeenMember], bool],
    ) -> None:
        self._client = client
        self._tables = tables
        self._cluster = cluster
        self._seen = seen
        self._is_settled = is_settled

    async def taint(self, name: str) -> None:
        """Give a cluster its taints.

        Raises:
            ApiError: the control plane refuses.
            OSError: it cannot be reached.
        """
        cluster = self._cluster(name)
        if cluster is None or not self._is_settled(cluster):
            return
        await write_taints(
            self._client,
            cluster,
            path=f"{CLUSTERS}/{name}",
            patch=self._patch,
            read=lambda found: SeenMember.of({**found, "kind": CLUSTER}),
            written=self._seen,
        )

    def _patch(self, cluster: SeenMember) -> JsonObject | None:
        """The patch that a cluster needs. Taints of Karmada's cluster controller are among those of others."""
        wanted = self._tables.own_taints(cluster.name, cluster.uid) if not cluster.leaving else None
        return taints_patch(cluster, wanted, managed=cluster.managed_taints) if wanted is not None else None
