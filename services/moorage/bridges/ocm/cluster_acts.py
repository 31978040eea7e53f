"""Writes to the managed clusters of a hub: their taints, and the labels of add-ons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from moorage.bridges.engine.acts import Contention, send, stored_time
from moorage.bridges.engine.taint_lists import TaintActs, with_its_time
from moorage.bridges.kube.client import FIELD_MANAGER, JsonObject
from moorage.bridges.ocm.hub import CLUSTERS, SeenCluster
from moorage.decide.taints.desired.addons import LABEL_PREFIX
from moorage_schemas.taint import TaintRecord

AS_BRIDGE: Final = {"fieldManager": FIELD_MANAGER}
"""The name under which the hub records the owner of the labels."""


@dataclass(eq=False)
class ClusterActs(TaintActs[SeenCluster]):
    """The writer of taints and labels to the managed clusters of a hub.

    Attributes:
        add_ons: returns the names of the add-ons of a cluster.
        labels: decides when to write labels again that another controller has reverted.
    """

    add_ons: Callable[[str], Iterable[str]]
    labels: Contention

    @staticmethod
    @override
    def path(name: str) -> str:
        return f"{CLUSTERS}/{name}"

    @staticmethod
    @override
    def _read(found: JsonObject) -> SeenCluster:
        return SeenCluster.of(found)

    @override
    def _written(self, before: SeenCluster, found: JsonObject) -> SeenCluster:
        super()._written(before, found)
        return SeenCluster.of(found)  # without OCM's webhook, what was written has no time yet

    @staticmethod
    @override
    def as_written(taint: TaintRecord, present: Mapping[str, Any] | None) -> JsonObject:
        # OCM's webhook gives new taints their time, and refuses those that come with one. So a taint is first written
        # without, as OCM's own controllers do it, and gets its time afterwards if it has none then.
        found = {**with_its_time(taint, present), "timeAdded": None}
        if present is not None and str(present.get("value") or "") == taint.value:
            found["timeAdded"] = present.get("timeAdded") or stored_time(taint.time_added)
        return found

    async def label(self, name: str) -> None:
        """Give a cluster the labels that show the state of its add-ons.

        Raises:
            ApiError: the hub refuses.
            OSError: it cannot be reached.
        """
        cluster = self.target(name)
        if cluster is None:
            self.labels.gone(name)
        if cluster is None or cluster.leaving or not self.is_settled(cluster):
            return
        if not (labels := self._labels(cluster)):
            return
        content = frozenset(labels.items())
        if self.labels.holds(name, content):
            return
        body = {"metadata": {"uid": cluster.uid, "labels": labels}}
        found = await send(self.client, "label", self.path(name), body, params=AS_BRIDGE, lost="failed")
        if found is not None:
            self.labels.written(name, content)
            self.seen(found)

    def _labels(self, cluster: SeenCluster) -> Mapping[str, str | None]:
        """Return the labels that change. None do before the availability of the cluster is known, as with OCM."""
        tainted = self.tables.taints.get(cluster.name)
        if tainted is None or tainted.target_uid not in {"", cluster.uid} or not cluster.is_judged:
            return {}
        return changed_labels(cluster, tainted.labels, self.add_ons(cluster.name))


def changed_labels(cluster: SeenCluster, wanted: Mapping[str, str], add_ons: Iterable[str]) -> Mapping[str, str | None]:
    """Return the labels that have to be set, and those to remove (None), for a merge patch.

    All labels with the prefix of add-ons are the system's, as with OCM's own controller.

    Args:
        cluster: as it was seen.
        wanted: the labels of its add-ons.
        add_ons: the names of its add-ons on the hub. The topics may not contain the newest yet.
    """
    present = cluster.add_on_labels
    changed: dict[str, str | None] = {key: value for key, value in wanted.items() if present.get(key) != value}
    known = {f"{LABEL_PREFIX}{one}" for one in add_ons}
    return changed | dict.fromkeys(present.keys() - wanted.keys() - known)
