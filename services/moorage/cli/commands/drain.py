"""`moorage drain`: cordon nodes and evict their pods, with the options and words of kubectl."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from moorage.cli import completion
from moorage.cli.api import kinds, targets
from moorage.cli.api.client import Client, JsonObject, object_path
from moorage.cli.api.endpoints import connect
from moorage.cli.commands import options
from moorage.cli.commands.cordon import decide_node
from moorage.cli.commands.options import ObjectPlace
from moorage.cli.commands.wait import condition, until_met
from moorage.cli.errors import FAILED, CliError, ServerError, UsageError, warn
from moorage.cli.render import output
from moorage.cli.render.durations import parse_duration
from moorage.cli.render.printing import dry_run_suffix
from moorage.decide.kubernetes.unstructured import at

_PODS: Final = kinds.find("pods")
_TOO_MANY: Final = 429
_PAUSE: Final = 5.0
"""Seconds between two tries to evict a pod that a budget keeps."""

_FOREVER: Final = 7 * 86_400.0
_DAEMON: Final = "cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)"
_OVER: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules for the pods to evict."""

    force: bool
    ignore_daemon_sets: bool
    delete_empty_dir: bool
    disable_eviction: bool
    grace: int
    selector: str
    seconds: float
    dry_run: str


def drain(
    ctx: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODE… | node/NODE…", show_default=False, autocompletion=completion.nodes_and_clusters),
    ] = None,
    *,
    selector: Annotated[str, typer.Option("-l", "--selector", help="Nodes with these labels.")] = "",
    pod_selector: Annotated[str, typer.Option("--pod-selector", help="Evict only pods with these labels.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Also evict pods without a controller.")] = False,
    ignore_daemon_sets: Annotated[
        bool, typer.Option("--ignore-daemonsets", help="Leave pods of daemon sets where they are.")
    ] = False,
    delete_empty_dir: Annotated[
        bool,
        typer.Option("--delete-emptydir-data", help="Also evict pods with emptyDir volumes, whose data is lost."),
    ] = False,
    disable_eviction: Annotated[
        bool, typer.Option("--disable-eviction", help="Delete the pods, regardless of disruption budgets.")
    ] = False,
    grace: Annotated[
        int, typer.Option("--grace-period", help="The grace period of each pod in seconds. Less than 0 for its own.")
    ] = -1,
    timeout: Annotated[str, typer.Option(help="How long to try, such as 5m. 0 for ever.")] = "0s",
    dry_run: options.DryRun = options.NONE,
) -> None:
    """Cordon nodes, and evict their pods."""
    options.parameters(dry_run)
    seconds = parse_duration(timeout, "--timeout").total_seconds() or _FOREVER
    rules = _Rules(force, ignore_daemon_sets, delete_empty_dir, disable_eviction, grace, pod_selector, seconds, dry_run)
    failed: list[str] = []
    with connect(ctx) as client:
        nodes = _nodes(client, names or [], selector)
        for node in nodes:
            _cordon(client, node, dry_run)
        for node in nodes:
            try:
                _drain(client, node, rules)
            except (ServerError, _RefusedPodsError) as error:
                failed.append(node)
                warn(f'error: unable to drain node "{node}" due to error: {error}, continuing command...')
            else:
                output.line(f"node/{node} drained{dry_run_suffix(dry_run)}")
    if failed:
        warn(f"There are pending nodes to be drained:\n {' '.join(failed)}")
        raise typer.Exit(FAILED)


class _RefusedPodsError(CliError):
    """Pods of a node could not be evicted, or not in time."""

    def __init__(self, message: str) -> None:
        super().__init__(message, prefix="")


def _nodes(client: Client, words: list[str], selector: str) -> list[str]:
    if bool(words) == bool(selector):
        raise UsageError("name the nodes, or give a selector with -l")
    found = []
    for word in words:
        kind, slash, name = word.partition("/")
        if slash and targets.kind_or_none(kind) != targets.NODE:
            raise UsageError(f"only nodes can be drained, not {word}")
        found.append(name if slash else word)
    if found and targets.kind_or_none(found[0]) == targets.NODE and len(found) > 1:
        found = found[1:]  # `drain node n1`
    return list(dict.fromkeys(found)) or targets.select(client, targets.NODE, [], selector, every=False)


