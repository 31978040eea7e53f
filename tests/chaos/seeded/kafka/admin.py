"""The administrator's client, as far as Moorage uses aiokafka's `AIOKafkaAdminClient`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError, TopicAlreadyExistsError
from aiokafka.structs import OffsetAndMetadata
from tests.chaos.seeded.kafka.cluster import Client, Cluster
from tests.chaos.seeded.kafka.groups import described
from tests.chaos.seeded.kafka.loop import Process

_UNKNOWN_TOPIC = 3
_LEADER_NOT_AVAILABLE = 5
_LEADER_SECONDS = (0.0, 0.1)  # that a new topic's partitions have no leader


_BROKER: Mapping[str, str] = {"default.replication.factor": "1", "group.min.session.timeout.ms": "1000"}


class SimAdmin(Client):
    """An administrator's client."""

    def __init__(
        self, cluster: Cluster, process: Process, *, client_id: str = "aiokafka-admin", **_ignored: Any
    ) -> None:
        super().__init__(cluster, process, client_id)

    async def start(self) -> None:
        """Connect.

        Raises:
            KafkaConnectionError: no broker answers.
        """
        await self.ask(lambda _: None, error=KafkaConnectionError)

    async def close(self) -> None:
        """Close."""
        self.gone = True

    async def create_topics(self, new_topics: Sequence[Any], **_options: Any) -> Any:
        """Make topics; each has its error code in the answer."""

        def create(_: object) -> Any:
            errors: list[tuple[str, int, str | None]] = []
            for new in new_topics:
                if new.name in self.cluster.topics:
                    errors.append((new.name, TopicAlreadyExistsError.errno, "it exists"))
                    continue
                self.cluster.create(new.name, new.num_partitions, new.topic_configs or {})
                self.cluster.born[new.name] = self.loop.time() + self.cluster.draw(_LEADER_SECONDS)
                errors.append((new.name, 0, None))
            return SimpleNamespace(topic_errors=errors)

        return await self.ask(create, error=KafkaConnectionError)

    async def list_topics(self) -> list[str]:
        """The names of all topics."""
        found: list[str] = await self.ask(lambda _: list(self.cluster.topics), error=KafkaConnectionError)
        return found

    async def describe_topics(self, topics: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Topics with their partitions; what is unknown has an error code."""

        def describe(_: object) -> list[dict[str, Any]]:
            names = list(self.cluster.topics) if topics is None else topics
            return [self._topic(name) for name in names]

        found: list[dict[str, Any]] = await self.ask(describe, error=KafkaConnectionError)
        return found

    def _topic(self, name: str) -> dict[str, Any]:
        count = self.cluster.topics.get(name)
        if count is None:
            return {"error_code": _UNKNOWN_TOPIC, "topic": name, "is_internal": False, "partitions": []}
        born = self.loop.time() >= self.cluster.born[name]
        parts = [
            {
                "error_code": 0 if born else _LEADER_NOT_AVAILABLE,
                "partition": partition,
                "leader": 1 if born else -1,
                "replicas": [1],
                "isr": [1],
            }
            for partition in range(count)
        ]
        return {"error_code": 0, "topic": name, "is_internal": False, "partitions": parts}

    async def describe_cluster(self) -> dict[str, Any]:
        """The brokers: one."""
        broker = {"node_id": 1, "host": "simulated", "port": 9092, "rack": None}
        answer = {"brokers": [broker], "cluster_id": "simulated", "controller_id": 1}
        found: dict[str, Any] = await self.ask(lambda _: answer, error=KafkaConnectionError)
        return found

    async def describe_configs(self, config_resources: Iterable[Any], **_options: Any) -> list[Any]:
        """Settings of brokers and topics that were asked for."""

        def describe(_: object) -> list[Any]:
            resources = []
            for one in config_resources:
                known: Mapping[str, str] = self.cluster.configs.get(one.name, _BROKER)
                names = known if one.configs is None else one.configs
                found = [(name, known[name], False, 1, False) for name in names if name in known]
                resources.append((0, None, one.resource_type.value, one.name, found))
            return [SimpleNamespace(resources=resources)]

        found: list[Any] = await self.ask(describe, error=KafkaConnectionError)
        return found

    async def describe_consumer_groups(self, group_ids: Sequence[str], *_: Any, **_options: Any) -> list[Any]:
        """Groups with their members and what each holds."""

        def describe(_: object) -> list[Any]:
            groups = self.cluster.groups
            return [SimpleNamespace(groups=[described(groups.group(name), name) for name in group_ids])]

        found: list[Any] = await self.ask(describe, error=KafkaConnectionError)
        return found

    async def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,  # noqa: ARG002 - as aiokafka's
        partitions: Sequence[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """A group's committed offsets; -1 for a partition that was asked for and has none."""

        def offsets(_: object) -> dict[TopicPartition, OffsetAndMetadata]:
            committed = self.cluster.groups.group(group_id).committed
            if not partitions:
                return {tp: OffsetAndMetadata(offset, "") for tp, offset in committed.items()}
            return {tp: OffsetAndMetadata(committed.get(tp, -1), "") for tp in partitions}

        found: dict[TopicPartition, OffsetAndMetadata] = await self.ask(offsets, error=KafkaConnectionError)
        return found
