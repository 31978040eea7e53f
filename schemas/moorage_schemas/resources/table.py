"""The kinds with their typed views, and how to find one."""

from __future__ import annotations

from dataclasses import dataclass

from moorage_schemas.resources.budgets import EvictionBudget, EvictionPause, PodDisruptionBudget
from moorage_schemas.resources.cluster import Cluster
from moorage_schemas.resources.dedicated import DedicatedNodes
from moorage_schemas.resources.machines import MachineSet
from moorage_schemas.resources.managed import (
    AddOnPlacementScore,
    Lease,
    ManagedCluster,
    ManagedClusterAddOn,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    Placement,
)
from moorage_schemas.resources.meta import Resource
from moorage_schemas.resources.names import KIND_NAMES, KindNames
from moorage_schemas.resources.node import Node
from moorage_schemas.resources.pod import Pod
from moorage_schemas.resources.policies import ClusterPropagationPolicy, ClusterTaintPolicy, PropagationPolicy
from moorage_schemas.resources.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet


@dataclass(frozen=True, slots=True)
class ResourceKind(KindNames):
    """One kind of resource with its typed view."""

    model: type[Resource]


_MODELS: dict[str, type[Resource]] = {
    model.__name__: model
    for model in (
        Node,
        Pod,
        Deployment,
        ReplicaSet,
        StatefulSet,
        DaemonSet,
        Job,
        DedicatedNodes,
        PodDisruptionBudget,
        MachineSet,
        Cluster,
        ClusterTaintPolicy,
        PropagationPolicy,
        ClusterPropagationPolicy,
        EvictionBudget,
        EvictionPause,
        ManagedCluster,
        ManagedClusterSet,
        ManagedClusterSetBinding,
        Placement,
        AddOnPlacementScore,
        ManagedClusterAddOn,
        Lease,
    )
}
"""By kind, the typed views. The other kinds are read as plain resources."""


def _of(names: KindNames) -> ResourceKind:
    return ResourceKind(
        group=names.group,
        versions=names.versions,
        kind=names.kind,
        plural=names.plural,
        singular=names.singular,
        short_names=names.short_names,
        namespaced=names.namespaced,
        model=_MODELS.get(names.kind, Resource),
    )


KINDS: tuple[ResourceKind, ...] = tuple(_of(names) for names in KIND_NAMES)

_BY_API: dict[tuple[str, str], ResourceKind] = {(api, kind.kind): kind for kind in KINDS for api in kind.api_versions}
_BY_KIND: dict[str, ResourceKind] = {kind.kind: kind for kind in KINDS}
_BY_NAME: dict[str, ResourceKind] = {
    name.lower(): kind for kind in KINDS for name in (kind.plural, kind.singular, kind.kind, *kind.short_names)
}


def kind_of(api_version: str, kind: str) -> ResourceKind | None:
    """The kind that an object's `apiVersion` and `kind` name; None when Moorage does not know it."""
    return _BY_API.get((api_version, kind))


def kind_named(name: str) -> ResourceKind | None:
    """The kind of a word on the command line: `node`, `nodes`, `no`, `Node`, `deployments.apps`; None if unknown."""
    plain, dot, group = name.partition(".")
    found = _BY_NAME.get(plain.lower())
    return found if found is not None and (not dot or group in {found.group, *found.api_versions}) else None


def kind_by_kind(kind: str) -> ResourceKind | None:
    """The kind of a resource record's `Kind`; None when unknown."""
    return _BY_KIND.get(kind)
