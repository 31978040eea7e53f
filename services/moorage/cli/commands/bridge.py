"""`moorage bridge`: make Moorage the probe and the deployer of a real cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from moorage.cli.api import credentials, endpoints
from moorage.cli.errors import CliError, ServerError, UsageError
from moorage.cli.render import output

if TYPE_CHECKING:
    from moorage.bridges.engine.gateway_client import GatewayAddress
    from moorage.bridges.engine.leaving import Bridged
    from moorage.bridges.engine.plan import Link
    from moorage.bridges.kubernetes.pod_acts import EvictionMode
    from moorage.runtime.process.member import MemberMaker
    from moorage.runtime.settings.process_settings import Settings

T = TypeVar("T")
_Act = TypeVar("_Act", bound=StrEnum)
_Access = tuple[str, str] | tuple[str, str, int, float, int]
"""A kubeconfig, its context, and the limits of requests."""

_ALL: Final = "all"
_ROLE: Final = "bridge"
_TABLE: Final = "table"
_FORMATS: Final = (_TABLE, "json", "yaml")

app = typer.Typer(no_args_is_help=True, help="Mirror a real cluster, and carry decisions out there.")

Kubeconfig = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="The kubeconfig of the cluster. The default is that of KUBECONFIG, or the service account of the pod.",
        show_default=False,
    ),
]
KubeContext = Annotated[str, typer.Option(metavar="NAME", help="Its context.", show_default=False)]
ClusterName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="The name of the cluster in Moorage. Without one its objects are those of the home fleet.",
        show_default=False,
    ),
]

InFlight = Annotated[
    int, typer.Option(min=1, help="The most requests in flight to the cluster. Below it the limit follows the server.")
]
Qps = Annotated[float, typer.Option(min=0, help="Requests a second to the cluster. 0 for no limit.")]
Burst = Annotated[int, typer.Option(min=1, help="With --kube-api-qps: requests at once after a pause.")]
LeaseNamespace = Annotated[str, typer.Option(help="The namespace of the Lease that elects one of several bridges.")]
LeaseDuration = Annotated[
    float,
    typer.Option(metavar="SECONDS", min=1, help="The time without a renewal after which another bridge takes over."),
]
HttpPort = Annotated[
    int, typer.Option(min=0, max=65_535, help="The port of /healthz, /readyz and /metrics. 0 for any.")
]


def _acts_option(place_and_acts: str) -> Any:
    return typer.Option(
        metavar="ACT,…",
        help=f"The writes to {place_and_acts}, or all. Without it the bridge only reads.",
        show_default=False,
    )


def _scheduler_option(placed: str, off: str) -> Any:
    text = f"Also place the {placed} of this scheduler, such as default-scheduler when {off} is off."
    return typer.Option(metavar="NAME", help=text)


def _grace_option(lease: str, target: str) -> Any:
    text = f"The time without a renewal of its {lease} after which a {target} is Unknown."
    return typer.Option(metavar="SECONDS", min=1, help=text)


@app.callback()
def _bridge() -> None:
    """Mirror a real cluster, and carry decisions out there."""


@app.command("kubernetes")
def kubernetes(
    ctx: typer.Context,
    *,
    kubeconfig: Kubeconfig = "",
    kube_context: KubeContext = "",
    cluster: ClusterName = "",
    act: Annotated[list[str] | None, _acts_option("the cluster: taints, evictions, placement, conditions")] = None,
    eviction: Annotated[
        str, typer.Option(metavar="MODE", help="How pods are evicted: delete, or api (through its budgets).")
    ] = "delete",
    scheduler_name: Annotated[str, _scheduler_option("pods", "kube-scheduler")] = "moorage",
    node_monitor_grace_period: Annotated[float, _grace_option("Lease", "node")] = 50.0,
    kube_api_in_flight: InFlight = 128,
    kube_api_qps: Qps = 0,
    kube_api_burst: Burst = 200,
    lease_namespace: LeaseNamespace = "kube-system",
    lease_duration: LeaseDuration = 3.0,
    http_port: HttpPort = 0,
) -> None:
    """Bridge a Kubernetes cluster until Ctrl-C.

    Its nodes, pods, controllers and budgets are mirrored, and the conditions of its nodes are reported. With --act,
    what Moorage decides is done there. Several processes may bridge a cluster; one of them acts.

    The cluster is that of --kubeconfig. The gateway is found as by every command, and Kafka as by `moorage run`.
    """
    from moorage.bridges.kubernetes.cluster_bridge import (  # noqa: PLC0415 - it loads slowly
        BridgeAct,
        BridgeOptions,
        KubernetesBridge,
    )

    name, acts, mode, scheduler = _name(cluster), _acts(act, BridgeAct), _mode(eviction), _scheduler(scheduler_name)
    limits, lease = (kube_api_in_flight, kube_api_qps, kube_api_burst), (lease_namespace, lease_duration)
    access = (kubeconfig, kube_context, *limits)
    options = BridgeOptions(_link(ctx, access, lease), name, acts, mode, scheduler, node_monitor_grace_period)
    _run(_settings(http_port), lambda settings: KubernetesBridge(settings, options))


@app.command("ocm")
def ocm(
    ctx: typer.Context,
    *,
    kubeconfig: Kubeconfig = "",
    kube_context: KubeContext = "",
    act: Annotated[list[str] | None, _acts_option("the hub: placements, taints, labels")] = None,
    kube_api_in_flight: InFlight = 128,
    kube_api_qps: Qps = 0,
    kube_api_burst: Burst = 200,
    lease_namespace: LeaseNamespace = "kube-system",
    lease_duration: LeaseDuration = 3.0,
    http_port: HttpPort = 0,
) -> None:
    """Bridge a hub of Open Cluster Management until Ctrl-C.

    Its managed clusters, sets, bindings, placements, scores and add-ons are mirrored into the home fleet, and the
    conditions of its clusters are reported. With --act, what Moorage decides is written there as OCM's own controllers
    would write it. Several processes may bridge a hub; one of them acts.

    The hub is that of --kubeconfig. The gateway is found as by every command, and Kafka as by `moorage run`.
    """
    from moorage.bridges.ocm.hub_bridge import HubAct, HubBridge, HubOptions  # noqa: PLC0415 - it loads slowly

    acts = _acts(act, HubAct)
    limits, lease = (kube_api_in_flight, kube_api_qps, kube_api_burst), (lease_namespace, lease_duration)
    access = (kubeconfig, kube_context, *limits)
    options = HubOptions(_link(ctx, access, lease), acts)
    _run(_settings(http_port), lambda settings: HubBridge(settings, options))


@app.command("karmada")
def karmada(
    ctx: typer.Context,
    *,
    kubeconfig: Kubeconfig = "",
    kube_context: KubeContext = "",
    act: Annotated[list[str] | None, _acts_option("the control plane: taints, bindings")] = None,
    scheduler_name: Annotated[str, _scheduler_option("bindings", "Karmada's own")] = "moorage",
    cluster_monitor_grace_period: Annotated[float, _grace_option("agent's Lease", "cluster")] = 40.0,
    kube_api_in_flight: InFlight = 128,
    kube_api_qps: Qps = 0,
    kube_api_burst: Burst = 200,
    lease_namespace: LeaseNamespace = "karmada-system",
    lease_duration: LeaseDuration = 3.0,
    http_port: HttpPort = 0,
) -> None:
    """Bridge a Karmada control plane until Ctrl-C.

    Its clusters, policies and ResourceBindings are mirrored into the home fleet, and the conditions of its clusters are
    reported. With --act, what Moorage decides is written there, as Karmada's scheduler, taint manager and
    ClusterTaintPolicy controller would write it. Several processes may bridge a control plane; one of them acts.

    The control plane is that of --kubeconfig. The gateway is found as by every command, and Kafka as by `moorage run`.
    """
    from moorage.bridges.karmada.plane_bridge import PlaneAct, PlaneBridge, PlaneOptions  # noqa: PLC0415 - it loads slowly

    acts, scheduler = _acts(act, PlaneAct), _scheduler(scheduler_name)
    limits, lease = (kube_api_in_flight, kube_api_qps, kube_api_burst), (lease_namespace, lease_duration)
    access = (kubeconfig, kube_context, *limits)
    options = PlaneOptions(_link(ctx, access, lease), acts, scheduler, cluster_monitor_grace_period)
    _run(_settings(http_port), lambda settings: PlaneBridge(settings, options))


class _Kind(StrEnum):
    """The target of a bridge."""

    KUBERNETES = "kubernetes"
    OCM = "ocm"
    KARMADA = "karmada"


@app.command("leave")
def leave(
    ctx: typer.Context,
    kind: Annotated[_Kind, typer.Argument(help="The kind of bridge.", show_default=True)] = _Kind.KUBERNETES,
    *,
    kubeconfig: Kubeconfig = "",
    kube_context: KubeContext = "",
    cluster: ClusterName = "",
    lease_namespace: Annotated[
        str,
        typer.Option(
            help="Where the Lease of its bridges is. The default is that of the bridge's own command.",
            show_default=False,
        ),
    ] = "",
    gone: Annotated[
        bool, typer.Option("--gone", help="The cluster no longer exists: only remove its mirrored objects.")
    ] = False,
) -> None:
    """Take back what bridges have written to a cluster, a hub or a control plane, and forget what was mirrored of it.

    Taints, conditions and labels of others stay, and so does what was decided: pods on their nodes, PlacementDecisions,
    and the clusters of ResourceBindings. Stop the bridges first.
    """
    from moorage.bridges.engine.leaving import leave as left_by  # noqa: PLC0415 - it loads slowly

    if cluster and kind is not _Kind.KUBERNETES:
        raise UsageError(f"--cluster: the objects of {kind} are always those of the home fleet")
    name = _name(cluster)
    space = lease_namespace or ("karmada-system" if kind is _Kind.KARMADA else "kube-system")
    bridged = _bridged(kind, _link(ctx, (kubeconfig, kube_context), (space,)), name)
    settings = _settings(0)
    left = _completed(settings, left_by(settings, bridged, is_gone=gone))
    what = "nodes" if kind is _Kind.KUBERNETES else "clusters"
    output.line(f"cleaned {left.targets} {what}, and {left.objects} objects are no longer mirrored")


def _bridged(kind: _Kind, link: Link, cluster: str) -> Bridged:
    if kind is _Kind.OCM:
        from moorage.bridges.ocm.hub_bridge import bridged_hub  # noqa: PLC0415 - it loads slowly

        return bridged_hub(link)
    if kind is _Kind.KARMADA:
        from moorage.bridges.karmada.plane_bridge import bridged_plane  # noqa: PLC0415 - as above

        return bridged_plane(link)
    from moorage.bridges.kubernetes.cluster_bridge import bridged_cluster  # noqa: PLC0415 - as above

    return bridged_cluster(link, cluster)


@app.command("list")
def listed(
    ctx: typer.Context,
    *,
    form: Annotated[str, typer.Option("-o", "--output", metavar="FORMAT", help="table, json or yaml.")] = "table",
) -> None:
    """List the real clusters that bridges mirror, and when each bridge was last heard.

    A bridge that runs reports every half minute. `home` is the home fleet; the other names are those that
    --fleet-cluster takes. With it, that cluster alone is listed.
    """
    from datetime import UTC, datetime  # noqa: PLC0415 - only this command needs it

    from moorage.decide.kubernetes.durations import age  # noqa: PLC0415 - as above
    from moorage_schemas.refs import HOME  # noqa: PLC0415 - it loads slowly

    if form not in _FORMATS:
        raise UsageError(f"--output: invalid value {form!r}: must be one of {', '.join(_FORMATS)}")
    with endpoints.connect_home(ctx) as client:
        found = client.read("/v1/clusters")
    if cluster := endpoints.chosen_cluster(ctx):
        # The home fleet has a name in the list alone.
        items = [one for one in found["items"] if one["name"] == cluster != HOME]
        if not items:
            raise ServerError(status=404, reason="NotFound", message=f'clusters.moorage.io "{cluster}" not found')
        found = {"items": items}
    if form != _TABLE:
        output.write(output.document(found, output.Format(form)))
        return
    rows = [
        [
            one["name"],
            one["source"],
            str(one["targets"]),
            str(one["workloads"]),
            age(one.get("lastHeardTime"), datetime.now(UTC)),
            one["clusterUID"] or "<unknown>",
        ]
        for one in found.get("items") or ()
    ]
    if not rows:
        output.line("No clusters are mirrored")
        return
    output.write(output.table(("CLUSTER", "BRIDGE", "TARGETS", "WORKLOADS", "LAST-HEARD", "CLUSTER-UID"), rows))


def _settings(http_port: int) -> Settings:
    return endpoints.kafka_settings(kafka_role=_ROLE, http_port=http_port)


def _run(settings: Settings, make: MemberMaker) -> None:
    from moorage.runtime.app import run_services  # noqa: PLC0415 - it loads slowly

    with contextlib.suppress(KeyboardInterrupt):
        if code := _completed(settings, run_services([], settings, beside=[make])):
            raise typer.Exit(code)


def _completed(settings: Settings, work: Coroutine[Any, Any, T]) -> T:
    """Do something as a service does it, with its logs, and return the result."""
    from moorage.runtime.app import run_async  # noqa: PLC0415 - it loads slowly
    from moorage.runtime.process.failures import RuntimeFailure  # noqa: PLC0415 - as above
    from moorage.runtime.process.logs import configure_logs  # noqa: PLC0415 - as above

    configure_logs(settings)
    try:
        return run_async(work)
    except RuntimeFailure as error:
        raise CliError(str(error)) from None


def _link(ctx: typer.Context, access: _Access, lease: tuple[str] | tuple[str, float]) -> Link:
    """Return how a bridge reaches its cluster and the gateway.

    This may send a request to the gateway, so other options are checked before.
    """
    from moorage.bridges.engine.plan import Link  # noqa: PLC0415 - it loads slowly
    from moorage.bridges.kube.client import ClusterAccess  # noqa: PLC0415 - as above

    return Link(ClusterAccess(*access), _gateway(ctx), *lease)


def _gateway(ctx: typer.Context) -> GatewayAddress:
    """Return the address of the gateway. A token file is read again for each request, because its token expires."""
    from moorage.bridges.engine.gateway_client import GatewayAddress  # noqa: PLC0415 - it loads slowly

    found = endpoints.server(ctx)
    if found.guessed:
        endpoints.gateway(ctx)
    shown = found.credentials()
    file = credentials.token_file()

    def headers() -> Sequence[tuple[str, str]]:
        if file and (text := Path(file).read_text("ascii").strip()):
            return [("authorization", f"Bearer {text}")]
        return shown.headers

    return GatewayAddress(found.gateway, headers, shown.tls)


def _name(cluster: str) -> str:
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - only this command needs it

    from moorage_schemas.refs import HOME, Cluster  # noqa: PLC0415 - it loads slowly

    if cluster == HOME:
        raise UsageError(
            f"--cluster: invalid value {cluster!r}: the home fleet is called so. It is that without --cluster"
        )
    try:
        return str(TypeAdapter(Cluster).validate_python(cluster))
    except ValidationError:
        raise UsageError(
            f"--cluster: invalid value {cluster!r}: must consist of lower case letters, digits, '-' and '.', and begin "
            "and end with a letter or a digit"
        ) from None


def _acts(given: Sequence[str] | None, acts: type[_Act]) -> frozenset[_Act]:
    """Return the words of all options `--act`, each separated by commas."""
    words = {word.strip() for text in given or () for word in text.split(",")} - {""}
    unknown = sorted(words - {_ALL, *acts})
    if unknown:
        raise UsageError(
            f"--act: invalid value {unknown[0]!r}: must be all, or some of {', '.join(acts)}, separated by commas"
        )
    return frozenset(acts) if _ALL in words else frozenset(acts(word) for word in words)


def _scheduler(name: str) -> str:
    if not name.strip():
        raise UsageError(f"--scheduler-name: invalid value {name!r}: must be the schedulerName of pods")
    return name


def _mode(text: str) -> EvictionMode:
    from moorage.bridges.kubernetes.pod_acts import EvictionMode  # noqa: PLC0415 - it loads slowly

    try:
        return EvictionMode(text)
    except ValueError:
        raise UsageError(f"--eviction: invalid value {text!r}: must be one of {', '.join(EvictionMode)}") from None
