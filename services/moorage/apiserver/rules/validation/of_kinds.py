"""The rules of each kind, by its name. Kinds whose rules need more override the methods of `Kind` that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from moorage.apiserver.rules import priorities
from moorage.apiserver.rules.validation import (
    config_data,
    core,
    events,
    karmada,
    lifecycle,
    moorage,
    nodes,
    ocm,
    pod_updates,
    pods,
    rbac,
    rollouts,
    workloads,
)
from moorage.decide.conditions.configuration_rules import validate_configuration
from moorage_schemas.taint import Taint

if TYPE_CHECKING:
    from moorage.decide.kubernetes.field_errors import FieldError
    from moorage_schemas.resources.dedicated import DedicatedNodes

_Document = Mapping[str, Any]


def _dedicated_nodes(rule: DedicatedNodes) -> list[FieldError]:
    """Validate the key, the value and the effect as those of a taint."""
    taint = Taint(key=rule.spec.key, value=rule.spec.value, effect=rule.spec.effect)
    return [replace(one, path=one.path.replace("spec[0]", "spec")) for one in core.validate_taints([taint], "spec")]


def _stateful_set_update(before: _Document, after: _Document) -> list[FieldError]:
    found = workloads.validate_same_selector(before, after)
    for field in ("volumeClaimTemplates", "serviceName", "podManagementPolicy"):
        found += workloads.validate_same(before, after, field)
    return found


OBJECTS: Final[Mapping[str, Callable[[Any], list[FieldError]]]] = {
    "AddOnPlacementScore": ocm.validate_add_on_score,
    "Cluster": karmada.validate_cluster,
    "DedicatedNodes": _dedicated_nodes,
    "EvictionBudget": lambda one: moorage.validate_eviction_budget(one.spec),
    "EvictionPause": lambda one: moorage.validate_eviction_pause(one.spec),
    "Lease": ocm.validate_lease,
    "MachineSet": moorage.validate_machine_set,
    "Maintenance": lambda one: moorage.validate_maintenance(one.spec),
    "ManagedCluster": ocm.validate_managed_cluster,
    "ManagedClusterAddOn": ocm.validate_add_on,
    "ManagedClusterSet": ocm.validate_cluster_set,
    "ManagedClusterSetBinding": ocm.validate_set_binding,
    "MoorageConfiguration": lambda one: validate_configuration(one.spec),
    "Node": lambda one: core.validate_taints(one.spec.taints or []),
    "PodDisruptionBudget": lambda one: moorage.validate_disruption_budget(one.spec),
    "ProbeGrant": lambda one: moorage.validate_probe_grant(one.spec),
    "TaintPolicy": moorage.validate_taint_policy,
    "Rollout": rollouts.validate_rollout,
    "Webhook": lambda one: moorage.validate_webhook(one.spec),
}
"""Rules of typed objects (`Kind.validate`)."""

DOCUMENTS: Final[Mapping[str, Callable[[_Document], list[FieldError]]]] = {
    "ConfigMap": config_data.validate_config_map,
    "DaemonSet": workloads.validate_daemon_set,
    "Deployment": workloads.validate_deployment,
    "EvictionRequest": lifecycle.validate_eviction_request,
    "Job": workloads.validate_job,
    "Node": nodes.validate_node,
    "Pod": pods.validate_pod,
    "ReplicaSet": workloads.validate_replica_set,
    "ReplicationController": workloads.validate_replication_controller,
    "StatefulSet": workloads.validate_stateful_set,
}
"""Rules of documents (`Kind.validate_fields`)."""

NEW: Final[Mapping[str, Callable[[_Document], list[FieldError]]]] = {
    "Event": events.validate_event,
    "EvictionRequest": lifecycle.validate_new_eviction_request,
    "Pod": pods.validate_new_pod,
    "PriorityClass": priorities.validate_priority_class,
    "Secret": config_data.validate_secret,
}
"""Further rules of documents that are being created."""

UPDATES: Final[Mapping[str, Callable[[_Document, _Document], list[FieldError]]]] = {
    "ClusterRoleBinding": rbac.validate_role_binding_update,
    "ConfigMap": lambda before, after: config_data.validate_immutable(before, after, "data", "binaryData"),
    "DaemonSet": workloads.validate_same_selector,
    "Deployment": workloads.validate_same_selector,
    "Event": events.validate_event_update,
    "EvictionRequest": lifecycle.validate_eviction_request_update,
    "Job": workloads.validate_job_update,
    "Node": nodes.validate_node_update,
    "Pod": pod_updates.validate_pod_update,
    "PriorityClass": priorities.validate_priority_class_update,
    "ReplicaSet": workloads.validate_same_selector,
    "RoleBinding": rbac.validate_role_binding_update,
    "Rollout": rollouts.validate_rollout_update,
    "StatefulSet": _stateful_set_update,
}
"""Rules of changes (`Kind.validate_update`): the document as it is shown, and as it is wanted."""