def _cordon(client: Client, node: str, dry_run: str) -> None:
    if dry_run == options.NONE:
        word = targets.change(client, targets.NODE, node, lambda found: decide_node(found, unschedulable=True)).word
    else:
        word = decide_node(client.get(targets.NODE, "", node), unschedulable=True)[1]
    output.line(f"node/{node} {word}{dry_run_suffix(dry_run)}")


def _drain(client: Client, node: str, rules: _Rules) -> None:
    pods = client.list(_PODS, None, rules.selector, fields=f"spec.nodeName={node}").get("items") or []
    chosen = _chosen(pods, rules)
    if rules.dry_run != options.NONE:
        for pod in chosen:
            output.line(
                f"evicting pod {pod['metadata']['namespace']}/{pod['metadata']['name']}{dry_run_suffix(rules.dry_run)}"
            )
        return
    end = time.monotonic() + rules.seconds
    for pod in chosen:
        _remove(client, pod, rules, end)
    for pod in chosen:
        place = _place(pod)
        if until_met(client, place, condition("delete"), end, missing_is_fine=True) is None:
            raise _RefusedPodsError(f"global timeout reached: {rules.seconds:g}s")
        output.line(f"pod/{place.name} {'deleted' if rules.disable_eviction else 'evicted'}")


def _place(pod: JsonObject) -> ObjectPlace:
    return ObjectPlace(_PODS, str(pod["metadata"].get("namespace") or ""), str(pod["metadata"]["name"]))


def _chosen(pods: list[JsonObject], rules: _Rules) -> list[JsonObject]:
    """Return the pods to evict."""
    chosen: list[JsonObject] = []
    left: list[str] = []
    refused: dict[str, list[str]] = {}
    for pod in pods:
        name = f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"
        if at(pod, "metadata", "annotations", "kubernetes.io/config.mirror"):
            continue
        why = "" if at(pod, "status", "phase") in _OVER else _why_not(pod, rules)
        if why == _DAEMON and rules.ignore_daemon_sets:
            left.append(name)
        elif why:
            refused.setdefault(why, []).append(name)
        else:
            chosen.append(pod)
    if refused:
        told = [f"{why}: {', '.join(names)}" for why, names in refused.items()]
        raise _RefusedPodsError(f"[{', '.join(told)}]" if len(told) > 1 else told[0])
    if left:
        warn(f"Warning: ignoring DaemonSet-managed Pods: {', '.join(left)}")
    return chosen


def _why_not(pod: JsonObject, rules: _Rules) -> str:
    """Return why a pod must not be evicted. Empty if it may."""
    owner = next((one for one in at(pod, "metadata", "ownerReferences") or [] if one.get("controller")), None)
    if owner is not None and owner.get("kind") == "DaemonSet":
        return _DAEMON
    if not rules.delete_empty_dir and _has_empty_dir(pod):
        return "cannot delete Pods with local storage (use --delete-emptydir-data to override)"
    if not rules.force and owner is None:
        return "cannot delete Pods that declare no controller (use --force to override)"
    return ""


def _has_empty_dir(pod: JsonObject) -> bool:
    return any("emptyDir" in volume for volume in at(pod, "spec", "volumes") or [])


def _remove(client: Client, pod: JsonObject, rules: _Rules, end: float) -> None:
    """Evict a pod. While a budget keeps it, try again."""
    place = _place(pod)
    body: dict[str, Any] = {"gracePeriodSeconds": rules.grace} if rules.grace >= 0 else {}
    if rules.disable_eviction:
        client.delete(*place, body={"apiVersion": "v1", "kind": "DeleteOptions", **body})
        return
    metadata = {"name": place.name, "namespace": place.namespace}
    eviction: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    output.line(f"evicting pod {place.namespace}/{place.name}")
    while True:
        try:
            client.post(object_path(*place, "eviction"), {**eviction, **({"deleteOptions": body} if body else {})})
        except ServerError as error:
            if error.reason == "NotFound":
                return
            if error.status != _TOO_MANY:
                raise
            warn(
                f'error when evicting pods/"{place.name}" -n "{place.namespace}" (will retry after {_PAUSE:g}s): '
                f"{error.message}"
            )
            if time.monotonic() + _PAUSE > end:
                raise _RefusedPodsError(f"global timeout reached: {rules.seconds:g}s") from None
            time.sleep(_PAUSE)
        else:
            return
