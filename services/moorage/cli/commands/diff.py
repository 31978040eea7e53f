"""`moorage diff`: the changes that applying files would make, or the differences from a real cluster."""

from __future__ import annotations

import asyncio
import difflib
import sys
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from moorage.cli.api import applying
from moorage.cli.api.client import APPLY_PATCH, Client, JsonObject
from moorage.cli.api.endpoints import chosen_cluster, connect, connect_home
from moorage.cli.api.manifests import Manifest
from moorage.cli.commands import options
from moorage.cli.errors import CliError, ServerError, UsageError, warn
from moorage.cli.render import output

if TYPE_CHECKING:
    from moorage.bridges.kube.client import ClusterAccess, KubeClient
    from moorage.bridges.kubernetes.difference import ClusterDifference, DecidedState

_OWN = "/apis/moorage.io/v1alpha1"


class DiffFormat(StrEnum):
    """How differences are shown."""

    TABLE = "table"
    JSON = "json"


_DIFFERS, _FAILED = 1, 2
"""Exit codes, as of diff(1)."""


_CLUSTER = "cluster"


def diff(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[cluster [NAME]]",
            help="`cluster` compares a real cluster with what Moorage has decided on it. NAME is that of its bridge; "
            "without one it is that of --fleet-cluster, or the home fleet.",
            show_default=False,
        ),
    ] = None,
    *,
    files: options.Files = None,
    recursive: options.Recursive = False,
    namespace: options.Namespace = "default",
    selector: options.Selector = "",
    server_side: Annotated[  # noqa: ARG001 - as kubectl's, of which it is the only way here
        bool, typer.Option("--server-side", hidden=True, help="The server always compares.")
    ] = True,
    field_manager: options.FieldManager = applying.MANAGER,
    kubeconfig: Annotated[
        str,
        typer.Option(metavar="FILE", help="With `cluster`: the kubeconfig of the real cluster.", show_default=False),
    ] = "",
    kube_context: Annotated[
        str, typer.Option(metavar="NAME", help="With `cluster`: its context.", show_default=False)
    ] = "",
    form: Annotated[
        DiffFormat, typer.Option("--output", "-o", help="With `cluster`: how it is shown.")
    ] = DiffFormat.TABLE,
) -> None:
    """Show what applying files would change, or how Moorage differs from a real cluster.

    For files, the server computes the changes and stores nothing. With `cluster`, the nodes and pods of a bridged
    cluster are read and compared with what Moorage has decided. The exit code is 0 if there are no differences, 1 if
    there are some, and 2 if something failed.
    """
    if what:
        _cluster(ctx, what, kubeconfig, kube_context, form)
        return
    good, refused = options.manifests_of(files, selector, recursive=recursive)
    code = _FAILED if refused else 0
    with connect(ctx) as client:
        for item in good:
            try:
                before, after = _both(client, item, namespace, field_manager)
            except CliError as error:
                warn(str(error))
                code = _FAILED
                continue
            place = f"{item.kind.api_version.replace('/', '.')}.{item.kind.kind}" if item.kind else ""
            name = f"{place}.{item.namespace(namespace)}.{item.name}"
            lines = list(difflib.unified_diff(_lines(before), _lines(after), f"LIVE/{name}", f"MERGED/{name}"))
            sys.stdout.writelines(lines)
            code = max(code, _DIFFERS if lines else 0)
    if code:
        raise typer.Exit(code)


def _cluster(ctx: typer.Context, what: list[str], kubeconfig: str, kube_context: str, form: DiffFormat) -> None:
    """Compare a real cluster with what was decided on it."""
    from moorage.bridges.kube.client import ClusterAccess  # noqa: PLC0415 - it loads slowly

    if what[0] != _CLUSTER or len(what) > 2:  # noqa: PLR2004 - `cluster` and its name
        raise UsageError(f"{' '.join(what)!r}: must be `cluster`, or `cluster NAME`; files are given with -f")
    chosen = chosen_cluster(ctx)
    name = what[1] if len(what) > 1 else chosen
    if chosen not in {"", name}:
        raise UsageError(f"{name!r}: must be {chosen}, the cluster of --fleet-cluster, or be left out")
    try:
        found = differences(ctx, name, ClusterAccess(kubeconfig, kube_context))
    except CliError as error:
        warn(str(error))
        raise typer.Exit(_FAILED) from None
    show(found, form)
    if found:
        raise typer.Exit(_DIFFERS)


def _both(client: Client, item: Manifest, default: str, field_manager: str) -> tuple[JsonObject | None, JsonObject]:
    """Return the object as it is, None if it does not exist, and as it would be."""
    kind = item.kind
    if kind is None or not item.name:
        raise CliError(f"{item.place}: an object without a name cannot be compared")
    namespace = item.namespace(default)
    parameters = {**options.parameters(options.SERVER, field_manager), "force": "true"}
    before = client.find(kind, namespace, item.name)
    sent = applying.configuration(item, kind, namespace)
    after = client.patch(kind, namespace, item.name, sent, content_type=APPLY_PATCH, options=parameters)
    return before, after


def _lines(found: JsonObject | None) -> list[str]:
    """Return the lines to compare, without what only the server keeps of a write."""
    if found is None:
        return []
    metadata: dict[str, Any] = dict(found.get("metadata") or {})
    metadata.pop("managedFields", None)
    if annotations := metadata.pop("annotations", None):
        left = {key: value for key, value in annotations.items() if key not in applying.ANNOTATIONS}
        metadata |= {"annotations": left} if left else {}
    return output.to_yaml({**found, "metadata": metadata}).splitlines(keepends=True)


class PresentCluster(NamedTuple):
    """The state of a real cluster."""

    uid: str
    """Empty if it may not be read."""

    nodes: list[Any]
    pods: list[Any]


def differences(ctx: typer.Context, cluster: str, access: ClusterAccess) -> list[ClusterDifference]:
    """Return where a real cluster and Moorage differ now. An empty `cluster` is the home fleet.

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
        CliError: the kubeconfig is invalid, or the cluster does not answer.
    """
    from moorage.bridges.engine.identity import read_uid  # noqa: PLC0415 - it loads slowly
    from moorage.bridges.kube.api_error import FORBIDDEN, ApiError  # noqa: PLC0415 - as above
    from moorage.bridges.kube.client import KubeClient  # noqa: PLC0415 - it loads slowly
    from moorage.runtime.process.failures import RuntimeFailure  # noqa: PLC0415 - as above

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
