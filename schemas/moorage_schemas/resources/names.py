"""Names of labels, sets and conditions that programs look for. No model is imported here, so that they load fast."""

from __future__ import annotations

from typing import Final

DEFAULT_NAMESPACE: Final = "default"
"""The namespace in which what is about an object without a namespace is shown, as Kubernetes does it with events."""

SET_LABEL: Final = "cluster.open-cluster-management.io/clusterset"
"""The label by which a managed cluster names its exclusive set."""

GLOBAL_SET: Final = "global"
"""The set of all managed clusters. It always exists."""

MANAGED_CLUSTER_AVAILABLE: Final = "ManagedClusterConditionAvailable"
"""The condition of a managed cluster that states whether it is available."""

PLACEMENT_LABEL: Final = "cluster.open-cluster-management.io/placement"
"""The label by which a PlacementDecision names its placement, as in Open Cluster Management's API."""

TRACE_ANNOTATION: Final = "moorage.io/traceparent"
"""The W3C trace context of a Requested eviction, which its deployer continues."""

DISABLED_ANNOTATION: Final = "cluster.open-cluster-management.io/experimental-scheduling-disable"
"""A placement with this annotation set to `true` keeps its decisions as they are."""
