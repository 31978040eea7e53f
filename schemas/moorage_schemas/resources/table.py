"""THE table of kinds: group, versions, names, scope, typed view."""

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
from moorage_schemas.resources.node import Node
from moorage_schemas.resources.pod import Pod
from moorage_schemas.resources.policies import ClusterPropagationPolicy, ClusterTaintPolicy, PropagationPolicy
from moorage_schemas.resources.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One kind of resource, as an API server describes it."""

    group: str
    """Empty for the core group."""

    versions: tuple[str, ...]
    """Accepted versions, the preferred one first."""

    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool
    model: type[Resource]

    @property
    def api_versions(self) -> tuple[str, ...]:
        """`group/version` of each accepted version; the core group has no prefix."""
        return tuple(f"{self.group}/{version}" if self.group else version for version in self.versions)


KINDS: tuple[ResourceKind, ...] = (
    ResourceKind("", ("v1",), "Namespace", "namespaces", "namespace", ("ns",), namespaced=False, model=Resource),
    ResourceKind("", ("v1",), "Node", "nodes", "node", ("no",), namespaced=False, model=Node),
    ResourceKind("", ("v1",), "Pod", "pods", "pod", ("po",), namespaced=True, model=Pod),
    ResourceKind(
        "apps",
        ("v1",),
        "Deployment",
        "deployments",
        "deployment",
        ("deploy",),
        namespaced=True,
        model=Deployment,
    ),
    ResourceKind(
        "apps", ("v1",), "ReplicaSet", "replicasets", "replicaset", ("rs",), namespaced=True, model=ReplicaSet
    ),
    ResourceKind(
        "apps",
        ("v1",),
        "StatefulSet",
        "statefulsets",
        "statefulset",
        ("sts",),
        namespaced=True,
        model=StatefulSet,
    ),
    ResourceKind("apps", ("v1",), "DaemonSet", "daemonsets", "daemonset", ("ds",), namespaced=True, model=DaemonSet),
    ResourceKind("batch", ("v1",), "Job", "jobs", "job", (), namespaced=True, model=Job),
    ResourceKind(
        "moorage.io",
        ("v1alpha1",),
        "DedicatedNodes",
        "dedicatednodes",
        "dedicatednode",
        (),
        namespaced=False,
        model=DedicatedNodes,
    ),
    ResourceKind(
        "",
        ("v1",),
        "ConfigMap",
        "configmaps",
        "configmap",
        ("cm",),
        namespaced=True,
        model=Resource,
    ),
    ResourceKind(
        "",
        ("v1",),
        "Service",
        "services",
        "service",
        ("svc",),
        namespaced=True,
        model=Resource,
    ),
    ResourceKind(
        "policy",
        ("v1",),
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        ("pdb",),
        namespaced=True,
        model=PodDisruptionBudget,
    ),
    ResourceKind(
        "machine.openshift.io",
        ("v1beta1",),
        "MachineSet",
        "machinesets",
        "machineset",
        (),
        namespaced=True,
        model=MachineSet,
    ),
    ResourceKind(
        "cluster.karmada.io",
        ("v1alpha1",),
        "Cluster",
        "clusters",
        "cluster",
        (),
        namespaced=False,
        model=Cluster,
    ),
    ResourceKind(
        "policy.karmada.io",
        ("v1alpha1",),
        "ClusterTaintPolicy",
        "clustertaintpolicies",
        "clustertaintpolicy",
        (),
        namespaced=False,
        model=ClusterTaintPolicy,
    ),
    ResourceKind(
        "policy.karmada.io",
        ("v1alpha1",),
        "PropagationPolicy",
        "propagationpolicies",
        "propagationpolicy",
        ("pp",),
        namespaced=True,
        model=PropagationPolicy,
    ),
    ResourceKind(
        "policy.karmada.io",
        ("v1alpha1",),
        "ClusterPropagationPolicy",
        "clusterpropagationpolicies",
        "clusterpropagationpolicy",
        ("cpp",),
        namespaced=False,
        model=ClusterPropagationPolicy,
    ),
    ResourceKind(
        "moorage.io",
        ("v1alpha1",),
        "EvictionBudget",
        "evictionbudgets",
        "evictionbudget",
        ("eb",),
        namespaced=False,
        model=EvictionBudget,
    ),
    ResourceKind(
        "moorage.io",
        ("v1alpha1",),
        "EvictionPause",
        "evictionpauses",
        "evictionpause",
        (),
        namespaced=False,
        model=EvictionPause,
    ),
    ResourceKind(
        "cluster.open-cluster-management.io",
        ("v1",),
        "ManagedCluster",
        "managedclusters",
        "managedcluster",
        ("mcl", "mcls"),
        namespaced=False,
        model=ManagedCluster,
    ),
    ResourceKind(
        "cluster.open-cluster-management.io",
        ("v1beta2", "v1beta1", "v1alpha1"),
        "ManagedClusterSet",
        "managedclustersets",
        "managedclusterset",
        ("mclset", "mclsets"),
        namespaced=False,
        model=ManagedClusterSet,
    ),
    ResourceKind(
        "cluster.open-cluster-management.io",
        ("v1beta2", "v1beta1", "v1alpha1"),
        "ManagedClusterSetBinding",
        "managedclustersetbindings",
        "managedclustersetbinding",
        ("mclsetbinding", "mclsetbindings"),
        namespaced=True,
        model=ManagedClusterSetBinding,
    ),
    ResourceKind(
        "cluster.open-cluster-management.io",
        ("v1beta1", "v1alpha1"),
        "Placement",
        "placements",
        "placement",
        (),
        namespaced=True,
        model=Placement,
    ),
    ResourceKind(
        "cluster.open-cluster-management.io",
        ("v1alpha1",),
        "AddOnPlacementScore",
        "addonplacementscores",
        "addonplacementscore",
        (),
        namespaced=True,
        model=AddOnPlacementScore,
    ),
    ResourceKind(
        "addon.open-cluster-management.io",
        ("v1alpha1",),
        "ManagedClusterAddOn",
        "managedclusteraddons",
        "managedclusteraddon",
        ("mca",),
        namespaced=True,
        model=ManagedClusterAddOn,
    ),
    ResourceKind(
        "coordination.k8s.io",
        ("v1",),
        "Lease",
        "leases",
        "lease",
        (),
        namespaced=True,
        model=Lease,
    ),
    ResourceKind(
        "rbac.authorization.k8s.io",
        ("v1",),
        "ClusterRole",
        "clusterroles",
        "clusterrole",
        (),
        namespaced=False,
        model=Resource,
    ),
    ResourceKind(
        "rbac.authorization.k8s.io",
        ("v1",),
        "ClusterRoleBinding",
        "clusterrolebindings",
        "clusterrolebinding",
        (),
        namespaced=False,
        model=Resource,
    ),
    ResourceKind(
        "rbac.authorization.k8s.io",
        ("v1",),
        "Role",
        "roles",
        "role",
        (),
        namespaced=True,
        model=Resource,
    ),
    ResourceKind(
        "rbac.authorization.k8s.io",
        ("v1",),
        "RoleBinding",
        "rolebindings",
        "rolebinding",
        (),
        namespaced=True,
        model=Resource,
    ),
)

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
