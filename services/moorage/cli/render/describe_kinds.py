"""`moorage describe` of every kind: the head that all have, and what each tells of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from moorage.cli.api import object_names
from moorage.cli.api.client import Client, JsonObject
from moorage.cli.api.objects import at
from moorage.cli.render import describe_ocm, describe_targets, describe_workloads, output
from moorage.cli.render.describe import many, pair, pairs
from moorage.cli.render.durations import age, to_the_second
from moorage.kinds.kind import ServedKind

_TELLERS: Final[Mapping[str, Callable[[Client, JsonObject], Iterator[str]]]] = {
    "Pod": describe_workloads.pod,
    "Node": describe_targets.node,
    "Cluster": describe_targets.cluster,
    "Zone": describe_targets.zone,
    "MachineSet": describe_targets.machine_set,
    "ResourceBinding": describe_targets.binding,
    "PodDisruptionBudget": describe_targets.disruption_budget,
    "EvictionBudget": describe_targets.guard,
    "EvictionPause": describe_targets.guard,
    "ManagedCluster": describe_ocm.cluster,
    "ManagedClusterSet": describe_ocm.cluster_set,
    "ManagedClusterSetBinding": describe_ocm.binding,
    "Placement": describe_ocm.placement,
    "PlacementDecision": describe_ocm.decision,
    "AddOnPlacementScore": describe_ocm.score,
    "ManagedClusterAddOn": describe_ocm.add_on,
}


def lines(client: Client, kind: ServedKind, found: JsonObject) -> Iterator[str]:
    """All that is told of an object, with times to the second; the gateway is asked for what belongs to it."""
    yield from _head(kind, found)
    yield from map(to_the_second, _rest(client, kind, {"kind": kind.kind, **found}))


def _head(kind: ServedKind, found: JsonObject) -> Iterator[str]:
    yield pair("Name", object_names.shown(kind, found))
    if kind.namespaced:
        yield pair("Namespace", at(found, "metadata", "namespace"))
    yield from many("Labels", pairs(at(found, "metadata", "labels")))
    yield from many("Annotations", pairs(at(found, "metadata", "annotations")))
    if created := at(found, "metadata", "creationTimestamp"):
        yield pair("Created", f"{created} ({age(created)} ago)")


def _rest(client: Client, kind: ServedKind, found: JsonObject) -> Iterator[str]:
    if teller := _TELLERS.get(kind.kind):
        yield from teller(client, found)
    elif at(found, "spec", "template") is not None:
        yield from describe_workloads.controller(client, found)
    else:
        for part in ("spec", "status"):
            if found.get(part):
                yield f"{part.title()}:"
                yield from (f"  {line}" for line in output.to_yaml(found[part]).splitlines())
