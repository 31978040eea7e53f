"""`moorage diff cluster`: what Moorage would do otherwise than a real cluster does."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from moorage.cli.api.client import Client
from moorage.cli.api.endpoints import connect_home
from moorage.cli.errors import CliError, ServerError
from moorage.cli.render import output

if TYPE_CHECKING:
    from moorage.bridges.kube.client import ClusterAccess, KubeClient
    from moorage.bridges.kubernetes.difference import ClusterDifference, DecidedState

_OWN = "/apis/moorage.io/v1alpha1"


class DiffFormat(StrEnum):
    """How differences are shown."""

    TABLE = "table"
    JSON = "json"


class PresentCluster(NamedTuple):
    """What a cluster says of itself."""

    uid: str
    """Empty if it may not be read."""

    nodes: list[Any]
    pods: list[Any]


def differences(ctx: typer.Context, cluster: str, access: ClusterAccess) -> list[ClusterDifference]:
    """Return where a real cluster and Moorage differ now.

    Args:
        ctx: the context of the command.
        cluster: the name of the cluster in Moorage. Empty for the home fleet.
        access: to the cluster itself.

    Raises:
        CliError: one of them does not answer, or the cluster is not the one that is mirrored under this name.
    """
    from moorage.bridges.kubernetes.difference import differences as compared  # noqa: PLC0415 - it loads slowly
    from moorage_schemas.refs import fleet_called  # noqa: PLC0415 - as above

    with connect_home(ctx) as client:
        # Moorage is read first: what it has decided by then can have happened in the cluster.
        decided, uid = _decided(client, cluster), _mirrored_uid(client, cluster)
    found = asyncio.run(read_cluster(access))
    if uid and found.uid and uid != found.uid:
        raise CliError(
            f"{fleet_called(cluster)} is mirrored from the cluster with the uid {uid}, and that of the kubeconfig "
            f"has the uid {found.uid} (of its namespace kube-system)"
        )
    return compared(found.nodes, found.pods, decided)


def _mirrored_uid(client: Client, cluster: str) -> str:
    """Return the uid of the cluster that is mirrored under a name. Empty if none is, or this may not be read."""
    from moorage.bridges.engine.fleet_names import source_of  # noqa: PLC0415 - it loads slowly
    from moorage_schemas.refs import HOME  # noqa: PLC0415 - as above

    try:
        found = client.read("/v1/clusters")["items"]
    except ServerError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return ""
        raise
    place = (cluster or HOME, source_of(cluster))
    return next((str(one["clusterUID"]) for one in found if (one["name"], one["source"]) == place), "")


def _decided(client: Client, cluster: str) -> DecidedState:
    from moorage.bridges.kubernetes.difference import DecidedState  # noqa: PLC0415 - it loads slowly

    place = f"/clusters/{cluster}" if cluster else ""

    def items(path: str) -> list[Any]:
        return list(client.read(f"{place}{path}").get("items") or ())

    return DecidedState(items("/api/v1/nodes"), items(f"{_OWN}/evictions"), items(f"{_OWN}/workloadplacements"))


async def read_cluster(access: ClusterAccess) -> PresentCluster:
    """Read the nodes and pods of a cluster, and its uid.

    Raises:
        CliError: the kubeconfig does not do, or the cluster does not answer.
    """
    from moorage.bridges.engine.identity import read_uid  # noqa: PLC0415 - it loads slowly
    from moorage.bridges.kube.client import KubeClient  # noqa: PLC0415 - it loads slowly
    from moorage.bridges.kube.errors import FORBIDDEN, ApiError  # noqa: PLC0415 - as above
    from moorage.runtime.process.errors import RuntimeFailure  # noqa: PLC0415 - as above

    try:
        client = await KubeClient.connect(access)
    except RuntimeFailure as error:
        raise CliError(str(error)) from None
    try:
        try:
            uid = await read_uid(client)
        except ApiError as error:
            if error.status != FORBIDDEN:
                raise
            uid = ""
        return PresentCluster(uid, await _all(client, "/api/v1/nodes"), await _all(client, "/api/v1/pods"))
    except (ApiError, OSError) as error:
        raise CliError(f"the cluster cannot be read: {error}") from None
    finally:
        await client.close()


async def _all(client: KubeClient, path: str) -> list[Any]:
    return [one async for one in client.objects(path)]


def show(found: list[ClusterDifference], style: DiffFormat) -> None:
    """Print differences."""
    if style is DiffFormat.JSON:
        output.write(output.to_json([one._asdict() for one in found]))
    elif found:
        output.write(output.table(["OBJECT", "CLUSTER", "MOORAGE", "WHY"], [list(one) for one in found]))
