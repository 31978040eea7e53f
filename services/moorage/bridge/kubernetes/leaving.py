"""Takes back what a bridge has written: to the nodes of its cluster, and to the gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import structlog

from moorage.bridge.gateway_client import GatewayClient
from moorage.bridge.kube.client import APPLY_PATCH, FIELD_MANAGER, MERGE_PATCH, KubeClient
from moorage.bridge.kube.errors import CONFLICT, NOT_FOUND, ApiError
from moorage.bridge.kubernetes.node_acts import node_path
from moorage.bridge.kubernetes.nodes import SeenNode
from moorage.bridge.tables import DecidedTables
from moorage.bridge.taint_lists import taints_patch
from moorage.runtime.errors import RuntimeFailure
from moorage_schemas.keys import ResourceKey

_log = structlog.get_logger(__name__)

_TRIES: Final = 5
_AT_ONCE: Final = 500
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces"


@dataclass(frozen=True, slots=True)
class Left:
    """What was taken back: the number of nodes, and of objects that are not mirrored any more."""

    nodes: int
    objects: int


async def check_nobody_acts(client: KubeClient, namespace: str, lease: str) -> None:
    """Check that no bridge is acting, which would write again what is taken back.

    Raises:
        RuntimeFailure: one is.
    """
    path = f"{_LEASES}/{namespace}/leases/{lease}"
    try:
        holder = ((await client.get(path)).get("spec") or {}).get("holderIdentity")
    except ApiError as error:
        if error.status == NOT_FOUND:
            return
        raise
    if holder:
        raise RuntimeFailure(
            f"the bridge {holder} acts on this cluster: stop it first. If it was killed, delete the Lease {lease} in "
            f"{namespace}"
        )


async def clean_nodes(client: KubeClient) -> int:
    """Remove the taints and conditions from all nodes that a bridge has set. Return how many nodes had any."""
    changed = 0
    for found in (await client.get("/api/v1/nodes")).get("items") or ():
        changed += await _clean(client, {**found, "kind": "Node"})
    return changed


async def _clean(client: KubeClient, found: dict[str, Any]) -> int:
    """Clean one node. Return 1 if it had something of a bridge."""
    name = str(found["metadata"]["name"])
    node = SeenNode.of(found)
    changed = 0
    for _ in range(_TRIES):
        patch = taints_patch(node, (), managed=node.own_taints)
        if patch is None:
            break
        try:
            await client.request("PATCH", node_path(name), body=patch, content_type=MERGE_PATCH)
        except ApiError as error:
            if error.status == NOT_FOUND:
                return 1
            if error.status != CONFLICT:
                raise
        changed = 1
        node = SeenNode.of({**await client.get(node_path(name)), "kind": "Node"})
    else:
        raise RuntimeFailure(f"node {name}: its taints were changed by others {_TRIES} times meanwhile")
    if node.own_conditions:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {}}
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        await client.request("PATCH", f"{node_path(name)}/status", params=params, body=body, content_type=APPLY_PATCH)
        changed = 1
    return changed


async def forget_objects(gateway: GatewayClient, tables: DecidedTables, source: str, cluster: str) -> int:
    """Remove what a bridge has mirrored. Return how many objects there were."""
    mine = [(key, one.uid) for key, one in tables.resources.items() if one.source == source]
    # Pods go before their nodes, so that nobody decides on pods without one.
    mine.sort(key=lambda one: ResourceKey.parse(one[0]).kind == "Node")
    for start in range(0, len(mine), _AT_ONCE):
        part = mine[start : start + _AT_ONCE]
        parsed = [(ResourceKey.parse(key), uid) for key, uid in part]
        deleted = [{"kind": key.kind, "namespace": key.namespace, "name": key.name, "uid": uid} for key, uid in parsed]
        await gateway.mirror(source, cluster, (), deleted)
    return len(mine)
