"""Settings of every process, from the environment (`MOORAGE_…`) or the command line."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from moorage.core.apimachinery.durations import seconds_of
from moorage.core.conditions.heartbeats import parse_source_grace_periods
from moorage.runtime import environment


def _seconds(value: object) -> object:
    """Return `40s`, `5m` or `1m30s` as seconds. Other values are left for pydantic to validate."""
    seconds = seconds_of(value.strip()) if isinstance(value, str) else None
    return value if seconds is None else seconds


Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]
"""Seconds, or a duration in the form of Kubernetes' flags, such as `40s`."""

FEATURE_GATES = ("Failover",)
"""The feature gates that exist."""


class Settings(BaseSettings):
    """Every field is the environment variable `MOORAGE_` + its name in upper case."""

    model_config = SettingsConfigDict(env_prefix=environment.PREFIX, extra="ignore", frozen=True)

    bootstrap_servers: str = ""
    """Kafka's addresses, comma-separated; empty means the embedded broker."""

    topic_prefix: str = Field(default="moorage", pattern=r"^[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*$")
    """The topics' first part, so that several fleets can share a cluster."""

    partitions: int = Field(default=24, ge=1, le=10_000)
    """Partitions of each topic when it is made; an existing fleet's number is read from the cluster."""

    replication_factor: int = Field(default=0, ge=0)
    """Copies of each partition; 0 takes the broker's default."""

    batch_max_records: int = Field(default=500, ge=1, le=10_000)
    """Records in one transaction, at most."""

    batch_linger_ms: int = Field(default=20, ge=0, le=1000)
    """Milliseconds that a batch may wait for more while the one before it is being written."""

    transaction_timeout_ms: int = Field(default=12_000, ge=1000)
    """Milliseconds before the broker aborts an abandoned transaction; it blocks readers till then."""

    session_timeout_ms: int = Field(default=10_000, ge=1000)
    """Milliseconds of silence before a member's partitions go to others."""

    heartbeat_interval_ms: int = Field(default=2_000, ge=100)
    """Milliseconds between a member's heartbeats to the group's coordinator."""

    reconcile_interval: float = Field(default=30.0, gt=0)
    """Seconds between the reconciler's rounds over a partition."""

    watchdog_timeout: float = Field(default=60.0, gt=0)
    """Seconds of lag without progress after which the process ends itself."""

    clock_skew: float = Field(default=30.0, ge=0)
    """Seconds that a report's time may lie in the future."""

    report_max_bytes: int = Field(default=65_536, ge=1024)
    """Bytes of the largest report."""

    # These settings decide how fast and how far taints go. Where upstream has such a flag, the setting has its name.

    feature_gates: str = ""
    """`Failover=true` turns on taints by ClusterTaintPolicy and evictions from clusters; off by default."""

    allow_no_execute_taint_policy: bool = False
    """Whether a ClusterTaintPolicy may hold a NoExecute taint."""

    enable_no_execute_taint_eviction: bool = False
    """Whether NoExecute taints evict from clusters; needs the feature gate Failover, too."""

    no_execute_taint_eviction_purge_mode: Literal["Gracefully", "Directly"] = "Gracefully"
    """How work leaves a cluster whose policy does not say."""

    graceful_eviction_timeout: Seconds = 600.0
    """Seconds after which work leaves gracefully though its replacement is not healthy; a policy may say otherwise."""

    evict_without_replacement: bool = False
    """Whether work leaves a cluster although no other one takes it."""

    resource_eviction_rate: float = Field(default=0.5, ge=0)
    """Evictions from clusters per second, over the fleet; `inf` lifts the limit, 0 stops."""

    node_monitor_grace_period: Seconds = 40.0
    """Seconds of silence of a source after which what it said of a node is Unknown; 0 waits for ever."""

    cluster_monitor_grace_period: Seconds = 40.0
    """The same of a Karmada cluster."""

    managed_cluster_monitor_grace_period: Seconds = 300.0
    """The same of an OCM managed cluster that does not say `spec.leaseDurationSeconds`, five of which count instead; 0
    waits for ever, whatever it says."""

    source_grace_periods: str = ""
    """Of single sources: `Kind:source=duration`, comma-separated, `*` at the source's end for any; the first that
    fits holds. `Node:probe/disk=5m,Node:probe/*=0`."""

    node_monitor_period: Seconds = 5.0
    """Seconds for which a node waits before it may be tainted NoExecute, so that an outage is seen whole."""

    node_eviction_rate: float = Field(default=0.1, ge=0)
    """Nodes per second and zone that get NoExecute taints; `inf` lifts the limit."""

    secondary_node_eviction_rate: float = Field(default=0.01, ge=0)
    """The same in a zone in partial disruption that is large."""

    unhealthy_zone_threshold: float = Field(default=0.55, ge=0, le=1)
    """The part of a zone's nodes that are not ready (and at least 3) from which it is in partial disruption."""

    large_cluster_size_threshold: int = Field(default=50, ge=0)
    """A zone with more nodes is large; in partial disruption a smaller one stops."""

    taint_add_hold: Seconds = 0.0
    """Seconds for which a condition must hold before it adds a taint (flap damping)."""

    taint_remove_hold: Seconds = 0.0
    """Seconds for which a condition must hold before it removes one."""

    disruption_budget_patience: Seconds = 300.0
    """Seconds after which an eviction goes in spite of a PodDisruptionBudget."""

    cloud_provider: Literal["", "external"] = ""
    """`external`: new nodes are not initialised until a cloud controller says so."""

    http_host: str = "127.0.0.1"
    """Where health, metrics and the gateway listen."""

    http_port: int = Field(default=0, ge=0, le=65535)
    """Port of a service's health and metrics; 0 takes a free one."""

    gateway_port: int = Field(default=environment.GATEWAY_PORT, ge=0, le=65535)
    """Port of the gateway; 0 takes a free one."""

    server: str = ""
    """Where the CLI finds the gateway; empty takes the one that `moorage up` started, else port 8080."""

    log_format: Literal["auto", "json", "console"] = "auto"
    """`auto` writes JSON unless the log goes to a terminal."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is written."""

    @field_validator("feature_gates")
    @classmethod
    def _known_gates(cls, value: str) -> str:
        _gates(value)
        return value

    @field_validator("source_grace_periods")
    @classmethod
    def _sound_grace_periods(cls, value: str) -> str:
        parse_source_grace_periods(value)
        return value

    @property
    def failover(self) -> bool:
        """Whether the feature gate Failover is on."""
        return _gates(self.feature_gates).get("Failover", False)


def _gates(text: str) -> dict[str, bool]:
    """Return `Failover=true,…` as a mapping.

    Raises:
        ValueError: a gate is unknown, or its value is neither true nor false.
    """
    gates = {}
    for part in filter(None, (item.strip() for item in text.split(","))):
        name, _, value = part.partition("=")
        if name not in FEATURE_GATES:
            raise ValueError(f"feature gate {name!r}: must be one of {', '.join(FEATURE_GATES)}")
        if value.lower() not in {"true", "false"}:
            raise ValueError(f"feature gate {name}: invalid value {value!r}: must be true or false")
        gates[name] = value.lower() == "true"
    return gates
