"""THE table of kinds: group, versions and names; and names of labels and conditions that programs look for.

`moorage_schemas.resources.table` joins the kinds with their typed views. This module imports no model, so that a
program which only needs names, such as a command line, starts fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SET_LABEL: Final = "cluster.open-cluster-management.io/clusterset"
"""The label by which a managed cluster names its exclusive set."""

GLOBAL_SET: Final = "global"
"""The set of all managed clusters, which is always there."""

MANAGED_CLUSTER_AVAILABLE: Final = "ManagedClusterConditionAvailable"
"""The condition of a managed cluster that says whether it can be used."""


@dataclass(frozen=True, slots=True)
class KindNames:
    """How one kind of resource is named, as an API server describes it."""

    group: str
    """Empty for the core group."""

    versions: tuple[str, ...]
    """Accepted versions, the preferred one first."""

    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool

    @property
    def api_versions(self) -> tuple[str, ...]:
        """`group/version` of each accepted version; the core group has no prefix."""
        return tuple(f"{self.group}/{version}" if self.group else version for version in self.versions)


KIND_NAMES: tuple[KindNames, ...] = (
    KindNames("", ("v1",), "Namespace", "namespaces", "namespace", ("ns",), namespaced=False),
    KindNames("", ("v1",), "Node", "nodes", "node", ("no",), namespaced=False),
    KindNames("", ("v1",), "Pod", "pods", "pod", ("po",), namespaced=True),
    KindNames("apps", ("v1",), "Deployment", "deployments", "deployment", ("deploy",), namespaced=True),
    KindNames("apps", ("v1",), "ReplicaSet", "replicasets", "replicaset", ("rs",), namespaced=True),
    KindNames("apps", ("v1",), "StatefulSet", "statefulsets", "statefulset", ("sts",), namespaced=True),
    KindNames("apps", ("v1",), "DaemonSet", "daemonsets", "daemonset", ("ds",), namespaced=True),
    KindNames("batch", ("v1",), "Job", "jobs", "job", (), namespaced=True),
    KindNames("moorage.io", ("v1alpha1",), "DedicatedNodes", "dedicatednodes", "dedicatednode", (), namespaced=False),
    KindNames("", ("v1",), "ConfigMap", "configmaps", "configmap", ("cm",), namespaced=True),
    KindNames("", ("v1",), "Service", "services", "service", ("svc",), namespaced=True),
    KindNames(
        "policy",
        ("v1",),
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "poddisruptionbudget",
        ("pdb",),
        namespaced=True,
    ),
    KindNames("machine.openshift.io", ("v1beta1",), "MachineSet", "machinesets", "machineset", (), namespaced=True),
    KindNames("cluster.karmada.io", ("v1alpha1",), "Cluster", "clusters", "cluster", (), namespaced=False),
    KindNames(
        "policy.karmada.io",
        ("v1alpha1",),
        "ClusterTaintPolicy",
        "clustertaintpolicies",
        "clustertaintpolicy",
        (),
        namespaced=False,
    ),
    KindNames(
        "policy.karmada.io",
        ("v1alpha1",),
        "PropagationPolicy",
        "propagationpolicies",
        "propagationpolicy",
        ("pp",),
        namespaced=True,
    ),
    KindNames(
        "policy.karmada.io",
        ("v1alpha1",),
        "ClusterPropagationPolicy",
        "clusterpropagationpolicies",
        "clusterpropagationpolicy",
        ("cpp",),
        namespaced=False,
    ),
    KindNames(
        "moorage.io", ("v1alpha1",), "EvictionBudget", "evictionbudgets", "evictionbudget", ("eb",), namespaced=False
    ),
    KindNames("moorage.io", ("v1alpha1",), "EvictionPause", "evictionpauses", "evictionpause", (), namespaced=False),
    KindNames(
        "cluster.open-cluster-management.io",
        ("v1",),
        "ManagedCluster",
        "managedclusters",
        "managedcluster",
        ("mcl", "mcls"),
        namespaced=False,
    ),
    KindNames(
        "cluster.open-cluster-management.io",
        ("v1beta2", "v1beta1", "v1alpha1"),
        "ManagedClusterSet",
        "managedclustersets",
        "managedclusterset",
        ("mclset", "mclsets"),
        namespaced=False,
    ),
    KindNames(
        "cluster.open-cluster-management.io",
        ("v1beta2", "v1beta1", "v1alpha1"),
        "ManagedClusterSetBinding",
        "managedclustersetbindings",
        "managedclustersetbinding",
        ("mclsetbinding", "mclsetbindings"),
        namespaced=True,
    ),
    KindNames(
        "cluster.open-cluster-management.io",
        ("v1beta1", "v1alpha1"),
        "Placement",
        "placements",
        "placement",
        (),
        namespaced=True,
    ),
    KindNames(
        "cluster.open-cluster-management.io",
        ("v1alpha1",),
        "AddOnPlacementScore",
        "addonplacementscores",
        "addonplacementscore",
        (),
        namespaced=True,
    ),
    KindNames(
        "addon.open-cluster-management.io",
        ("v1alpha1",),
        "ManagedClusterAddOn",
        "managedclusteraddons",
        "managedclusteraddon",
        ("mca",),
        namespaced=True,
    ),
    KindNames("coordination.k8s.io", ("v1",), "Lease", "leases", "lease", (), namespaced=True),
    KindNames("rbac.authorization.k8s.io", ("v1",), "ClusterRole", "clusterroles", "clusterrole", (), namespaced=False),
    KindNames(
        "rbac.authorization.k8s.io",
        ("v1",),
        "ClusterRoleBinding",
        "clusterrolebindings",
        "clusterrolebinding",
        (),
        namespaced=False,
    ),
    KindNames("rbac.authorization.k8s.io", ("v1",), "Role", "roles", "role", (), namespaced=True),
    KindNames("rbac.authorization.k8s.io", ("v1",), "RoleBinding", "rolebindings", "rolebinding", (), namespaced=True),
)
