"""The embedded broker's configuration: broker properties, logging, JVM flags, and the format of its storage."""

from __future__ import annotations

import base64
import os
import uuid
from pathlib import Path

from moorage.runtime.process.shared_files import write_whole

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

# These settings suit a single small node wherever it runs. The tests also use them for a container.
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
    # A group on one machine: do not wait for members that may still join, and notice failures within seconds.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    # An abandoned transaction blocks readers until it is aborted, so check every second instead of every ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    # A transaction right after another one waits until the markers of that one are written, mostly for a millisecond.
    # The broker checks every millisecond, not every 20.
    "add.partitions.to.txn.retry.backoff.ms": "1",
    # After a kill -9 the controller waits this long before it accepts the restarted broker, so a restart takes at least
    # this long (default 9 s). When the broker hangs for longer, its controller removes the leader of every partition
    # for a moment. Kafka 4.3.1 can lose the markers of transactions that end in that moment. Moorage repairs this
    # (docs/decisions/0013). Other clients of this broker may wait for such a partition forever.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
    # By default the controller writes a record every half second, so that lagging controllers and brokers are noticed.
    # One node cannot lag behind itself, and this takes a third of its processor time at rest.
    "metadata.max.idle.interval.ms": "0",
    # A small machine: fewer threads, and a cleaner's buffer that fits the heap (default 128 MB).
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "background.threads": "4",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    # One thread compacts everything; it checks every five seconds for worthwhile work (default 15).
    "log.cleaner.threads": "1",
    "log.cleaner.backoff.ms": "5000",
    # Offsets and the states of transactions are written as often as the services commit, and only their last records
    # count. The segment that is written is never compacted, and it is read when the broker starts (default 100 MB).
    "offsets.topic.segment.bytes": str(8 * 1024 * 1024),
    "transaction.state.log.segment.bytes": str(8 * 1024 * 1024),
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
"""log4j2's configuration: one file and two older ones, which together take at most 30 MB."""


def broker_properties(*, port: int, controller_port: int, extra: dict[str, str]) -> str:
    """Return the broker's properties file.

    Its paths are relative to the broker's working directory, which is the data folder. Kafka splits `log.dirs` at
    commas, but the folder itself may have any name in this way.

    Args:
        port: The clients' port on 127.0.0.1.
        controller_port: The port of the node's own KRaft controller on 127.0.0.1.
        extra: Broker settings by their Kafka names. They replace those of Moorage.
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
    """Escape the characters that a Java properties file would read as syntax (java.util.Properties.load)."""
    plain = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in plain)


def jvm_flags(*, heap_mb: int) -> list[str]:
    """Return the flags for a broker that starts fast and stays small.

    The serial collector and the first-tier compiler halve the processor time of a start. They reduce throughput only
    under more load than a small single node is meant for.
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
    """Return the environment for the JVM: that of this process, with a locale in which file names are read as UTF-8.

    In the C locale, which services and containers usually have, the JVM would not find a folder whose name is not
    ASCII.
    """
    return {**os.environ, "LC_ALL": "C.UTF-8"}


def kafka_uuid() -> str:
    """Return a random identifier in Kafka's form: 22 characters of URL-safe base64 that do not begin with `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def format_storage(logs: Path, checkpoint: bytes) -> None:
    """Format an empty folder for KRaft in the same way as `kafka-storage format`.

    This writes two files. The first has the feature levels with which the cluster begins; they are the same for every
    cluster of one Kafka version with static voters. The second has the identity. It is written last, because it shows
    that formatting is complete.
    """
    logs.mkdir(parents=True, exist_ok=True)
    if (logs / "meta.properties").exists():
        return
    write_whole(logs / "bootstrap.checkpoint", checkpoint)
    identity = f"version=1\nnode.id={NODE_ID}\ncluster.id={kafka_uuid()}\ndirectory.id={kafka_uuid()}\n"
    write_whole(logs / "meta.properties", identity.encode())
