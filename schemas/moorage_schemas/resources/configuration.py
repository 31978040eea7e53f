"""`MoorageConfiguration` (moorage.io): everything that changes the decisions of a fleet, in one object."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from moorage_schemas.base import OpenModel
from moorage_schemas.resources.meta import Resource

CONFIGURATION_KIND: Final = "MoorageConfiguration"

CONFIGURATION_NAME: Final = "cluster"
"""The name of the one configuration of a fleet."""

FAILOVER: Final = "Failover"
"""The feature gate for taints by ClusterTaintPolicy, and for evictions from clusters."""

Rate = Annotated[float, Field(strict=True)] | str
"""A number per second, or `inf` for no limit."""


class SourceGracePeriod(OpenModel):
    """The grace period of some sources about targets of one kind."""

    kind: str
    """`Node`, `Cluster` or `ManagedCluster`."""

    source: str
    """The name of a source. A `*` at the end matches any ending."""

    grace_period: str
    """A duration, such as `5m`. `0s` means that the source may be silent forever."""


class MoorageConfigurationSpec(OpenModel):
    """The settings that change decisions. Durations are written as `40s`, `5m` or `1m30s`.

    Each field has the name of the setting that gives its first content, and of upstream's flag where there is one.
    """

    feature_gates: dict[str, bool] = Field(default_factory=lambda: {FAILOVER: False})
    """`Failover` turns on taints by ClusterTaintPolicy, and evictions from clusters."""

    allow_no_execute_taint_policy: bool = False
    """Whether a ClusterTaintPolicy may contain a NoExecute taint."""

    enable_no_execute_taint_eviction: bool = False
    """Whether NoExecute taints evict from clusters. Also requires the feature gate Failover."""

    no_execute_taint_eviction_purge_mode: str = "Gracefully"
    """How work leaves a cluster if its policy does not state it: `Gracefully` or `Directly`."""

    graceful_eviction_timeout: str = "10m"
    """The time after which work leaves gracefully even if its replacement is not healthy."""

    evict_without_replacement: bool = False
    """Whether work leaves a cluster even if no other cluster takes it."""

    eviction_retention: str = "1d"
    """How long an eviction that is over, Completed or Cancelled, is kept after it was decided."""

    resource_eviction_rate: Rate = 0.5
    """Evictions from clusters per second in the whole fleet. `inf` means no limit, 0 stops them."""

    node_monitor_grace_period: str = "40s"
    """The time without a report from a source after which the conditions that it reported for a node become Unknown.
    `0s` means never."""

    cluster_monitor_grace_period: str = "40s"
    """The same for Karmada clusters."""

    managed_cluster_monitor_grace_period: str = "5m"
    """The same for OCM managed clusters. If a cluster sets `spec.leaseDurationSeconds`, five times that value is used
    instead. `0s` means never for all of them."""

    source_grace_periods: list[SourceGracePeriod] = Field(default_factory=list)
    """Grace periods of single sources. The first one that fits applies."""

    node_monitor_period: str = "5s"
    """The time between two ticks. At each, nodes that have become not ready since the last one may get a NoExecute
    taint."""

    node_eviction_rate: Rate = 0.1
    """Nodes per second in each zone that may get NoExecute taints. `inf` means no limit."""

    secondary_node_eviction_rate: Rate = 0.01
    """The same for a large zone in partial disruption."""

    unhealthy_zone_threshold: Annotated[float, Field(strict=True)] = 0.55
    """A zone is in partial disruption if at least this part of its nodes, and at least 3 nodes, are not ready."""

    large_cluster_size_threshold: int = 50
    """A zone with more nodes is large. Smaller zones get no NoExecute taints in partial disruption."""

    taint_add_hold: str = "0s"
    """How long a condition must last before it adds a taint (flap damping)."""

    taint_remove_hold: str = "0s"
    """How long a condition must last before it removes a taint."""

    disruption_budget_patience: str = "5m"
    """The time after which an eviction is granted despite a PodDisruptionBudget."""

    cloud_provider: str = ""
    """`external`: new nodes get the taint `uninitialized`, which a cloud controller removes."""

    clock_skew: str = "30s"
    """The time by which a report's time may be in the future."""

    report_max_bytes: int = 65_536
    """The maximum size of a report in bytes."""


class MoorageConfiguration(Resource):
    """The configuration of a fleet; cluster-scoped. There is one, and its name is `cluster`."""

    spec: MoorageConfigurationSpec = Field(default_factory=MoorageConfigurationSpec)
