"""The kinds of workloads, with the properties that placement and budgets need: one table for all layers.

No model is imported here, so that the table loads fast.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class WorkloadKind(NamedTuple):
    """One kind that a propagation policy can claim and send to clusters."""

    kind: str
    makes_pods: bool = False
    """Whether it is a controller that creates pods from a template."""

    scaled: bool = False
    """Whether `spec.replicas` states how many pods it wants. As in Kubernetes, a PodDisruptionBudget allows no
    evictions of pods with any other owner."""


WORKLOAD_KINDS: Final = (
    WorkloadKind("Pod"),
    WorkloadKind("Deployment", makes_pods=True, scaled=True),
    WorkloadKind("ReplicaSet", makes_pods=True, scaled=True),
    WorkloadKind("ReplicationController", makes_pods=True, scaled=True),
    WorkloadKind("StatefulSet", makes_pods=True, scaled=True),
    WorkloadKind("DaemonSet", makes_pods=True),
    WorkloadKind("Job", makes_pods=True),
    WorkloadKind("ConfigMap"),
    WorkloadKind("Service"),
)

POD: Final = "Pod"

RESOURCE_BINDING: Final = "ResourceBinding"
CLUSTER_RESOURCE_BINDING: Final = "ClusterResourceBinding"
BINDING_KINDS: Final = (RESOURCE_BINDING, CLUSTER_RESOURCE_BINDING)
"""The kinds of workloads that are placed on Karmada clusters. Those without a namespace are only mirrored."""

PROPAGATED: Final = tuple(one.kind for one in WORKLOAD_KINDS)
"""The kinds that a propagation policy can claim."""

CONTROLLERS: Final = tuple(one.kind for one in WORKLOAD_KINDS if one.makes_pods)
"""The kinds that create pods."""

SCALED: Final = frozenset(one.kind for one in WORKLOAD_KINDS if one.scaled)
"""The kinds that state how many pods they want."""
