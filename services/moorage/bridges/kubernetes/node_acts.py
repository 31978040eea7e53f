"""Writes to the nodes of a cluster: their taints and conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import structlog

from moorage.bridges.engine.acts import send, stored_time
from moorage.bridges.engine.seen_target import Identity
from moorage.bridges.engine.taint_lists import taints_patch, write_taints
from moorage.bridges.kube.client import APPLY_PATCH, FIELD_MANAGER, JsonObject, KubeClient
from moorage.bridges.kubernetes.cluster import SeenNode
from moorage.bridges.kubernetes.cluster_tables import DecidedTables
from moorage_schemas.condition import ConditionChanged
from moorage_schemas.taint import TaintRecord

_log = structlog.get_logger(__name__)

_LEFT_BEHIND: Final = 60.0
"""Seconds after which a taint that the state of a node does not demand counts as left behind.
Kubernetes' own controller, if it runs, removes such a taint within a few seconds."""

STOPPED: Final = "NodeStatusUnknown"
"""The reason of the conditions of a node that has fallen silent, as in Kubernetes."""


@dataclass(eq=False)
class NodeActs:
    """The writer of taints and conditions to the nodes of a cluster.

    Attributes:
        source: of the bridge, whose own reports are not written back.
        node: returns a node as it was last seen. None if it does not exist.
        is_silent: returns whether a node has fallen silent.
    """

    client: KubeClient
    tables: DecidedTables
    source: str
    node: Callable[[str], SeenNode | None]
    is_silent: Callable[[str], bool]
    _idle: dict[str, dict[tuple[str, Identity], float]] = field(default_factory=dict, init=False)
    """Since when taints of others are there that the state does not demand: by node, and by its uid and taint."""

    async def taint(self, name: str) -> None:
        """Give a node its taints, and the older names of its labels.

        Raises:
            ApiError: the cluster refuses.
            OSError: it cannot be reached.
        """
        node = self.node(name)
        if node is None:
            self._idle.pop(name, None)
            return
        await write_taints(
            self.client,
            node,
            path=node_path(name),
            patch=self._taints_patch,
            read=SeenNode.of,
            written=lambda _: None,
        )
        if node.labels_due:
            labels = {"metadata": {"uid": node.uid, "labels": dict(node.labels_due)}}
            await send(self.client, "label", node_path(name), labels)

    def _taints_patch(self, node: SeenNode) -> JsonObject | None:
        """Return the patch with which a node gets its taints. None if it has them, or nothing is known of it."""
        wanted = self.tables.own_taints(node.name, node.uid)
        if wanted is None:
            return None
        return taints_patch(node, wanted, managed=node.managed_taints | self._left_behind(node, wanted))

    def _left_behind(self, node: SeenNode, wanted: Iterable[TaintRecord]) -> frozenset[Identity]:
        """Return the taints that Kubernetes' own controller has left on a node when it was switched off.

        The state does not demand them, and has not for a while. No other controller would ever remove them.
        """
        demanded = {taint.key for taint in wanted}
        now, known = asyncio.get_running_loop().time(), self._idle.get(node.name, {})
        idle = {
            (node.uid, one): known.get((node.uid, one), now)
            for one in node.state_taints - node.managed_taints
            if one[0] not in demanded
        }
        if idle:
            self._idle[node.name] = idle
        else:
            self._idle.pop(node.name, None)
        return frozenset(one for (_, one), since in idle.items() if now - since >= _LEFT_BEHIND)

    async def condition(self, name: str) -> None:
        """Give a node the conditions that others than the cluster have reported.

        Raises:
            ApiError: the cluster refuses.
            OSError: it cannot be reached.
        """
        node = self.node(name)
        if node is None or (wanted := self.conditions(node)) is None:
            return
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "uid": node.uid},
            "status": {"conditions": wanted},
        }
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = f"{node_path(name)}/status"
        await send(self.client, "condition", path, body, params=params, content_type=APPLY_PATCH, lost="failed")

    def conditions(self, node: SeenNode) -> list[JsonObject] | None:
        """Return the conditions that a bridge has to set on a node. None if they exist.

        These are what others have reported to Moorage, of types that are not set in the cluster itself. For a node that
        has fallen silent they are `Unknown`, as by the node lifecycle controller, until the kubelet writes again.
        """
        wanted: dict[str, ConditionChanged] = {}
        for kind, record in self.tables.conditions.get(node.name, {}).items():
            if record.target_uid not in {"", node.uid}:
                continue
            if record.source == self.source:
                known = node.conditions.get(kind)
                is_new = self.is_silent(node.name) and (known is None or known.status != record.status.value)
                if record.reason == STOPPED and (is_new or kind in node.own_conditions):
                    wanted[kind] = record
            elif kind in node.own_conditions or kind not in node.conditions:
                wanted[kind] = record
        present = {kind: node.conditions[kind] for kind in node.own_conditions if kind in node.conditions}
        said = {kind: (record.status.value, record.reason, record.message) for kind, record in wanted.items()}
        if said == {kind: tuple(one) for kind, one in present.items()}:
            return None
        return [_condition(record) for _, record in sorted(wanted.items())]


def node_path(name: str) -> str:
    """Return the path of a node."""
    return f"/api/v1/nodes/{name}"


def _condition(record: ConditionChanged) -> JsonObject:
    return {
        "type": record.type,
        "status": record.status.value,
        "reason": record.reason,
        "message": record.message,
        "lastTransitionTime": stored_time(record.last_transition_time),
        "lastHeartbeatTime": stored_time(record.last_heartbeat_time),
    }
