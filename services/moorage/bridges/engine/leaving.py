"""Ends a bridge for good: what it has written to its cluster, and to the gateway, is taken back.

What has been decided stays where it is: pods on their nodes, PlacementDecisions, the clusters of ResourceBindings. So
the next scheduler continues from there.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aiokafka.errors import KafkaError

from moorage.bridges.engine.gateway_client import GatewayClient, GatewayError
from moorage.bridges.engine.identity import check_uid, read_uid
from moorage.bridges.engine.member import NAME
from moorage.bridges.engine.plan import BridgePlan
from moorage.bridges.engine.taint_lists import Target, taints_patch, write_taints
from moorage.bridges.engine.target_tables import TargetTables
from moorage.bridges.kube.api_error import ApiError
from moorage.bridges.kube.client import JsonObject, KubeClient
from moorage.bridges.kube.election import renewing_holder
from moorage.runtime.kafka.admin.topics_admin import ensure_topics
from moorage.runtime.kafka.tables.global_tables import GlobalReader
from moorage.runtime.process.failures import RuntimeFailure
from moorage.runtime.settings.process_settings import Settings
from moorage_schemas.keys import ResourceKey
from moorage_schemas.topics import RESOURCES

_AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Left:
    """The outcome of leaving: the number of targets, and of objects that are no longer mirrored."""

    targets: int
    objects: int


class Bridged(NamedTuple):
    """Everything to take back of bridges."""

    plan: BridgePlan[Any]
    """Their effects."""

    clean: Callable[[KubeClient, JsonObject], Awaitable[bool]]
    """Takes back what was written to a target. Returns whether it had something of a bridge."""


async def leave(settings: Settings, bridged: Bridged, *, is_gone: bool = False) -> Left:
    """Take back what bridges have written to a cluster and to the gateway. None of them may run.

    Args:
        settings: the address of Kafka.
        bridged: what to take back.
        is_gone: whether the cluster no longer exists. Then it is not contacted, and its objects are only removed.

    Raises:
        RuntimeFailure: one does, something cannot be reached, or it is another cluster that was mirrored.
    """
    tables = TargetTables(bridged.plan.target, bridged.plan.cluster, lambda _kind, _key: None)
    try:
        partitions = (await ensure_topics(settings))[RESOURCES.short]
    except (KafkaError, OSError) as error:
        raise RuntimeFailure(f"Kafka does not answer: {error}") from None
    reader = GlobalReader(
        service=NAME,
        topics=(RESOURCES,),
        view=tables,
        settings=settings,
        partitions=partitions,
        client_id=f"moorage-{NAME}-{uuid.uuid4().hex[:12]}",
        on_change=lambda _: None,
    )
    try:
        reader.start()
        await reader.caught_up.wait()
        targets = 0 if is_gone else await _clean(bridged, tables)
        async with GatewayClient(bridged.plan.link.gateway) as gateway:
            objects = await forget_objects(gateway, tables, bridged.plan)
    except (ApiError, GatewayError, OSError) as error:
        raise RuntimeFailure(str(error)) from None
    finally:
        await reader.stop()
    return Left(targets, objects)


async def _clean(bridged: Bridged, tables: TargetTables) -> int:
    """Take back what was written to the cluster. Return how many targets had something of a bridge."""
    plan = bridged.plan
    client = await KubeClient.connect(plan.link.access)
    try:
        check_uid(tables, plan.source, await read_uid(client), plan.cluster)
        await check_nobody_acts(client, plan.link.lease_namespace, plan.lease)
        path = next(one.path for one in plan.followed if one.kind == plan.target)
        return sum([await bridged.clean(client, found) async for found in client.objects(path)])
    finally:
        await client.close()


async def check_nobody_acts(client: KubeClient, namespace: str, lease: str) -> None:
    """Check that no bridge is acting, which would write again what is taken back.

    A killed bridge counts as stopped once its Lease expires.

    Raises:
        RuntimeFailure: one is.
    """
    if holder := await renewing_holder(client, namespace=namespace, name=lease):
        raise RuntimeFailure(f"the bridge {holder} acts on this cluster: stop it first")


async def remove_taints(client: KubeClient, target: Target, *, path: str, read: Callable[[JsonObject], Target]) -> bool:
    """Remove the taints of a target that bridges have noted as theirs. Return whether there were any.

    Raises:
        ApiError: the cluster refuses.
        OSError: it cannot be reached, or others change the taints all the time.
    """

    def patch(found: Target) -> JsonObject | None:
        return taints_patch(found, (), managed=found.own_taints)

    if patch(target) is None:
        return False
    await write_taints(client, target, path=path, patch=patch, read=read, written=lambda _: None)
    return True


async def forget_objects(gateway: GatewayClient, tables: TargetTables, plan: BridgePlan[Any]) -> int:
    """Remove what a bridge has mirrored. Return how many objects there were.

    Raises:
        GatewayError: not everything was removed.
        RuntimeFailure: the gateway refuses some.
    """
    mine = [(ResourceKey.parse(key), one.uid) for key, one in tables.resources.items() if one.source == plan.source]
    # What is placed goes first and the targets last, so that no work without a target is decided on.
    mine.sort(key=lambda one: _rank(one[0].kind, plan))
    for start in range(0, len(mine), _AT_ONCE):
        part = mine[start : start + _AT_ONCE]
        results = await gateway.mirror(plan.source, plan.cluster, (), list(_deleted(part)))
        for (key, _), result in zip(part, results, strict=True):
            if result.get("outcome") == "Refused":
                raise RuntimeFailure(f"{key}: the gateway does not forget it: {result.get('message')}")
    return len(mine)


def _deleted(objects: Iterable[tuple[ResourceKey, str]]) -> Iterable[dict[str, str]]:
    for key, uid in objects:
        yield {"kind": key.kind, "namespace": key.namespace, "name": key.name, "uid": uid}


def _rank(kind: str, plan: BridgePlan[Any]) -> int:
    return 0 if kind in plan.work else 2 if kind == plan.target else 1
