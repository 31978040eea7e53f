"""Writes to the managed clusters of a hub: the taints and the labels of add-ons that the topics say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import structlog

from moorage.bridge.kube.client import MERGE_PATCH, KubeClient
from moorage.bridge.kube.errors import CONFLICT, NOT_FOUND, ApiError
from moorage.bridge.metrics import ACTS
from moorage.bridge.ocm.clusters import SeenCluster
from moorage.bridge.ocm.hub import CLUSTERS
from moorage.bridge.ocm.tables import HubTables
from moorage.bridge.ownership import TAINTS_ANNOTATION, Identity, identity_of, noted
from moorage.core.taints.desired.addons import LABEL_PREFIX
from moorage_schemas.taint import TaintRecord

_log = structlog.get_logger(__name__)

_TRIES: Final = 4  # times that a list of taints is read and written anew when somebody else was faster

JsonObject = dict[str, Any]


class ClusterActs:
    """Makes managed clusters of the hub what the topics say.

    Args:
        client: of the hub.
        tables: what the topics say.
        cluster: returns a cluster as it was last seen. None if it is not there.
        seen: takes a cluster as the hub has answered, which is faster than the watch.
        is_settled: returns whether the topics know of a cluster what was seen of it.
        add_ons: returns the names of the add-ons of a cluster.
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
    ) -> None:
        self._client = client
        self._tables = tables
        self._cluster = cluster
        self._seen = seen
        self._is_settled = is_settled
        self._add_ons = add_ons

    async def taint(self, name: str) -> None:
        """Give a cluster its taints.

        Raises:
            ApiError: the hub refuses.
            OSError: it cannot be reached.
        """
        cluster = self._cluster(name)
        if cluster is None or not self._is_settled(cluster):
            return
        for _ in range(_TRIES):
            if cluster is None or cluster.leaving or (patch := self._taints_patch(cluster)) is None:
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
                taints = [identity_of(one) for one in patch["spec"]["taints"]]
                _log.info("bridge.tainted", cluster=name, taints=taints)
                # It is compared once more: without OCM's webhook, what was written has no time yet.
                cluster = SeenCluster.of(found)
                self._seen(found)
        raise OSError(f"managed cluster {name}: its taints were changed by others {_TRIES} times meanwhile")

    def _taints_patch(self, cluster: SeenCluster) -> JsonObject | None:
        """Return the patch with which a cluster gets its taints. None if it has them, or nothing is known of it."""
        wanted = self._tables.own_taints(cluster.name, cluster.uid)
        return taints_patch(cluster, wanted, managed=cluster.managed_taints) if wanted is not None else None

    async def label(self, name: str) -> None:
        """Give a cluster the labels that say how its add-ons are.

        Raises:
            ApiError: the hub refuses.
            OSError: it cannot be reached.
        """
        cluster = self._cluster(name)
        if cluster is None or cluster.leaving or not self._is_settled(cluster):
            return
        if not (labels := self._labels(cluster)):
            return
        body = {"metadata": {"uid": cluster.uid, "labels": labels}}
        try:
            found = await self._client.request("PATCH", _path(name), body=body, content_type=MERGE_PATCH)
        except ApiError as error:
            ACTS.labels("label", "failed").inc()
            if error.status not in {NOT_FOUND, CONFLICT}:  # it is gone, or another one
                raise
        else:
            ACTS.labels("label", "done").inc()
            self._seen(found)

    def _labels(self, cluster: SeenCluster) -> Mapping[str, str | None]:
        """Return the labels that change. None do before it is known whether the cluster is available, as with OCM."""
        tainted = self._tables.taints.get(cluster.name)
        if tainted is None or tainted.target_uid not in {"", cluster.uid} or not cluster.is_judged:
            return {}
        return changed_labels(cluster, tainted.labels, self._add_ons(cluster.name))

    async def _read(self, name: str) -> SeenCluster | None:
        try:
            return SeenCluster.of(await self._client.get(_path(name)))
        except ApiError as error:
            if error.status == NOT_FOUND:
                return None
            raise


def taints_patch(
    cluster: SeenCluster, wanted: Iterable[TaintRecord], *, managed: frozenset[Identity]
) -> JsonObject | None:
    """Return the merge patch with which a cluster gets the taints of Moorage. None if it has them.

    The list is written whole and with the version that it was read at. The taints of others stay as they are and where
    they are. OCM's webhook gives new taints their time, and refuses those that come with one. So a taint is first
    written without, as OCM's own controllers do it, and gets its time afterwards if nobody has given it one.

    Args:
        cluster: as it was read.
        wanted: the taints that Moorage gives it.
        managed: the taints on it that may be removed.
    """
    others = [one for one in cluster.taints if identity_of(one) not in managed]
    present = {identity_of(one): one for one in cluster.taints if identity_of(one) in managed}
    theirs = {identity_of(one) for one in others}
    mine = [_written(taint, present.get(taint.identity)) for taint in wanted if taint.identity not in theirs]
    if _compared(mine) == _compared(present.values()) and cluster.own_taints == {identity_of(one) for one in mine}:
        return None
    return {
        "metadata": {
            "uid": cluster.uid,
            "resourceVersion": cluster.version,
            "annotations": {TAINTS_ANNOTATION: noted(mine)},
        },
        "spec": {"taints": [*others, *mine]},
    }


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


def _path(name: str) -> str:
    return f"{CLUSTERS}/{name}"


def _written(taint: TaintRecord, present: Mapping[str, Any] | None) -> JsonObject:
    """A taint as it is to be written, if it is there or if it is new."""
    value = {"value": taint.value} if taint.value else {}
    found: JsonObject = {"key": taint.key, **value, "effect": taint.effect, "timeAdded": None}
    if present is not None and str(present.get("value") or "") == taint.value:
        found["timeAdded"] = present.get("timeAdded") or taint.time_added.strftime("%Y-%m-%dT%H:%M:%SZ")
    return found


def _compared(taints: Any) -> dict[tuple[str, str], tuple[str, str]]:
    """What has to be equal of taints: their values and times, in any order."""
    return {identity_of(one): (str(one.get("value") or ""), str(one.get("timeAdded") or "")) for one in taints}
