"""Takes back what a bridge has written to the nodes of its cluster."""

from __future__ import annotations

from moorage.bridge.fleet_names import lease_of, source_of
from moorage.bridge.kube.client import APPLY_PATCH, FIELD_MANAGER, KubeClient
from moorage.bridge.kube.errors import NOT_FOUND, ApiError
from moorage.bridge.kubernetes.cluster import NODE, POD
from moorage.bridge.kubernetes.node_acts import node_path
from moorage.bridge.kubernetes.nodes import SeenNode
from moorage.bridge.leaving import Bridged, remove_taints
from moorage.bridge.member import Link


def bridged_cluster(link: Link, cluster: str = "") -> Bridged:
    """Return what there is to take back when a cluster is left. `cluster` is its name in Moorage."""
    return Bridged(
        link,
        lease_of(cluster),
        source_of(cluster),
        target=NODE,
        work=frozenset({POD}),
        clean=clean_nodes,
        cluster=cluster,
    )


async def clean_nodes(client: KubeClient) -> int:
    """Remove the taints and conditions from all nodes that a bridge has set. Return how many nodes had any."""
    return sum([await _clean(client, SeenNode.of(found)) async for found in client.objects("/api/v1/nodes")])


async def _clean(client: KubeClient, node: SeenNode) -> bool:
    """Clean one node. Return whether it had something of a bridge."""
    path = node_path(node.name)
    had = await remove_taints(client, node, path=path, read=lambda found: SeenNode.of({**found, "kind": NODE}))
    if not node.own_conditions:
        return had
    body = {"apiVersion": "v1", "kind": NODE, "metadata": {"name": node.name}, "status": {}}
    params = {"fieldManager": FIELD_MANAGER, "force": "true"}
    try:
        await client.request("PATCH", f"{path}/status", params=params, body=body, content_type=APPLY_PATCH)
    except ApiError as error:
        if error.status != NOT_FOUND:  # the node is gone
            raise
    return True
