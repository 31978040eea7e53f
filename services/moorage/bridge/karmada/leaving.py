"""Takes back what a bridge has written to the Clusters of its control plane.

What it has written to bindings stays: their clusters, their eviction tasks, which Karmada's graceful eviction
controller ends, and the note of the placement that was applied, without which Karmada's scheduler would decide anew.
"""

from __future__ import annotations

from moorage.bridge.karmada.bridge import LEASE_NAME, SOURCE
from moorage.bridge.karmada.members import SeenMember
from moorage.bridge.karmada.plane import CLUSTER, CLUSTERS
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.leaving import Bridged, remove_taints
from moorage.bridge.member import Link
from moorage_schemas.resources.workload_kinds import BINDING_KINDS


def bridged_plane(link: Link) -> Bridged:
    """Return what there is to take back when a control plane is left."""
    return Bridged(link, LEASE_NAME, SOURCE, target=CLUSTER, work=frozenset(BINDING_KINDS), clean=clean_clusters)


async def clean_clusters(client: KubeClient) -> int:
    """Remove the taints from all clusters that a bridge has set. Return how many had any.

    Raises:
        ApiError: the control plane refuses.
        OSError: it cannot be reached.
    """
    return sum([await _clean(client, SeenMember.of(found)) async for found in client.objects(CLUSTERS)])


async def _clean(client: KubeClient, cluster: SeenMember) -> bool:
    return await remove_taints(
        client,
        cluster,
        path=f"{CLUSTERS}/{cluster.name}",
        read=lambda found: SeenMember.of({**found, "kind": CLUSTER}),
    )
