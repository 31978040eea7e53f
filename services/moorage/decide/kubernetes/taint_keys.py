"""The keys of the taints that Kubernetes itself maintains on nodes."""

from __future__ import annotations

from typing import Final

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Put on a node that is shut down, to declare that nothing runs on it."""
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
CONTROL_PLANE_OLD: Final = "node-role.kubernetes.io/master"
