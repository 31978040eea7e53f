"""What the embedded broker is configured with: broker properties, logging, JVM flags, the format of its storage."""

from __future__ import annotations

import base64
import os
import uuid
from pathlib import Path

NODE_ID = 1
# Names inside the data folder, which is the JVM's working directory.
LOGS = "data"
LOG_FILE = "broker.log"
LOGGING_FILE = "log4j2.properties"
PROPERTIES_FILE = "server.properties"

_NODE = {
    "process.roles": "broker,controller",
    "node.id": str(NODE_ID),
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
}

# What suits a single small node wherever it runs; the tests give it to a container, too.
TUNING = {
    # Topics come from the table in moorage_schemas; a misspelt name must fail.
    "auto.create.topics.enable": "false",
    # One node: nothing to replicate to.
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    # A group of one machine: do not wait for members that may still come; let failures be noticed in seconds.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    # An abandoned transaction blocks readers until it is aborted: look every second instead of every ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # After a kill -9 the controller waits this long before it believes the broker's new incarnation, so that a restart
    # takes as long (default 9 s). But when the broker hangs for longer, its controller takes every partition's leader
    # away for a moment, and Kafka 4.3.1 can lose the markers of transactions that end in that moment. Moorage mends
    # that (docs/decisions/0013); other clients of this broker may wait for such a partition for ever.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "400",
    # A small machine: fewer threads, and a cleaner's buffer that fits the heap (default 128 MB).
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "background.threads": "4",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    "log.index.size.max.bytes": str(1024 * 1024),
}

LOGGING = f"""\
status = error
appender.file.type = RollingFile
appender.file.name = FILE
appender.file.fileName = {LOG_FILE}
appender.file.filePattern = {LOG_FILE}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
rootLogger.level = info
rootLogger.appenderRef.file.ref = FILE
"""
"""log4j2's configuration: one file, at most 30 MB with its two predecessors."""


def broker_properties(*, port: int, controller_port: int, extra: dict[str, str]) -> str:
    """Return the broker's properties file.

    Paths in it are relative to the broker's working directory, the data folder: so that folder may have any name
    (Kafka splits `log.dirs` at commas).

    Args:
        port: The clients' port on 127.0.0.1.
        controller_port: The port of the node's own KRaft controller on 127.0.0.1.
        extra: Broker settings by their Kafka names, which replace those of Moorage.
    """
    settings = {
        **_NODE,
        **TUNING,
        "log.dirs": LOGS,
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}",
        **extra,
    }
    return "".join(f"{_escape(key)}={_escape(value)}\n" for key, value in settings.items())


def _escape(text: str) -> str:
    """Escape what a Java properties file would read as syntax (java.util.Properties.load)."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in plain)


def jvm_flags(*, heap_mb: int) -> list[str]:
    """Return the flags for a broker that starts fast and stays small.

    The serial collector and the first-tier compiler halve the processor time of a start; what they cost in throughput
    shows only with more load than one small node is meant for.
    """
    return [
        f"-Xmx{heap_mb}m",
        "-Xms64m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        "--enable-native-access=ALL-UNNAMED",
        f"-Dlog4j2.configurationFile={LOGGING_FILE}",
    ]


def jvm_environment() -> dict[str, str]:
    """Return the environment for the JVM: this process's, with a locale in which it reads file names as UTF-8.

    In the C locale, the usual one of services and containers, it would not find a folder whose name is not ASCII.
    """
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def kafka_uuid() -> str:
    """Return a random identifier as Kafka writes them: 22 characters of URL-safe base64, never beginning with `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_storage(logs: Path, checkpoint: bytes) -> None:
    """Make an empty folder one that KRaft takes as formatted, as `kafka-storage format` leaves it.

    It writes two files: the feature levels the cluster begins with (the same for every cluster of one Kafka version
    with static voters), and the identity, which is what says that formatting is complete and so comes last.
    """
    logs.mkdir(parents=True, exist_ok=True)
    if (logs / "meta.properties").exists():
        return
    write_whole(logs / "bootstrap.checkpoint", checkpoint)
    identity = f"version=1\nnode.id={NODE_ID}\ncluster.id={kafka_uuid()}\ndirectory.id={kafka_uuid()}\n"
    write_whole(logs / "meta.properties", identity.encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or the next start after a crash, sees all of it or none."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
