"""Takes back what a bridge has written to the managed clusters of its hub.

PlacementDecisions and the status of Placements stay: OCM's own placement controller goes on from them.
"""

from __future__ import annotations

from typing import Any

from moorage.bridge.kube.client import MERGE_PATCH, KubeClient
from moorage.bridge.kube.errors import NOT_FOUND, ApiError
from moorage.bridge.leaving import Bridged, remove_taints
from moorage.bridge.member import Link
from moorage.bridge.ocm.bridge import LEASE_NAME, SOURCE
from moorage.bridge.ocm.cluster_acts import AS_BRIDGE, cluster_path
from moorage.bridge.ocm.clusters import SeenCluster
from moorage.bridge.ocm.hub import CLUSTER, CLUSTERS, PLACEMENT
from moorage.bridge.ownership import own_labels
from moorage.core.taints.desired.addons import LABEL_PREFIX

JsonObject = dict[str, Any]


def bridged_hub(link: Link) -> Bridged:
    """Return what there is to take back when a hub is left."""
    return Bridged(link, LEASE_NAME, SOURCE, target=CLUSTER, work=frozenset({PLACEMENT}), clean=clean_clusters)


async def clean_clusters(client: KubeClient) -> int:
    """Remove the taints and labels from all clusters that a bridge has set. Return how many had any.

    Raises:
        ApiError: the hub refuses.
        OSError: it cannot be reached.
    """
    return sum([await _clean(client, found) async for found in client.objects(CLUSTERS)])


async def _clean(client: KubeClient, found: JsonObject) -> bool:
    """Clean one cluster. Return whether it had something of a bridge."""
    cluster = SeenCluster.of(found)
    path = cluster_path(cluster.name)
    had = await remove_taints(client, cluster, path=path, read=SeenCluster.of)
    labels = [name for name in sorted(own_labels(found)) if name.startswith(LABEL_PREFIX)]
    if not labels:
        return had
    body = {"metadata": {"uid": cluster.uid, "labels": dict.fromkeys(labels)}}
    try:
        await client.request("PATCH", path, params=AS_BRIDGE, body=body, content_type=MERGE_PATCH)
    except ApiError as error:
        if error.status != NOT_FOUND:  # the cluster is gone
            raise
    return True
