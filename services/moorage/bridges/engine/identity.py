"""Which cluster a bridge reads. Two clusters under one name would forget each other's objects.

A cluster is identified by the uid of its namespace `kube-system`, as is usual. It is made with the cluster, is never
deleted, and a backup of etcd also has it. Mirrored objects carry this uid. A bridge that reads another cluster ends
before it writes anything, and the gateway refuses what it sends.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from moorage.bridges.engine.fleet_names import advice
from moorage.bridges.engine.target_tables import TargetTables
from moorage.bridges.kube.api_error import ApiError
from moorage.bridges.kube.client import KubeClient
from moorage.runtime.process.failures import RuntimeFailure
from moorage_schemas.refs import fleet_called

_log = structlog.get_logger(__name__)

_PATH: Final = "/api/v1/namespaces/kube-system"
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 15.0
_AGAIN: Final = 60.0  # seconds after which it is looked whether the cluster is still the same


async def read_uid(client: KubeClient) -> str:
    """Return the uid of the cluster that a client reads.

    Raises:
        ApiError: the cluster does not permit it.
        OSError: the cluster cannot be reached.
    """
    return str((await client.get(_PATH))["metadata"]["uid"])


async def wait_for_uid(client: KubeClient) -> str:
    """Return the uid of the cluster as soon as it can be read."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await read_uid(client)
        except (ApiError, OSError) as error:
            _log.warning("bridge.cluster_not_identified", path=_PATH, error=str(error))
        await asyncio.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def watch_uid(client: KubeClient, uid: str) -> None:
    """End if another cluster answers at the same address, for what was seen so far is of the earlier one.

    Raises:
        RuntimeFailure: another one does.
    """
    while True:
        await asyncio.sleep(_AGAIN)
        try:
            found = await read_uid(client)
        except (ApiError, OSError):
            continue  # the reflectors log it
        if found != uid:
            raise RuntimeFailure(
                f"{client.server} is another cluster now: its namespace kube-system has the uid {found}, and had {uid}"
            )


def check_uid(tables: TargetTables, source: str, uid: str, fleet: str) -> None:
    """Check that what a bridge has mirrored so far is of the cluster that it reads now.

    Args:
        tables: the content of the topics.
        source: the bridge.
        uid: of the cluster that it reads.
        fleet: the name of the cluster in references. Empty for the home fleet.

    Raises:
        RuntimeFailure: it is of another one.
    """
    mirrored = {one.cluster_uid for one in tables.resources.values() if one.source == source} - {"", uid}
    if mirrored:
        raise RuntimeFailure(
            f"{fleet_called(fleet)} has objects that {source} has mirrored from the cluster with the uid "
            f"{min(mirrored)}, and this cluster has the uid {uid} (of its namespace kube-system). "
            f"{advice(source, fleet)}"
        )
