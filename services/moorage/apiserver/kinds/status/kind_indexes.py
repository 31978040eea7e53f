"""The indexes of each kind, by its name. An index that several kinds name exists once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moorage.apiserver.kinds.status.controllers import OwnerIndex
from moorage.apiserver.kinds.status.daemon_sets import DaemonIndex
from moorage.apiserver.kinds.status.disruption import DisruptionIndex
from moorage.apiserver.kinds.status.guards import BudgetIndex, MaintenanceIndex, PauseIndex
from moorage.apiserver.kinds.status.index import Index
from moorage.apiserver.kinds.status.leaves import LeaveIndex
from moorage.apiserver.kinds.status.machines import MachineIndex
from moorage.apiserver.kinds.status.namespaces import NamespaceIndex
from moorage.apiserver.kinds.status.ocm import ManagedIndex
from moorage.apiserver.kinds.status.pods import DedicatedIndex, PriorityIndex
from moorage.apiserver.kinds.status.reported import NodeIndex, ReportIndex
from moorage.apiserver.kinds.status.resource_bindings import PolicyIndex
from moorage.apiserver.kinds.status.roles import AggregationIndex, SetRoleIndex
from moorage.apiserver.kinds.status.rollouts import RolloutIndex
from moorage.apiserver.kinds.status.targets import TargetIndex

_CONTROLLERS: Final = ("Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet")

INDEXES: Final[Mapping[str, tuple[type[Index], ...]]] = {
    **dict.fromkeys(_CONTROLLERS, (OwnerIndex, ReportIndex, NodeIndex, RolloutIndex)),
    "Cluster": (TargetIndex,),
    "ClusterPropagationPolicy": (PolicyIndex,),
    "ClusterRole": (AggregationIndex,),
    "DaemonSet": (OwnerIndex, ReportIndex, NodeIndex, RolloutIndex, DedicatedIndex, DaemonIndex),
    "DedicatedNodes": (DedicatedIndex,),
    "EvictionBudget": (BudgetIndex,),
    "EvictionPause": (PauseIndex, BudgetIndex),
    "EvictionRequest": (LeaveIndex,),
    "MachineSet": (MachineIndex,),
    "Maintenance": (MaintenanceIndex,),
    "ManagedCluster": (TargetIndex, ManagedIndex),
    "ManagedClusterAddOn": (ManagedIndex,),
    "ManagedClusterSet": (ManagedIndex, SetRoleIndex),
    "ManagedClusterSetBinding": (ManagedIndex,),
    "Namespace": (NamespaceIndex,),
    "Node": (TargetIndex,),
    "Pod": (OwnerIndex, DedicatedIndex, ReportIndex, NodeIndex, DisruptionIndex),
    "PodDisruptionBudget": (BudgetIndex, DisruptionIndex, OwnerIndex),
    "PriorityClass": (PriorityIndex,),
    "PropagationPolicy": (PolicyIndex,),
    "ResourceBinding": (OwnerIndex, ReportIndex, NodeIndex, PolicyIndex),
}
