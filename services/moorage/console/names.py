"""Names of the read-only objects that tell what was decided on targets and workloads."""

from __future__ import annotations

from typing import Any, Final

from moorage.console.kinds import ObjectName
from moorage_schemas.resources.names import DEFAULT_NAMESPACE
from moorage_schemas.resources.workload_kinds import POD

NODE: Final = "Node"
CLUSTER: Final = "Cluster"
MANAGED_CLUSTER: Final = "ManagedCluster"
TARGETS: Final = (NODE, CLUSTER, MANAGED_CLUSTER)
BINDING: Final = "Binding"
EVENT: Final = "Event"
EVICTION: Final = "Eviction"
PLACED: Final = "WorkloadPlacement"
TAINT: Final = "Taint"
ZONE: Final = "Zone"


def target_prefix(kind: str, name: str) -> str:
    """The first part of the name of an object about a target: `node.n1`."""
    return f"{kind.lower()}.{name}"


def about_target(kind: str, name: str, *parts: str) -> str:
    """The name of an object about a target: `node.n1:NoExecute:example.com~key`."""
    return ":".join([target_prefix(kind, name), *parts]).replace("/", "~")


def workload_name(workload: ObjectName) -> str:
    """The name of an object about a workload: that of a pod, and `deployment:web` for any other kind."""
    return workload.name if workload.kind == POD else f"{workload.kind.lower()}:{workload.name}"


def workload_namespace(workload: ObjectName) -> str:
    """The namespace of an object about a workload. Some workloads have none."""
    return workload.namespace or DEFAULT_NAMESPACE


def local_names(value: Any, cluster: str) -> Any:
    """An answer about a cluster, without the cluster in the keys that it contains. For the home fleet, the answer."""
    return _local(value, f"{cluster}:") if cluster else value


def _local(value: Any, prefix: str) -> Any:
    if isinstance(value, str):
        return value.removeprefix(prefix) if "/" in value else value
    if isinstance(value, list):
        return [_local(one, prefix) for one in value]
    if isinstance(value, dict):
        return {key: _local(one, prefix) for key, one in value.items()}
    return value
