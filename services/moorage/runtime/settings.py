"""Settings of every process, from the environment (`MOORAGE_…`) or the command line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


def state_folder() -> Path:
    """Where Moorage keeps its own files: `MOORAGE_STATE_DIR`, else the user's state folder."""
    if folder := os.environ.get("MOORAGE_STATE_DIR"):
        return Path(folder)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "moorage"


class Settings(BaseSettings):
    """Every field is the environment variable `MOORAGE_` + its name in upper case."""

    model_config = SettingsConfigDict(env_prefix="MOORAGE_", extra="ignore", frozen=True)

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

    http_host: str = "127.0.0.1"
    """Where health, metrics and the gateway listen."""

    http_port: int = Field(default=0, ge=0, le=65535)
    """Port of a service's health and metrics; 0 takes a free one."""

    gateway_port: int = Field(default=8080, ge=0, le=65535)
    """Port of the gateway; 0 takes a free one."""

    server: str = ""
    """Where the CLI finds the gateway; empty takes the one that `moorage up` started, else port 8080."""

    log_format: Literal["auto", "json", "console"] = "auto"
    """`auto` writes JSON unless the log goes to a terminal."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is written."""
