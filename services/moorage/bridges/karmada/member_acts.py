"""Writes to the Clusters of a control plane: the taints that the topics say.

The reasons of events are those of Karmada's own controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moorage.apiserver.kinds.printing.columns import taint_text
from moorage.bridges.engine.cluster_events import NORMAL, WARNING, event
from moorage.bridges.engine.contention import Contention
from moorage.bridges.engine.seen_target import identity_of, taints_of
from moorage.bridges.engine.taint_lists import taints_patch, write_taints
from moorage.bridges.karmada.plane import CLUSTER, CLUSTERS, SeenMember
from moorage.bridges.karmada.plane_tables import PlaneTables
from moorage.bridges.kube.api_error import ApiError
from moorage.bridges.kube.client import KubeClient

_TAINTED: Final = "TaintClusterSucceed"
_NOT_TAINTED: Final = "TaintClusterFailed"

JsonObject = dict[str, Any]


class MemberActs:
    """Makes Clusters of the control plane what the topics say.

    Args:
        client: of the control plane.
        tables: what the topics say.
        cluster: returns a cluster as it was last seen. None if it is not there.
        seen: takes a cluster as the control plane has answered, which is faster than the watch.
        is_settled: returns whether the topics know of a cluster what was seen of it.
        undone: says when to write taints again that somebody else has undone.
        tell: sends an event to the control plane.
    """

    def __init__(
        self,
        client: KubeClient,
        tables: PlaneTables,
        cluster: Callable[[str], SeenMember | None],
        *,
        seen: Callable[[JsonObject], None],
        is_settled: Callable[[SeenMember], bool],
        undone: Contention,
        tell: Callable[[JsonObject], None],
    ) -> None:
        self._client = client
        self._tables = tables
        self._cluster = cluster
        self._seen = seen
        self._is_settled = is_settled
        self._undone = undone
        self._tell = tell

    async def taint(self, name: str) -> None:
        """Give a cluster its taints.

        Raises:
            ApiError: the control plane refuses.
            OSError: it cannot be reached.
        """
        cluster = self._cluster(name)
        if cluster is None:
            self._undone.gone(name)
        if cluster is None or not self._is_settled(cluster):
            return
        before = set(map(identity_of, cluster.taints))

        def written(found: JsonObject) -> None:
            self._seen(found)
            taints = taints_of(found)
            if set(map(identity_of, taints)) != before:
                self._tell(event(cluster.about, NORMAL, _TAINTED, f"Its taints are {_text(taints)} now"))

        try:
            await write_taints(
                self._client,
                cluster,
                path=f"{CLUSTERS}/{name}",
                patch=self._patch,
                read=lambda found: SeenMember.of({**found, "kind": CLUSTER}),
                written=written,
                undone=self._undone,
            )
        except ApiError as error:
            self._tell(event(cluster.about, WARNING, _NOT_TAINTED, str(error)))
            raise

    def _patch(self, cluster: SeenMember) -> JsonObject | None:
        """The patch that a cluster needs. Taints of Karmada's cluster controller are among those of others."""
        wanted = self._tables.own_taints(cluster.name, cluster.uid) if not cluster.leaving else None
        return taints_patch(cluster, wanted, managed=cluster.managed_taints) if wanted is not None else None


def _text(taints: Iterable[Mapping[str, Any]]) -> str:
    return ", ".join(sorted(map(taint_text, taints))) or "none"
