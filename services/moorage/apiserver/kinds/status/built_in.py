"""Objects that exist without being declared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
"""The namespaces that every Kubernetes API has."""

PRIORITY_CLASS: Final = "PriorityClass"
CLUSTER_CRITICAL: Final = "system-cluster-critical"
NODE_CRITICAL: Final = "system-node-critical"
SYSTEM_PRIORITIES: Final[Mapping[str, int]] = {CLUSTER_CRITICAL: 2_000_000_000, NODE_CRITICAL: 2_000_001_000}
"""The priority classes that every Kubernetes API has, each with its value."""

SERVICE_ACCOUNT: Final = "ServiceAccount"
DEFAULT_ACCOUNT: Final = "default"

IN_EACH_NAMESPACE: Final = ((SERVICE_ACCOUNT, DEFAULT_ACCOUNT),)
"""The kinds and names of the objects that every namespace has."""
