"""What a bridge sends and writes by: the clients of both ends, and what stands between them and the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic

from moorage.bridges.engine.act_queue import ActQueue
from moorage.bridges.engine.cluster_events import EventSender, Regarding, contradicted
from moorage.bridges.engine.contention import Contention
from moorage.bridges.engine.gateway_client import GatewayClient
from moorage.bridges.engine.mirror import MirroredObjects
from moorage.bridges.engine.plan import Act, BridgePlan
from moorage.bridges.engine.seen_state import SeenState
from moorage.bridges.engine.silence import Leases
from moorage.bridges.engine.target_tables import TargetTables
from moorage.bridges.kube.client import KubeClient


class BridgeOutlets(Generic[Act]):
    """What a bridge sends and writes by.

    Args:
        plan: what the bridge does.
        state: the cluster as it was seen.
        tables: what the topics say.
        leases: which targets are silent.
        client: of the cluster.
        gateway: takes objects and reports.
    """

    def __init__(
        self,
        plan: BridgePlan[Act],
        state: SeenState[Any],
        tables: TargetTables,
        leases: Leases,
        *,
        client: KubeClient,
        gateway: GatewayClient,
    ) -> None:
        self.plan = plan
        self.leases = leases
        self.client = client
        self.gateway = gateway
        self.objects = MirroredObjects(plan.source, tables, state.object)
        self.events = EventSender(client.beside(plan.link.access))
        self.queues = {act: ActQueue(act) for act in plan.acts}
        """What waits to be written by each act that the bridge has."""

    def contention(self, act: Act, written: str, about: Callable[[str], Regarding | None]) -> Contention:
        """Return what notices that somebody else undoes what an act writes.

        Args:
            act: the act.
            written: what it writes, in words.
            about: returns the object to which it writes under a key. None if it is gone.
        """

        def later(key: str, seconds: float) -> None:
            self.queues[act].add_later(key, seconds)

        def noticed(key: str) -> None:
            if (found := about(key)) is not None:
                self.events.tell(contradicted(found, written))

        return Contention(act, later, noticed)
