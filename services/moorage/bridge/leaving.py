"""Ends a bridge for good: what it has written to its cluster, and to the gateway, is taken back.

What has been decided stays where it is: pods on their nodes, PlacementDecisions, the clusters of ResourceBindings. So
whoever decides next goes on from there.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from aiokafka.errors import KafkaError

from moorage.bridge.gateway_client import GatewayClient, GatewayError
from moorage.bridge.identity import check_uid, read_uid
from moorage.bridge.kube.client import KubeClient
from moorage.bridge.kube.election import renewing_holder
from moorage.bridge.kube.errors import ApiError
from moorage.bridge.member import NAME, Link
from moorage.bridge.tables import TargetTables
from moorage.bridge.taint_lists import Target, taints_patch, write_taints
from moorage.runtime.errors import RuntimeFailure
from moorage.runtime.kafka.global_tables import GlobalReader
from moorage.runtime.kafka.topics_admin import ensure_topics
from moorage.runtime.settings import Settings
from moorage_schemas.keys import ResourceKey
from moorage_schemas.topics import RESOURCES

_AT_ONCE: Final = 500

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Left:
    """What was taken back: the number of targets, and of objects that are not mirrored any more."""

    targets: int
    objects: int


@dataclass(frozen=True, slots=True)
class Bridged:
    """What a bridge has to do with, as far as it is needed to take it back.

    Attributes:
        link: how its cluster and the gateway are reached.
        lease: the name of the Lease of its bridges.
        source: of the bridge.
        target: the kind of its targets.
        work: the kinds of what is placed on them.
        clean: takes back what was written to the targets. Returns how many had something of a bridge.
        cluster: the name of the cluster in Moorage. Empty for the home fleet.
    """

    link: Link
    lease: str
    source: str
    target: str
    work: frozenset[str]
    clean: Callable[[KubeClient], Awaitable[int]]
    cluster: str = ""


async def leave(settings: Settings, bridged: Bridged, *, is_gone: bool = False) -> Left:
    """Take back what bridges have written to a cluster and to the gateway. None of them may run.

    Args:
        settings: the address of Kafka.
        bridged: what there is to take back.
        is_gone: whether the cluster does not exist any more. Then it is not asked, and only forgotten.

    Raises:
        RuntimeFailure: one does, something cannot be reached, or it is another cluster that was mirrored.
    """
    tables = TargetTables(bridged.target, bridged.cluster, lambda _kind, _key: None)
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
        async with GatewayClient(bridged.link.gateway) as gateway:
            objects = await forget_objects(gateway, tables, bridged)
    except (ApiError, GatewayError, OSError) as error:
        raise RuntimeFailure(str(error)) from None
    finally:
        await reader.stop()
    return Left(targets, objects)


async def _clean(bridged: Bridged, tables: TargetTables) -> int:
    """Take back what was written to the cluster. Return how many targets had something of a bridge."""
    client = await KubeClient.connect(bridged.link.access)
    try:
        check_uid(tables, bridged.source, await read_uid(client), bridged.cluster)
        await check_nobody_acts(client, bridged.link.lease_namespace, bridged.lease)
        return await bridged.clean(client)
    finally:
        await client.close()


async def check_nobody_acts(client: KubeClient, namespace: str, lease: str) -> None:
    """Check that no bridge is acting, which would write again what is taken back.

    That of one that was killed is known when its Lease has ended.

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


async def forget_objects(gateway: GatewayClient, tables: TargetTables, bridged: Bridged) -> int:
    """Remove what a bridge has mirrored. Return how many objects there were.

    Raises:
        GatewayError: not everything was removed.
        RuntimeFailure: the gateway refuses some.
    """
    mine = [(ResourceKey.parse(key), one.uid) for key, one in tables.resources.items() if one.source == bridged.source]
    # What is placed goes first and the targets last, so that nobody decides on work that has nowhere to go.
    mine.sort(key=lambda one: _rank(one[0].kind, bridged))
    for start in range(0, len(mine), _AT_ONCE):
        part = mine[start : start + _AT_ONCE]
        results = await gateway.mirror(bridged.source, bridged.cluster, (), list(_deleted(part)))
        for (key, _), result in zip(part, results, strict=True):
            if result.get("outcome") == "Refused":
                raise RuntimeFailure(f"{key}: the gateway does not forget it: {result.get('message')}")
    return len(mine)


def _deleted(objects: Iterable[tuple[ResourceKey, str]]) -> Iterable[dict[str, str]]:
    for key, uid in objects:
        yield {"kind": key.kind, "namespace": key.namespace, "name": key.name, "uid": uid}


def _rank(kind: str, bridged: Bridged) -> int:
    return 0 if kind in bridged.work else 2 if kind == bridged.target else 1
