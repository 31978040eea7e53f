"""Writes to the managed clusters of a hub: the taints and the labels of add-ons that the topics say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from moorage.bridges.engine.contention import Contention
from moorage.bridges.engine.metrics import ACTS
from moorage.bridges.engine.taint_lists import stored_time, taints_patch, with_its_time, write_taints
from moorage.bridges.kube.api_error import CONFLICT, NOT_FOUND, ApiError
from moorage.bridges.kube.client import FIELD_MANAGER, MERGE_PATCH, KubeClient
from moorage.bridges.ocm.hub import CLUSTERS, SeenCluster
from moorage.bridges.ocm.hub_tables import HubTables
from moorage.decide.taints.desired.addons import LABEL_PREFIX
from moorage_schemas.taint import TaintRecord

JsonObject = dict[str, Any]

AS_BRIDGE: Final = {"fieldManager": FIELD_MANAGER}
"""With this name the hub notes whose labels they are."""


class ClusterActs:
    """Makes managed clusters of the hub what the topics say.

    Args:
        client: of the hub.
        tables: what the topics say.
        cluster: returns a cluster as it was last seen. None if it is not there.
        seen: takes a cluster as the hub has answered, which is faster than the watch.
        is_settled: returns whether the topics know of a cluster what was seen of it.
        add_ons: returns the names of the add-ons of a cluster.
        taints: says when to write taints again that somebody else has undone.
        labels: the same of labels.
    """

    def __init__(
        self,
        client: KubeClient,
        tables: HubTables,
        cluster: Callable[[str], SeenCluster | None],
        *,
        seen: Callable[[JsonObject], None],
        is_settled: Callable[[SeenCluster], bool],
        add_ons: Callable[[str], Iterable[str]],
        taints: Contention,
        labels: Contention,
    ) -> None:
        self._client = client
        self._tables = tables
        self._cluster = cluster
        self._seen = seen
        self._is_settled = is_settled
        self._add_ons = add_ons
        self._undone_taints = taints
        self._undone_labels = labels

    async def taint(self, name: str) -> None:
        """Give a cluster its taints.

        Raises:
            ApiError: the hub refuses.
            OSError: it cannot be reached.
        """
        cluster = self._cluster(name)
        if cluster is None:
            self._undone_taints.gone(name)
        if cluster is None or not self._is_settled(cluster):
            return

        def written(found: JsonObject) -> SeenCluster:
            """Compare a cluster once more: without OCM's webhook, what was written has no time yet."""
            self._seen(found)
            return SeenCluster.of(found)

        await write_taints(
            self._client,
            cluster,
            path=cluster_path(name),
            patch=self._taints_patch,
            read=SeenCluster.of,
            written=written,
            undone=self._undone_taints,
        )

    def _taints_patch(self, cluster: SeenCluster) -> JsonObject | None:
        """Return the patch with which a cluster gets its taints. None if it has them, or nothing is known of it."""
        wanted = self._tables.own_taints(cluster.name, cluster.uid) if not cluster.leaving else None
        if wanted is None:
            return None
        return taints_patch(cluster, wanted, managed=cluster.managed_taints, written=with_time_if_there)

    async def label(self, name: str) -> None:
        """Give a cluster the labels that say how its add-ons are.

        Raises:
            ApiError: the hub refuses.
            OSError: it cannot be reached.
        """
        cluster = self._cluster(name)
        if cluster is None:
            self._undone_labels.gone(name)
        if cluster is None or cluster.leaving or not self._is_settled(cluster):
            return
        if not (labels := self._labels(cluster)):
            return
        content = frozenset(labels.items())
        if self._undone_labels.holds(name, content):
            return
        body = {"metadata": {"uid": cluster.uid, "labels": labels}}
        try:
            found = await self._client.request(
                "PATCH", cluster_path(name), params=AS_BRIDGE, body=body, content_type=MERGE_PATCH
            )
        except ApiError as error:
            ACTS.labels("label", "failed").inc()
            if error.status not in {NOT_FOUND, CONFLICT}:  # it is gone, or another one
                raise
        else:
            ACTS.labels("label", "done").inc()
            self._undone_labels.written(name, content)
            self._seen(found)

    def _labels(self, cluster: SeenCluster) -> Mapping[str, str | None]:
        """Return the labels that change. None do before it is known whether the cluster is available, as with OCM."""
        tainted = self._tables.taints.get(cluster.name)
        if tainted is None or tainted.target_uid not in {"", cluster.uid} or not cluster.is_judged:
            return {}
        return changed_labels(cluster, tainted.labels, self._add_ons(cluster.name))


def changed_labels(cluster: SeenCluster, wanted: Mapping[str, str], add_ons: Iterable[str]) -> Mapping[str, str | None]:
    """Return the labels that have to be set, and those that have to go (None), for a merge patch.

    All labels with the prefix of add-ons are the system's, as with OCM's own controller.

    Args:
        cluster: as it was seen.
        wanted: the labels of its add-ons.
        add_ons: the names of its add-ons on the hub. The topics may not know the newest yet.
    """
    present = cluster.add_on_labels
    changed: dict[str, str | None] = {key: value for key, value in wanted.items() if present.get(key) != value}
    known = {f"{LABEL_PREFIX}{one}" for one in add_ons}
    return changed | dict.fromkeys(present.keys() - wanted.keys() - known)


def cluster_path(name: str) -> str:
    """Return the path of a cluster."""
    return f"{CLUSTERS}/{name}"


def with_time_if_there(taint: TaintRecord, present: Mapping[str, Any] | None) -> JsonObject:
    """Return a taint with its time if it is there already, and without if it is new.

    OCM's webhook gives new taints their time, and refuses those that come with one. So a taint is first written
    without, as OCM's own controllers do it, and gets its time afterwards if nobody has given it one.
    """
    found = {**with_its_time(taint, present), "timeAdded": None}
    if present is not None and str(present.get("value") or "") == taint.value:
        found["timeAdded"] = present.get("timeAdded") or stored_time(taint)
    return found
