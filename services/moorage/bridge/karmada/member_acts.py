"""Writes to the Clusters of a control plane: the taints that the topics say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import structlog

from moorage.bridge.karmada.members import SeenMember
from moorage.bridge.karmada.plane import CLUSTERS
from moorage.bridge.karmada.tables import PlaneTables
from moorage.bridge.kube.client import MERGE_PATCH, KubeClient
from moorage.bridge.kube.errors import CONFLICT, NOT_FOUND, ApiError
from moorage.bridge.metrics import ACTS
from moorage.bridge.ownership import identity_of
from moorage.bridge.taint_lists import taints_patch

_log = structlog.get_logger(__name__)

_TRIES: Final = 4  # times that a list of taints is read and written anew when somebody else was faster

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
        for _ in range(_TRIES):
            if cluster is None or cluster.leaving or (patch := self._patch(cluster)) is None:
                return
            try:
                found = await self._client.request("PATCH", _path(name), body=patch, content_type=MERGE_PATCH)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    return
                if error.status != CONFLICT:
                    ACTS.labels("taint", "failed").inc()
                    raise
                ACTS.labels("taint", "conflict").inc()
                cluster = await self._read(name)
            else:
                ACTS.labels("taint", "done").inc()
                _log.info("bridge.tainted", cluster=name, taints=[identity_of(one) for one in patch["spec"]["taints"]])
                self._seen(found)
                return
        raise OSError(f"cluster {name}: its taints were changed by others {_TRIES} times meanwhile")

    def _patch(self, cluster: SeenMember) -> JsonObject | None:
        """The patch that a cluster needs. Taints of Karmada's cluster controller are among those of others."""
        wanted = self._tables.own_taints(cluster.name, cluster.uid)
        return taints_patch(cluster, wanted, managed=cluster.managed_taints) if wanted is not None else None

    async def _read(self, name: str) -> SeenMember | None:
        try:
            return SeenMember.of({**await self._client.get(_path(name)), "kind": "Cluster"})
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise


def _path(name: str) -> str:
    return f"{CLUSTERS}/{name}"
