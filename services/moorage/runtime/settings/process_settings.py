"""Settings of every process, from the environment (`MOORAGE_…`) or the command line."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator
from pydantic_settings import SettingsConfigDict

from moorage.decide.conditions.configuration_rules import FEATURE_GATES
from moorage.decide.conditions.heartbeats import parse_source_grace_periods
from moorage.runtime.settings import environment
from moorage.runtime.settings.kafka_settings import KafkaSettings
from moorage.runtime.settings.server_settings import Seconds, ServerSettings


class Settings(ServerSettings, KafkaSettings):
    """Each field is set by the environment variable `MOORAGE_` + its name in upper case."""

    model_config = SettingsConfigDict(
        env_prefix=environment.PREFIX, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    topic_prefix: str = Field(default="moorage", pattern=r"^[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*$")
    """The first part of all topic names. With different prefixes, several fleets can share a Kafka cluster."""

    partitions: int = Field(default=24, ge=1, le=10_000)
    """The number of partitions of each new topic. For an existing fleet, the number is read from Kafka. Unless it is
    given, `moorage up` uses 1 with its embedded Kafka: one process of each service gains nothing from more."""

    replication_factor: int = Field(default=0, ge=0)
    """The number of replicas of each partition. 0 uses the broker's default."""

    batch_max_records: int = Field(default=500, ge=1, le=10_000)
    """The maximum number of records in a transaction. It is up to four times as high while more are queued and each
    takes little time."""

    batch_linger_ms: int = Field(default=20, ge=0, le=1000)
    """Milliseconds that a batch may wait for more records while the previous batch is being written."""

    transaction_timeout_ms: int = Field(default=12_000, ge=1000)
    """Milliseconds after which the broker aborts an abandoned transaction. Until then it blocks readers."""

    session_timeout_ms: int = Field(default=1_500, ge=1000)
    """Milliseconds without a heartbeat after which a member's partitions are assigned to others. If the broker's
    `group.min.session.timeout.ms` is longer (Kafka's default is 6000), that is used."""

    heartbeat_interval_ms: int = Field(default=500, ge=100)
    """Milliseconds between a member's heartbeats to the group's coordinator; at most a third of the session's time."""

    standbys: int = Field(default=1, ge=0, le=10)
    """The number of other processes of a service that keep the tables of each partition ready for a takeover within
    moments. Each copy needs the memory of the partition's state again. 0 for none."""

    reconcile_interval: float = Field(default=30.0, gt=0)
    """Seconds between two runs of the reconciler over a partition."""

    watchdog_timeout: float = Field(default=60.0, gt=0)
    """Seconds of lag without progress after which the process exits."""

    clock_skew: float = Field(default=30.0, ge=0)
    """Seconds by which a report's time may be in the future."""

    report_max_bytes: int = Field(default=65_536, ge=1024)
    """The maximum size of a report in bytes."""

    report_qps: int = Field(default=0, ge=0, le=1_000_000)
    """Reports per second of each source to which no ProbeGrant sets a limit. 0 for no limit."""

    report_burst: int = Field(default=0, ge=0, le=1_000_000)
    """The burst of such a source, in reports. 0 for ten times `report_qps`."""

    # These settings determine how fast and how far taints act. If upstream has such a flag, the setting has its name.

    feature_gates: str = ""
    """`Failover=true` turns on taints by ClusterTaintPolicy, and evictions from clusters. Off by default."""

    allow_no_execute_taint_policy: bool = False
    """Whether a ClusterTaintPolicy may contain a NoExecute taint."""

    enable_no_execute_taint_eviction: bool = False
    """Whether NoExecute taints evict from clusters. Also requires the feature gate Failover."""

    no_execute_taint_eviction_purge_mode: Literal["Gracefully", "Directly"] = "Gracefully"
    """The way in which work leaves a cluster, unless its policy sets it."""

    graceful_eviction_timeout: Seconds = 600.0
    """Seconds after which work leaves gracefully even if its replacement is not healthy. A policy may override this."""

    evict_without_replacement: bool = False
    """Whether work leaves a cluster even if no other cluster takes it."""

    eviction_retention: Seconds = 86_400.0
    """Seconds for which a Completed or Cancelled eviction is kept after its decision."""

    resource_eviction_rate: float = Field(default=0.5, ge=0)
    """Evictions from clusters per second in the whole fleet. `inf` means no limit, 0 stops them."""

    node_monitor_grace_period: Seconds = 40.0
    """Seconds without a report from a source after which the conditions that it reported for a node become Unknown.
    0 means never."""

    cluster_monitor_grace_period: Seconds = 40.0
    """The same for Karmada clusters."""

    managed_cluster_monitor_grace_period: Seconds = 300.0
    """The same for OCM managed clusters. If a cluster sets `spec.leaseDurationSeconds`, five times that value is used
    instead. 0 means never for all of them."""

    source_grace_periods: str = ""
    """Grace periods of single sources, as `Kind:source=duration` separated by commas. A `*` at the end of a source
    matches any ending. The first match applies. Example: `Node:probe/disk=5m,Node:probe/*=0`."""

    node_monitor_period: Seconds = 5.0
    """Seconds between two ticks. At each, nodes that are newly not ready may get a NoExecute taint."""

    node_eviction_rate: float = Field(default=0.1, ge=0)
    """Nodes per second in each zone that may get NoExecute taints. `inf` means no limit."""

    secondary_node_eviction_rate: float = Field(default=0.01, ge=0)
    """The same for a large zone in partial disruption."""

    unhealthy_zone_threshold: float = Field(default=0.55, ge=0, le=1)
    """A zone is in partial disruption if at least this part of its nodes, and at least 3 nodes, are not ready."""

    large_cluster_size_threshold: int = Field(default=50, ge=0)
    """A zone with more nodes is large. Smaller zones get no NoExecute taints in partial disruption."""

    taint_add_hold: Seconds = 0.0
    """Seconds for which a condition must last before it adds a taint (flap damping)."""

    taint_remove_hold: Seconds = 0.0
    """Seconds for which a condition must last before it removes a taint."""

    disruption_budget_patience: Seconds = 300.0
    """Seconds after which an eviction is granted despite a PodDisruptionBudget."""

    cloud_provider: Literal["", "external"] = ""
    """`external`: new nodes get the taint `uninitialized`, which a cloud controller removes."""

    http_port: int = Field(default=0, ge=0, le=65535)
    """The port for a service's health and metrics. 0 chooses a free one."""

    gateway_port: int = Field(default=environment.GATEWAY_PORT, ge=0, le=65535)
    """The gateway's port. 0 chooses a free one."""

    gateway_address: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """The address at which other gateways reach this one, such as `http://10.0.0.7:8080`. Empty means the one on which
    it listens, with the host's name if it listens on all of them."""

    event_ttl: Seconds = 3_600.0
    """Seconds for which the gateway keeps a Kubernetes Event after it was last written."""

    events_kept: int = Field(default=50_000, ge=0)
    """The maximum number of Events that the gateway keeps. The oldest are deleted first."""

    max_requests_in_flight: int = Field(default=400, ge=0)
    """The maximum number of concurrent read requests at a gateway, without watches. 0 means no limit."""

    max_mutating_requests_in_flight: int = Field(default=200, ge=0)
    """The maximum number of concurrent write requests at a gateway. 0 means no limit."""

    max_body_bytes_in_flight: int = Field(default=100_000_000, ge=0)
    """The maximum number of bytes of request bodies that a gateway holds at a time. 0 means no limit."""

    max_watches_per_user: int = Field(default=5_000, ge=0)
    """The maximum number of watches of a user at a gateway. 0 means no limit."""

    max_connections: int = Field(default=10_000, ge=0)
    """The maximum number of connections to a gateway. Further ones are closed. 0 means no limit."""

    query_server: str = Field(default="", pattern=r"^(https?://\S+)?$")
    """The query worker's address for the gateway, such as `http://127.0.0.1:8082`. Empty means none."""

    simulation_timeout: float = Field(default=60.0, gt=0, le=3_600)
    """Seconds after which the query worker kills a simulation over HTTP. Gateways wait for twice as long and 30 s, so
    set it for both."""

    webhook_secrets_dir: str = ""
    """The folder with the files that `spec.secretFile` of a Webhook names. Empty means `webhook-secrets` in the folder
    of the state."""

    webhook_ca_file: str = ""
    """A PEM file with the authorities of the receivers of webhooks. Empty means those of the system."""

    server: str = ""
    """The gateway's address for the CLI. Empty means the one that `moorage up` started, or the current context of
    the kubeconfig."""

    log_format: Literal["auto", "json", "console"] = "auto"
    """`auto` writes JSON unless the log is written to a terminal."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""

    decision_log_qps: int = Field(default=50, ge=0, le=1_000_000)
    """Lines per second of each kind of decision that a process logs, with a burst of five seconds. 0 for no limit."""

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
    """Return `Failover=true,…` as a mapping."""
    gates = {}
    for part in filter(None, (item.strip() for item in text.split(","))):
        name, _, value = part.partition("=")
        if name not in FEATURE_GATES:
            raise ValueError(f"feature gate {name!r}: must be one of {', '.join(FEATURE_GATES)}")
        if value.lower() not in {"true", "false"}:
            raise ValueError(f"feature gate {name}: invalid value {value!r}: must be true or false")
        gates[name] = value.lower() == "true"
    return gates
